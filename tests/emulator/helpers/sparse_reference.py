"""What sparse and scaled products have besides A, B and C, as PTX ISA describes it: metadata, and factors of blocks.

The places of metadata are listed word by word as the figures of the document give them: "Tk: [m..n]" of a chunk of a
row is the bits of thread k of four that hold its indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matrix_reference as reference
import numpy as np
from matrix_reference import BITS, Codes, Product
from numpy.typing import NDArray

# Of four bits of metadata, which two of four units are not zero. For ordered metadata the lower index comes first.
ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
UNORDERED = (*ORDERED, 0b0001, 0b0010, 0b0110, 0b0011, 0b0111, 0b1011)
HALF_OF_PAIR = (0b0100, 0b1110)  # of tf32: the first or the second of two


@dataclass(frozen=True)
class Extras:
    """`selector`: which of four threads have metadata. `scale`: the format of `scales` factors of each row of A and
    column of B, that begin at a byte of the word of a thread."""

    ordered: bool = True
    selector: int = 0
    scale: str = ""
    scales: int = 0
    byte_a: int = 0
    thread_a: int = 0
    byte_b: int = 0
    thread_b: int = 0


def chunk_width(kind: str) -> int:
    """Elements of a row to which four bits of metadata belong."""
    return {32: 2, 16: 4, 8: 4, 4: 8}[BITS[kind]]


def chunks_of_words(product: Product) -> list[list[tuple[int, int]]]:
    """For each thread of four that has metadata: row of the first 8 or below, and chunk, of each four bits, lowest
    first."""
    chunks = product.k_of_b // chunk_width(product.a)
    if BITS[product.a] >= 16:
        return [[(row, first + c) for row in (0, 8) for c in range(4)] for first in range(0, chunks, 4)]
    return [[(row, first + c) for c in range(8)] for first in range(0, chunks, 8) for row in (0, 8)]


def draw_metadata(product: Product, ordered: bool, random: np.random.Generator) -> NDArray[np.int64]:
    """Four bits for each row and chunk."""
    choices = HALF_OF_PAIR if BITS[product.a] == 32 else ORDERED if ordered else UNORDERED
    return random.choice(choices, (product.m, product.k_of_b // chunk_width(product.a)))


def metadata_words(
    product: Product, metadata: NDArray[np.int64], selector: int, random: np.random.Generator
) -> Codes:
    """A word for each lane; those of lanes that have none are noise."""
    result = random.integers(0, 1 << 32, 32, np.uint64)
    words = chunks_of_words(product)
    for group in range(8):
        for thread, places in enumerate(words):
            word = 0
            for n, (row, chunk) in enumerate(places):
                word |= int(metadata[group + row, chunk]) << (4 * n)
            result[4 * group + selector * len(words) + thread] = word
    return result


def columns(product: Product, metadata: NDArray[np.int64]) -> NDArray[np.int64]:
    """The column in the whole matrix of each element that a row of A holds."""
    width = chunk_width(product.a)
    result = []
    for row in metadata:
        of_row: list[int] = []
        for chunk, bits in enumerate(int(b) for b in row):
            units = (bits & 3, bits >> 2)
            if width == 2:
                of_row.append(width * chunk + units[0] // 2)
            elif width == 4:
                of_row += [width * chunk + unit for unit in units]
            else:
                of_row += [width * chunk + 2 * unit + e for unit in units for e in (0, 1)]
        result.append(of_row)
    return np.array(result)


def factor(code: int, kind: str) -> float:
    if kind == "ue8m0":
        return float("nan") if code == 255 else float(np.ldexp(1.0, code - 127))
    return reference.value(code & 0x7F, "e4m3")


def factor_words(codes: Codes, first_byte: int, lane_of: Sequence[int], random: np.random.Generator) -> Codes:
    """codes: [row of A or column of B, block]; lane_of: the lane that has those of each."""
    words = random.integers(0, 1 << 32, 32, np.uint64)
    for line, lane in enumerate(lane_of):
        for block, code in enumerate(codes[line]):
            at = 8 * (first_byte + block)
            words[lane] = int(words[lane]) & ~(0xFF << at) | int(code) << at
    return words


def lanes_of_a(extras: Extras) -> list[int]:
    return [4 * (row % 8) + 2 * extras.thread_a + row // 8 for row in range(16)]


def lanes_of_b(extras: Extras) -> list[int]:
    return [4 * column + extras.thread_b for column in range(8)]


def expected(
    product: Product,
    extras: Extras,
    a: Codes,
    b: Codes,
    c: Codes,
    held: NDArray[np.int64],
    factors: tuple[Codes, Codes] | None,
) -> Codes:
    """held: the columns of the elements that A holds, which are multiplied in this order."""
    left, right = reference.values(a, product.a), reference.values(b, product.b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if factors:
            value = np.vectorize(lambda code: factor(int(code), extras.scale), otypes=[np.float64])
            of_a, of_b = value(factors[0]), value(factors[1])
            left = left * np.repeat(of_a, product.k // extras.scales, axis=1)
            right = right * np.repeat(of_b, product.k_of_b // extras.scales, axis=1).T
        if product.d == "s32":
            rows = [
                left[row].astype(np.int64) @ right[held[row]].astype(np.int64) for row in range(product.m)
            ]
            sums = np.array(rows) + reference.values(c, "s32").astype(np.int64)
            if product.saturate:
                sums = np.clip(sums, -(1 << 31), (1 << 31) - 1)
            return (sums & 0xFFFFFFFF).astype(np.uint64)
        total = reference.values(c, product.c).astype(np.float32)
        for p in range(product.k):
            total = reference.add_exactly(total, left[:, p, None] * right[held[:, p]])
    return reference.codes(total, product.d)
