"""Comparison of memory after a replay with what was captured: bit by bit, and where it differs, how.

Pure functions over bytes. A caller feeds one buffer piece by piece (`BufferComparison.add`), so memory stays bounded
whatever the buffer's size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_MISMATCHES = 4  # kept of each buffer
MISMATCH_BYTES = 4  # shown of each, from its aligned offset
GUESS_BYTES = 1 << 20  # of differing pieces, looked at for a guess of the element type

# Below this, two floats are taken for the same computation in another order or rounding.
_PLAUSIBLE_RELATIVE_ERROR = 1e-2


@dataclass(frozen=True)
class Mismatch:
    """One place where bytes differ: offset in the buffer, and the aligned 4 bytes around it (fewer at its end)."""

    offset: int
    expected: bytes
    actual: bytes


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
            self.mismatches.append(Mismatch(offset + start, expected[start:end], actual[start:end]))
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
    """The float type under which the two are close everywhere, if there is one; None when they are not floats that
    differ a little (other types, or wrong values)."""
    import numpy

    for dtype, float_type, integer_type in (
        ("f32", "<f4", "<i4"),
        ("f64", "<f8", "<i8"),
        ("f16", "<f2", "<i2"),
    ):
        size = numpy.dtype(float_type).itemsize
        usable = len(expected) // size * size
        if not usable:
            continue
        a = numpy.frombuffer(expected[:usable], float_type)
        b = numpy.frombuffer(actual[:usable], float_type)
        if not (numpy.isfinite(a).all() and numpy.isfinite(b).all()):
            continue
        at = numpy.flatnonzero(a.view(integer_type) != b.view(integer_type))
        if not len(at):
            continue
        wide_a, wide_b = a[at].astype("<f8"), b[at].astype("<f8")
        with numpy.errstate(all="ignore"):
            relative = numpy.abs(wide_a - wide_b) / numpy.maximum(
                numpy.abs(wide_a), numpy.finfo(float_type).tiny
            )
        worst = float(relative.max())
        if worst <= _PLAUSIBLE_RELATIVE_ERROR:
            return FloatGuess(
                dtype, int(_ulp_distance(a[at].view(integer_type), b[at].view(integer_type))), worst
            )
    return None


def _ulp_distance(a: object, b: object) -> int:
    """Largest distance on the line of all floats, where negative ones are mirrored so that neighbours differ by 1."""
    import numpy

    def ordered(bits: object) -> list[int]:
        values = numpy.asarray(bits)
        lowest = int(numpy.iinfo(values.dtype).min)
        return [int(v) if v >= 0 else lowest - int(v) for v in values.tolist()]

    return max(abs(x - y) for x, y in zip(ordered(a), ordered(b), strict=True))
