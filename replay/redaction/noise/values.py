"""Noise instead of floating-point values: other mantissas, and in each tile the same exponents and signs in another
order. Zeros, NaNs and infinities stay where they are; equal values of a tile that has few different ones stay equal, so
that what compresses goes on doing so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TILE = 4096  # elements
# Bits of exponent and mantissa
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}
_MOST_SHARED = 4  # a tile with fewer than one different value in so many keeps them equal


def width_of(type_: str) -> int:
    """Bytes of an element."""
    return (1 + sum(FORMATS[type_])) // 8


def noise(
    words: NDArray[np.unsignedinteger], type_: str, random: np.random.Generator
) -> NDArray[np.unsignedinteger]:
    """Other values in place of `words`, which are the bits of elements of a type."""
    import numpy

    exponent_bits, mantissa_bits = FORMATS[type_]
    values = words.astype("u8")
    mantissa = numpy.uint64((1 << mantissa_bits) - 1)
    exponent = numpy.uint64((1 << exponent_bits) - 1 << mantissa_bits)
    made = values.copy()
    for begin in range(0, len(values), TILE):
        tile = values[begin : begin + TILE]
        special = tile & exponent == exponent
        # The payload of a NaN could hold anything.
        payload = mantissa + 1 >> 1 if mantissa_bits > 3 else mantissa
        quiet = numpy.where(tile & mantissa != 0, payload, 0).astype("u8")
        if type_ == "e4m3":  # with the highest exponent, only one is no number
            quiet = tile & mantissa
        result = numpy.where(special, tile & ~mantissa | quiet, tile)
        for places in (
            numpy.flatnonzero(~special & (tile & exponent != 0)),
            numpy.flatnonzero(
                (tile & exponent == 0) & (tile & mantissa != 0)
            ),  # denormal: its mantissa is not 0
        ):
            if not len(places):
                continue
            old, which = numpy.unique(tile[places], return_inverse=True)
            denormal = not int(old[0] & exponent)
            unused = 0  # low bits that no value of the tile has: values of few bits compress
            if len(old) * _MOST_SHARED >= len(places):
                used = int(numpy.bitwise_or.reduce(old & mantissa))
                unused = (used & -used).bit_length() - 1 if used else mantissa_bits
                old, which = tile[places], numpy.arange(len(places))
            highest = int(mantissa) >> unused
            drawn = random.integers(int(denormal), highest, len(old), "u8", endpoint=True) << numpy.uint64(
                unused
            )
            result[places] = random.permutation((old & ~mantissa | drawn)[which])
        made[begin : begin + TILE] = result
    result_words: NDArray[np.unsignedinteger] = made.astype(words.dtype)
    return result_words
