"""Other values out of a buffer's own distribution: exponents and signs are drawn, with replacement, from those of a
tile, zeros among them; mantissas are new. NaNs and infinities stay where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.redaction.noise.values import FORMATS, TILE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def drawn(
    words: NDArray[np.unsignedinteger], type_: str, random: np.random.Generator
) -> NDArray[np.unsignedinteger]:
    """Values in place of `words`, which are the bits of elements of a floating-point type."""
    import numpy

    exponent_bits, mantissa_bits = FORMATS[type_]
    values = words.astype("u8")
    mantissa = numpy.uint64((1 << mantissa_bits) - 1)
    exponent = numpy.uint64((1 << exponent_bits) - 1 << mantissa_bits)
    for begin in range(0, len(values), TILE):
        tile = values[begin : begin + TILE]
        ordinary = numpy.flatnonzero(tile & exponent != exponent)
        if not len(ordinary):
            continue
        chosen = random.choice(tile[ordinary], len(ordinary))
        fractions = random.integers(0, int(mantissa), len(ordinary), "u8", endpoint=True)
        normal = chosen & exponent != 0
        tile[ordinary] = numpy.where(normal, chosen & ~mantissa | fractions, chosen)
    made: NDArray[np.unsignedinteger] = values.astype(words.dtype)
    return made
