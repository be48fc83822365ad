"""Comparison of memory after a replay with what was captured: bit by bit, and where it differs, how.

Pure functions over bytes. A caller feeds one buffer piece by piece (`BufferComparison.add`), so memory stays bounded
whatever the buffer's size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FIRST_MISMATCHES = 4  # kept of each buffer
MISMATCH_BYTES = 4  # shown of each, from its aligned offset
GUESS_BYTES = 1 << 20  # of differing pieces, looked at for a guess of the element type

# Below this, two floats are taken for the same computation in another order or rounding.
_PLAUSIBLE_RELATIVE_ERROR = 1e-2


@dataclass(frozen=True)
class Mismatch:
    """One place where bytes differ: offset in the buffer, and the aligned 4 bytes around it (fewer at its end).

    place: where that is, in a buffer whose offsets say nothing to people.
    """

    offset: int
    expected: bytes
    actual: bytes
    place: str = ""


@dataclass(frozen=True)
class FloatGuess:
    """How far the values are apart if the buffer holds floats of this type. A guess from the bytes alone.

    dtype: "f16", "f32" or "f64". maximum_ulp: in units of the last place. maximum_relative: of the expected value.
    """

    dtype: str
    maximum_ulp: int
    maximum_relative: float


@dataclass
class BufferComparison:
    """What is known so far about one buffer. `label` names it for people, `address` is the captured one (0: none)."""

    label: str
    address: int
    size_bytes: int
    compared_bytes: int = 0
    differing_bytes: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    guess: FloatGuess | None = None
    place: Callable[[int], str] = lambda offset: ""
    _looked_at_bytes: int = 0

    @property
    def equal(self) -> bool:
        """Whether all that was compared is equal."""
        return self.differing_bytes == 0

    def add_equal(self, size_bytes: int) -> None:
        """A piece whose digest matched."""
        self.compared_bytes += size_bytes

    def add(self, offset: int, expected: bytes, actual: bytes) -> None:
        """A piece that begins at `offset` of the buffer. Both must be equally long."""
        if len(expected) != len(actual):
            raise ValueError(f"{len(expected)} bytes expected, {len(actual)} found")
        self.compared_bytes += len(expected)
        if expected == actual:
            return
        import numpy

        different = numpy.flatnonzero(
            numpy.frombuffer(expected, numpy.uint8) != numpy.frombuffer(actual, numpy.uint8)
        )
        self.differing_bytes += len(different)
        for position in different:
            if len(self.mismatches) >= FIRST_MISMATCHES:
                break
            start = int(position) // MISMATCH_BYTES * MISMATCH_BYTES
            if self.mismatches and self.mismatches[-1].offset == offset + start:
                continue
            end = start + MISMATCH_BYTES
            at = offset + start
            self.mismatches.append(Mismatch(at, expected[start:end], actual[start:end], self.place(at)))
        if self._looked_at_bytes < GUESS_BYTES and offset % 8 == 0:
            guess = guess_floats(expected, actual)
            first = self._looked_at_bytes == 0
            self._looked_at_bytes += len(expected)
            if first:
                self.guess = guess
            elif self.guess and guess and guess.dtype == self.guess.dtype:
                self.guess = FloatGuess(
                    guess.dtype,
                    max(guess.maximum_ulp, self.guess.maximum_ulp),
                    max(guess.maximum_relative, self.guess.maximum_relative),
                )
            else:
                self.guess = None


def guess_floats(expected: bytes, actual: bytes) -> FloatGuess | None:
    """How far the two are apart as floats; None when they are not floats that differ a little.

    The type is the one under which the expected values are most alike in magnitude: read with a wrong width, mantissa
    bits land in the exponent and the magnitudes scatter.
    """
    import numpy

    best: tuple[float, str, str, str] | None = None
    for dtype, float_type, integer_type in (
        ("f32", "<f4", "<i4"),
        ("f64", "<f8", "<i8"),
        ("f16", "<f2", "<i2"),
    ):
        size = numpy.dtype(float_type).itemsize
        values = numpy.frombuffer(expected[: len(expected) // size * size], float_type)
        values = values[values != 0].astype("<f8")
        if not len(values) or not numpy.isfinite(values).all():
            continue
        scatter = float(numpy.std(numpy.log2(numpy.abs(values))))
        if best is None or scatter < best[0]:
            best = (scatter, dtype, float_type, integer_type)
    if best is None:
        return None
    _, dtype, float_type, integer_type = best
    usable = len(expected) // numpy.dtype(float_type).itemsize * numpy.dtype(float_type).itemsize
    a, b = numpy.frombuffer(expected[:usable], float_type), numpy.frombuffer(actual[:usable], float_type)
    at = numpy.flatnonzero(a.view(integer_type) != b.view(integer_type))
    if not len(at) or not numpy.isfinite(b[at]).all():
        return None
    wide_a, wide_b = a[at].astype("<f8"), b[at].astype("<f8")
    smallest = float(numpy.finfo(float_type).tiny)
    worst = float((numpy.abs(wide_a - wide_b) / numpy.maximum(numpy.abs(wide_a), smallest)).max())
    if worst > _PLAUSIBLE_RELATIVE_ERROR:
        return None
    return FloatGuess(dtype, ulp_distance(a[at].view(integer_type), b[at].view(integer_type)), worst)


def ulp_distance(a: Any, b: Any) -> int:
    """Largest distance on the line of all floats, where negative ones are mirrored so that neighbours differ by 1."""
    import numpy

    lowest = int(numpy.iinfo(a.dtype).min)

    def ordered(bits: Any) -> list[int]:
        return [value if value >= 0 else lowest - value for value in bits.tolist()]

    return max(abs(x - y) for x, y in zip(ordered(a), ordered(b), strict=True))
