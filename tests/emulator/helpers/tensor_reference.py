"""tcgen05 as PTX ISA describes it: where tensor memory and shared memory hold the elements of matrices.

Written from the document's tables and the canonical layouts that it gives in the terms of CuTe, apart from the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import matrix_reference
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Codes = NDArray[np.uint64]

LANES, COLUMNS = 128, 512
# Shape of ld and st: lanes, columns of 32 bits for each repetition.
SHAPES = {"32x32b": (32, 1), "16x64b": (16, 2), "16x128b": (16, 4), "16x256b": (16, 8), "16x32bx2": (16, 2)}
# Bytes that a swizzle covers and keeps together, to the mode that a descriptor says.
MODES = {(16, 16): 0, (128, 32): 1, (128, 16): 2, (64, 16): 4, (32, 16): 6}
# Bits of an element in shared memory as tcgen05.mma reads it: 16 elements of 6 or 4 bits take 16 bytes.
TYPES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "i8": {"u8": 0, "s8": 1},
    "mxf8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
}
ELEMENT_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}


def elements_of_16_bytes(kind: str, element: str) -> int:
    if kind in ("mxf4", "mxf4nvf4"):
        return 32
    return {"f16": 8, "tf32": 4}.get(kind, 16)


def registers(shape: str, repeat: int) -> int:
    return repeat * {"16x128b": 2, "16x256b": 4}.get(shape, 1)


def cells(shape: str, repeat: int, split: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """register, thread, lane and column of each 32 bits, the last two from the address on."""
    if shape == "32x32b":
        yield from ((c, t, t, c) for c in range(repeat) for t in range(32))
    elif shape == "16x32bx2":
        yield from ((c, t, t % 16, c + (split if t >= 16 else 0)) for c in range(repeat) for t in range(32))
    else:
        lanes, wide = SHAPES[shape]
        for lane in range(lanes):
            for column in range(wide * repeat):
                part, within = divmod(column, wide)
                group, lower = lane % 8, lane // 8
                if shape == "16x64b":
                    register, thread = part, group * 4 + within * 2 + lower
                elif shape == "16x128b":
                    register, thread = part * 2 + lower, group * 4 + within
                else:
                    register, thread = part * 4 + lower * 2 + within % 2, group * 4 + within // 2
                yield register, thread, lane, column


@dataclass(frozen=True)
class Shared:
    """How a matrix of rows (of A; columns of B) lies in shared memory. by_k: its elements of one row are adjacent."""

    swizzle: int = 128
    by_k: bool = True
    atom: int = 16
    row: int = 0  # of 128 bytes, at which the pattern of the swizzle begins: a base offset

    def strides(self, rows: int, unit: int) -> tuple[int, int]:
        """Leading and stride offset in bytes, with room between parts, so that the two cannot be mixed up."""
        if self.by_k:
            return (144 * (rows // 8) + 128, 128 + 16) if self.swizzle == 16 else (16, 8 * self.swizzle)
        if self.swizzle == 16:
            return 128 * (rows // unit + 1) + 256, 128
        along = 2 * (4 if self.atom == 32 else 8) * self.swizzle
        return 4 * along, along

    def place(self, row: int, k: int, rows: int, unit: int) -> int:
        """The 16 bytes that hold an element, of which there are `unit` in them. The document's canonical layouts, T =
        unit: by K ((8,m),(T,2k)):((wT,stride),(1,T)), else ((T,w,m),(8,k)):((1,T,leading),(wT,stride)) where w
        chunks make a row of the swizzle; with atoms of 32 bytes the pattern has 4 rows. Without a swizzle the
        distances of chunks are the two offsets."""
        leading, stride = self.strides(rows, unit)
        wide = self.swizzle // 16
        if self.by_k:
            at = row % 8 * 16 * wide + row // 8 * stride + k // unit * (leading if wide == 1 else 16)
        else:
            pattern = 4 if self.atom == 32 else 8
            across, along = (stride, leading) if wide == 1 else (leading, stride)
            at = row // unit % wide * 16 + row // (unit * wide) * across
            at += k % pattern * 16 * wide + k // pattern * along
        if self.atom == 32:
            return at ^ ((at >> 7) - self.row & 3) << 5
        return at ^ ((at >> 7) - self.row & 7 & (wide - 1)) << 4

    def descriptor(self, start: int, rows: int, unit: int) -> int:
        leading, stride = self.strides(rows, unit)
        mode = MODES[self.swizzle, self.atom]
        return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | 1 << 46 | self.row << 49 | mode << 61

    def image(self, matrix: Codes, kind: str, element: str, size: int) -> bytes:
        """matrix[row, k] where it lies; the bytes between are no element's."""
        unit = elements_of_16_bytes(kind, element)
        bits = ELEMENT_BITS.get(element, 128 // unit)
        chunks: dict[int, int] = {}
        for (row, k), code in np.ndenumerate(matrix):
            at, within = self.place(row, k, len(matrix), unit), (k if self.by_k else row) % unit
            chunks[at] = chunks.get(at, 0) | int(code) << within * bits
        memory = np.full(size, 0x5A, np.uint8)
        for at, chunk in chunks.items():
            memory[at : at + 16] = np.frombuffer(chunk.to_bytes(16, "little"), np.uint8)
        return memory.tobytes()


@dataclass(frozen=True)
class Split(Shared):
    """48 bytes of a row begin 32 bytes before the end of 128: what does not fit goes on at `second`, of the same layout
    (the absolute mode of the leading dimension)."""

    second: int = 1 << 14

    def place(self, row: int, k: int, rows: int, unit: int) -> int:
        at, chunk = row * 128, k // unit
        at += 96 + 16 * chunk if chunk < 2 else self.second + 16 * (chunk - 2)
        return at ^ (at >> 7 & 7) << 4

    def descriptor(self, start: int, rows: int, unit: int) -> int:
        return start + 96 >> 4 | start + self.second >> 4 << 16 | 64 << 32 | 1 << 46 | 1 << 52 | 2 << 61


@dataclass
class Product:
    """One tcgen05.mma. a, b: element types. Matrices are codes: A by row and k, B by column and k, D by row, column."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    weights_stationary: bool = False
    pair: bool = False
    sparse: bool = False
    negate: tuple[int, int] = (0, 0)
    transposed: tuple[bool, bool] = (False, False)
    saturate: bool = False
    powers: bool = True
    scales: int = 0
    scale_bytes: tuple[int, int] = (0, 0)
    selector: int = 0
    first_lane: int = 0
    longer: bool = False  # K = 96 of 4 bits
    blocks: int = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = 2 if self.pair else 1

    @property
    def k(self) -> int:
        chunks = 3 if self.longer else 2
        return chunks * elements_of_16_bytes(self.kind, self.a) * (2 if self.sparse else 1)

    @property
    def factors(self) -> int:
        """Of a row; `scales` are those of 64 elements."""
        return self.scales * 3 // 2 if self.longer else self.scales

    def descriptor(self) -> int:
        types = TYPES[self.kind]
        bits = types[self.a] << 7 | types[self.b] << 10 | self.negate[0] << 13 | self.negate[1] << 14
        bits |= self.transposed[0] << 15 | self.transposed[1] << 16 | self.n // 8 << 17 | self.sparse << 2
        if self.scales:
            bits |= self.scale_bytes[1] << 4 | self.powers << 23 | self.m // 128 << 27
            return bits | self.scale_bytes[0] << 29 | self.longer << 31
        d = {"f16": 0, "f32": 1, "s32": 2}[self.d]
        return bits | self.selector | self.saturate << 3 | d << 4 | self.m // 16 << 24

    @property
    def half(self) -> bool:
        """Whether D is in 16 of each 32 lanes: layouts C and F."""
        split = self.weights_stationary or (self.pair and not self.sparse)
        return self.m // self.blocks == 64 and not split

    def lane_of(self, own: int) -> int:
        """The first lane for a row of a block."""
        return own // 16 * 32 + own % 16 + self.first_lane if self.half else own

    def places(self) -> Iterator[tuple[int, int, int, int, int]]:
        """row and column of D, and the block, lane and column of tensor memory that have it."""
        rows = self.m // self.blocks
        for row in range(self.m):
            block, own = divmod(row, rows)
            for column in range(self.n):
                if rows == 128:  # layouts A and D
                    lane, at = own, column
                elif self.half:
                    lane, at = self.lane_of(own), column
                else:  # B, E and G: columns are spread over the rest of the lanes
                    part, at = divmod(column, self.n * rows // 128)
                    lane = part * rows + own
                yield row, column, block, lane, at

    def values(self, matrix: Codes, element: str) -> NDArray[np.float64]:
        return values_of(matrix, element)

    def result(
        self,
        a: NDArray[np.float64],
        b: NDArray[np.float64],
        d: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Of numbers whose sums are exact in every type, so that no order of them matters."""
        sign = -1.0 if self.negate[0] != self.negate[1] else 1.0
        return sign * (a @ b.T) + d


def values_of(matrix: Codes, element: str) -> NDArray[np.float64]:
    """Codes of e2m1 are 4 bits here, wherever they lie."""
    return matrix_reference.values(matrix, "packed_e2m1" if element == "e2m1" else element)


def words(numbers: NDArray[np.float64], kind: str) -> Words:
    """D in words of tensor memory."""
    if kind == "s32":
        return numbers.astype(np.int64).astype(np.uint32)
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
    return numbers.astype(np.float32).view(np.uint32)


def exact_codes(element: str, shape: tuple[int, ...], random: np.random.Generator) -> Codes:
    """Codes of numbers that are multiples of 1/8 below 32: sums of up to 128 products are exact in f32. Halves:
    integers from -3 to 3, whose sums are exact in f16 too."""
    if element in ("f16", "bf16", "tf32"):
        numbers = random.integers(-3, 4, shape).astype(np.float32)
        if element == "f16":
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
        bits = numbers.view(np.uint32).astype(np.uint64)
        return bits >> np.uint64(16) if element == "bf16" else bits | np.uint64(0x1ABC)  # unread digits
    bits = ELEMENT_BITS.get(element, 8)
    if element in ("s8", "u8"):
        return random.integers(0, 256, shape).astype(np.uint64)
    every = np.arange(1 << bits, dtype=np.uint64)
    numbers = values_of(every, element)
    every, numbers = every[np.isfinite(numbers)], numbers[np.isfinite(numbers)]
    return random.choice(every[(numbers * 8 % 1 == 0) & (abs(numbers) < 32)], shape)


def tensor_rows(matrix: Codes, kind: str, element: str) -> Words:
    """Rows of A as tensor memory holds them: side by side; of 6 and 4 bits in bytes, the 4 bits in their middle."""
    bits = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(kind, 8)
    shift = 2 if element == "e2m1" and bits == 8 else 0
    rows, k = matrix.shape
    result = np.zeros((rows, k * bits // 32), np.uint64)
    for (row, at), code in np.ndenumerate(matrix):
        result[row, at * bits // 32] |= np.uint64((int(code) << shift) << at * bits % 32)
    return result.astype(np.uint32)
