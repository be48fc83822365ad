"""Products of matrices as PTX ISA describes them: where a warp's lanes hold the elements, and what they give.

Elements are codes, as bits. A fragment is an array of registers by lanes; positions follow the formulas of the document
for each operand: the group of a lane is `lane // 4`, its place in the group `lane % 4`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import exact
import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]

BITS = {
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    "f64": 64,
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8"), 8),
    **dict.fromkeys(("s4", "u4", "packed_e2m1"), 4),
    "b1": 1,
}
# Sign, exponent and fraction of the floating-point formats.
EXPONENT_FRACTION = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 10),
    "f32": (8, 23),
    "f64": (11, 52),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "e3m2": (3, 2),
    "e2m3": (2, 3),
    "e2m1": (2, 1),
    "packed_e2m1": (2, 1),
}


def value(code: int, kind: str) -> float:
    """The number that a code stands for. Of tf32, in a register of 32 bits, the lowest 13 bits are not looked at."""
    if kind[0] in "sub" and kind != "bf16":
        bits = BITS[kind]
        code &= (1 << bits) - 1
        return float(code - (1 << bits) if kind[0] == "s" and code >> (bits - 1) else code)
    if kind == "tf32":
        code >>= 13
    if kind == "e2m1":
        code >>= 2  # it is in the middle of its byte
    exponent_bits, fraction_bits = EXPONENT_FRACTION[kind]
    sign = -1.0 if code >> (exponent_bits + fraction_bits) & 1 else 1.0
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = code & ((1 << fraction_bits) - 1)
    largest = exponent == (1 << exponent_bits) - 1
    if kind == "e4m3" and largest and fraction == 7:
        return float("nan")
    if largest and kind in ("f16", "bf16", "tf32", "f32", "f64", "e5m2"):
        return float("nan") if fraction else sign * float("inf")
    bias = (1 << (exponent_bits - 1)) - 1
    significand = fraction + ((1 << fraction_bits) if exponent else 0)
    return sign * float(np.ldexp(float(significand), max(exponent, 1) - bias - fraction_bits))


@dataclass(frozen=True)
class Product:
    """One form of mma or wmma.mma. `k`: elements that a row of A holds; B has twice as many where A is sparse."""

    opcode: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    c: str
    wmma: bool = False
    saturate: bool = False
    bit_and: bool = False
    sparse: bool = False

    @property
    def k_of_b(self) -> int:
        return 2 * self.k if self.sparse else self.k

    def __str__(self) -> str:
        return self.opcode


def _per_register(kind: str) -> int:
    return max(1, 32 // BITS[kind])


def places_of_a(product: Product) -> Iterator[tuple[int, int, int, int, int]]:
    """register, lane, element, row and column of every element that a lane holds of A."""
    each, kind = _per_register(product.a), product.a
    count = product.m * product.k // 32 // each
    copies = 8 // count if product.wmma and kind == "f16" else 1
    for lane in range(32):
        group, place = divmod(lane, 4)
        for i in range(count * copies * each):
            register, element = divmod(i, each)
            at = register % count
            if product.m == 8:
                row, column = group, at * 4 * each + place * each + element
            else:
                # 16 rows at a time; registers go down by 8 rows first, then on by 4 lanes' columns
                per_block = 2 * product.k // (4 * each)
                block, at = divmod(at, per_block)
                row = 16 * block + group + (8 if at % 2 else 0)
                column = at // 2 * 4 * each + place * each + element
            yield register, lane, element, row, column


def places_of_b(product: Product) -> Iterator[tuple[int, int, int, int, int]]:
    each, kind = _per_register(product.b), product.b
    count = product.n * product.k_of_b // 32 // each
    copies = 8 // count if product.wmma and kind == "f16" else 1
    per_block = product.k_of_b // (4 * each)
    for lane in range(32):
        group, place = divmod(lane, 4)
        for i in range(count * copies * each):
            register, element = divmod(i, each)
            block, at = divmod(register % count, per_block)
            yield register, lane, element, at * 4 * each + place * each + element, 8 * block + group


def places_of_c(product: Product, kind: str) -> Iterator[tuple[int, int, int, int, int]]:
    each = _per_register(kind)
    halves = 1 if product.m == 8 else 2
    for lane in range(32):
        group, place = divmod(lane, 4)
        for i in range(product.m * product.n // 32):
            tile, within = divmod(i, 2 * halves)
            block, columns = divmod(tile, product.n // 8)
            row = 16 * block + group + 8 * (within // 2)
            column = 8 * columns + 2 * place + within % 2
            yield i // each, lane, i % each, row, column


def places(product: Product, operand: str) -> Iterator[tuple[int, int, int, int, int]]:
    if operand == "a":
        return places_of_a(product)
    if operand == "b":
        return places_of_b(product)
    return places_of_c(product, product.c if operand == "c" else product.d)


def kind_of(product: Product, operand: str) -> str:
    return {"a": product.a, "b": product.b, "c": product.c, "d": product.d}[operand]


def register_count(product: Product, operand: str) -> int:
    return 1 + max(register for register, *_ in places(product, operand))


def fragment(product: Product, operand: str, matrix: Codes) -> Codes:
    """The registers of an operand, by lane."""
    result = np.zeros((register_count(product, operand), 32), np.uint64)
    bits = BITS[kind_of(product, operand)]
    for register, lane, element, row, column in places(product, operand):
        result[register, lane] |= np.uint64(int(matrix[row, column]) << (bits * element))
    return result


def matrix_of(product: Product, operand: str, registers: Codes) -> Codes:
    """The matrix in an operand's registers; every element must be somewhere."""
    rows, columns = (product.m, product.n)
    result = np.full((rows, columns), -1, object)
    bits = BITS[kind_of(product, operand)]
    for register, lane, element, row, column in places(product, operand):
        result[row, column] = int(registers[register, lane]) >> (bits * element) & ((1 << bits) - 1)
    assert (result >= 0).all()
    return result.astype(np.uint64)


def values(matrix: Codes, kind: str) -> NDArray[np.float64]:
    return np.vectorize(lambda code: value(int(code), kind), otypes=[np.float64])(matrix)


def codes(numbers: NDArray[np.float64], kind: str) -> Codes:
    """Numbers of a sum's type as bits, rounded to nearest; NaN is the type's one NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "f64":
            bits, nan = numbers.view(np.uint64), exact.F64.nan
        elif kind == "f32":
            bits, nan = numbers.astype(np.float32).view(np.uint32), exact.F32.nan
        else:
            bits, nan = numbers.astype(np.float16).view(np.uint16), exact.F16.nan
    return np.where(np.isnan(numbers), np.uint64(nan), bits.astype(np.uint64))


def integer_product(product: Product, a: Codes, b: Codes, c: Codes) -> Codes:
    if product.a == "b1":
        joined = a[:, :, None] & b[None] if product.bit_and else a[:, :, None] ^ b[None]
        sums = joined.astype(np.int64).sum(axis=1)
    else:
        sums = values(a, product.a).astype(np.int64) @ values(b, product.b).astype(np.int64)
    sums = sums + values(c, "s32").astype(np.int64)
    if product.saturate:
        sums = np.clip(sums, -(1 << 31), (1 << 31) - 1)
    return (sums & 0xFFFFFFFF).astype(np.uint64)


def float_product(product: Product, a: Codes, b: Codes, c: Codes) -> Codes:
    """Each product is exact, and added in the order of k to a sum of f32 with one rounding."""
    left, right = values(a, product.a), values(b, product.b)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        total = values(c, product.c).astype(np.float32)
        for k in range(product.k):
            total = add_exactly(total, left[:, k, None] * right[k, None, :])
    return codes(total, product.d)


def add_exactly(total: NDArray[np.float32], products: NDArray[np.float64]) -> NDArray[np.float32]:
    """total + products, rounded once. The products are exact in f64; of the sum the rest tells f32 which way to go."""
    wide = total.astype(np.float64)
    sums = wide + products
    part = sums - wide
    rest = (wide - (sums - part)) + (products - part)
    odd = (sums.view(np.uint64) & np.uint64(1)).astype(bool)
    outward = np.where((rest < 0) == (sums < 0), np.copysign(np.inf, sums), 0.0)
    moved = np.where((rest != 0) & ~odd & np.isfinite(rest), np.nextafter(sums, outward), sums)
    return moved.astype(np.float32)


def double_product(product: Product, a: Codes, b: Codes, c: Codes) -> Codes:
    """A chain of fused multiply-adds in the order of k, by exact fractions. Finite numbers only."""
    left, right, total = values(a, "f64"), values(b, "f64"), values(c, "f64")
    for k in range(product.k):
        for row in range(product.m):
            for column in range(product.n):
                total[row, column] = float(
                    Fraction(left[row, k]) * Fraction(right[k, column]) + Fraction(total[row, column])
                )
    return codes(total, "f64")


def expected(product: Product, a: Codes, b: Codes, c: Codes) -> Codes:
    if product.d == "s32":
        return integer_product(product, a, b, c)
    return (double_product if product.d == "f64" else float_product)(product, a, b, c)
