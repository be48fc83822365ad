"""How far copies and fills reach from the pointers that they are given.

Pure arithmetic on whole numbers of any size: what would overflow in a driver is just too much here.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, TypeAlias

from replay.api.structs import CUstreamBatchMemOpParams, MemoryType
from replay.api.vocabulary import Function, Term, Touch

# CUarray_format -> bytes of one channel, of formats that memory without an array can have
CHANNEL_BYTES = {0x01: 1, 0x08: 1, 0x02: 2, 0x09: 2, 0x10: 2, 0x03: 4, 0x0A: 4, 0x20: 4}

Copy: TypeAlias = ctypes.Structure  # CUDA_MEMCPY2D or CUDA_MEMCPY3D
SIDES = ("src", "dst")

# CU_STREAM_MEM_OP_WAIT_ and _WRITE_VALUE_32 and _64 -> bytes of the value
VALUE_OPERATIONS = {1: 4, 2: 4, 4: 8, 5: 8}
_WRITING = (2, 5)
_WITHOUT_ADDRESS = (3, 6)  # flush of remote writes, barrier


class Extent(NamedTuple):
    """`size_bytes` from `offset` bytes past a pointer on, all of which may be touched; 0: nothing is."""

    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes


def box(
    width: int,
    height: int = 1,
    depth: int = 1,
    *,
    pitch: int = 0,
    rows: int = 0,
    origin: tuple[int, int, int] = (0, 0, 0),
) -> Extent:
    """A box of bytes, rows and slices from `origin` on. pitch: bytes from row to row, rows: from slice to slice.

    Where these are 0, a row is as long as what is copied of it, or begins with what is skipped, too: both count.
    """
    if 0 in (width, height, depth):
        return Extent(0, 0)
    x, y, z = origin
    found = []
    for row in {pitch} if pitch else {width, x + width}:
        for piece in {rows * row} if rows else {height * row, (y + height) * row}:
            first = z * piece + y * row + x
            found.append((first, first + (depth - 1) * piece + (height - 1) * row + width))
    start = min(first for first, _ in found)
    return Extent(start, max(end for _, end in found) - start)


def of_call(function: Function, words: list[int], touch: Touch) -> Extent:
    """Of an address that a call is given as it is. words: its arguments."""

    def value(term: Term) -> int:
        product = term.scale
        for position in term.parameters:
            product *= words[position] & ((1 << 8 * function.parameters[position].size_bytes) - 1)
        return product

    return box(value(touch.row_bytes), value(touch.rows), pitch=value(touch.pitch_bytes))


def of_side(copy: Copy, side: str) -> Extent:
    """Of one side of a copy in two or three dimensions that is no array. side: "src" or "dst"."""
    get = {name: getattr(copy, side + name, 0) for name in ("XInBytes", "Y", "Z", "Pitch", "Height")}
    return box(
        copy.WidthInBytes, copy.Height, getattr(copy, "Depth", 1),
        pitch=get["Pitch"], rows=get["Height"], origin=(get["XInBytes"], get["Y"], get["Z"]),
    )  # fmt: skip


def pointer_name(copy: Copy, side: str) -> str:
    """The field that holds the pointer of one side; "" where that is an array.

    Raises ValueError for a kind of memory that does not exist.
    """
    kind = getattr(copy, side + "MemoryType")
    if kind == MemoryType.ARRAY:
        return ""
    if kind not in list(MemoryType):
        raise ValueError(f"{side}MemoryType {kind} is no kind of memory")
    return side + ("Host" if kind == MemoryType.HOST else "Device")


def of_operation(operation: CUstreamBatchMemOpParams) -> tuple[int, int, bool] | None:
    """Address, bytes and whether it writes, of one CUstreamBatchMemOpParams; None for one that has no address.

    Raises ValueError for an operation that is not known, whose address nobody here would find.
    """
    kind = operation.operation
    if kind in _WITHOUT_ADDRESS:
        return None
    if kind not in VALUE_OPERATIONS:
        raise ValueError(f"operation {kind} on memory is not known")
    return operation.waitValue.address, VALUE_OPERATIONS[kind], kind in _WRITING
