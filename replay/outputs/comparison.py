"""Comparison of memory after a replay with what was captured: bit by bit, and where it differs, how.

Pure functions over bytes. A caller feeds one buffer piece by piece (`BufferComparison.add`), so memory stays bounded
whatever the buffer's size. Pieces begin at multiples of 8 bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from replay.outputs.elements import ElementType, Region, text, ulp_distances, values
from replay.outputs.error_map import ErrorMap, relative_errors
from replay.outputs.tolerance import Tolerance
from replay.records import dataclass
from replay.results.run.verification import OutputErrors

FIRST_MISMATCHES = 4  # kept of each buffer
MISMATCH_BYTES = 4  # shown of each, from its aligned offset, where no type is known
GUESS_BYTES = 1 << 20  # of differing pieces, looked at for a guess of the element type
MAXIMUM_MAPS = 8  # of one buffer
MAXIMUM_TYPED = 64  # regions of one buffer of which differences are told apart

# Below this, two floats are taken for the same computation in another order or rounding.
_PLAUSIBLE_RELATIVE_ERROR = 1e-2
# Where all values are smaller, they are rather small integers.
_PLAUSIBLE_MAGNITUDES = {"f16": 0.0, "f32": 1e-30, "f64": 1e-290}


@dataclass(frozen=True)
class Mismatch:
    """One place where bytes differ: offset in the buffer, and the aligned 4 bytes around it (fewer at its end), or the
    element there where its type is known.

    place: where that is, in a buffer whose offsets say nothing to people. element: index in its region; -1 unknown.
    """

    offset: int
    expected: bytes
    actual: bytes
    place: str = ""
    element: int = -1
    type: ElementType | None = None

    @property
    def values(self) -> tuple[str, str]:
        """Expected and actual as numbers; empty where no type is known."""
        if self.type is None:
            return "", ""
        return text(self.expected, self.type), text(self.actual, self.type)


@dataclass(frozen=True)
class FloatGuess:
    """How far the values are apart if the buffer holds floats of this type. A guess from only the bytes.

    dtype: "f16", "f32" or "f64". maximum_ulp: in units of the last place. maximum_relative: of the expected value.
    """

    dtype: str
    maximum_ulp: int
    maximum_relative: float


@dataclass
class RegionDifference:
    """How the elements of one region differ. special: pairs of which only one is NaN, or infinite. Distances are of
    the other pairs, relative ones of those that are not zeros: pairs of which 0 was expected. beyond: elements outside
    of the tolerance. map: where they differ."""

    region: Region
    elements: int = 0
    maximum_ulp: int = 0
    maximum_relative: float = 0.0
    maximum_absolute: float = 0.0
    special: int = 0
    beyond: int = 0
    zeros: int = 0
    map: ErrorMap | None = None

    def add(
        self, expected: bytes, actual: bytes, tolerance: Tolerance | None, nearby: bytes, places: Any = None
    ) -> None:
        """Differing elements, one after another. nearby: all expected elements of the same piece. places: which of the
        region they are."""
        import numpy

        type_ = self.region.type
        a, b = values(expected, type_), values(actual, type_)
        if self.map is not None and places is not None:
            self.map.add(places, relative_errors(a, b), expected, actual)
        ulp = ulp_distances(expected, actual, type_)
        self.elements += len(a)
        if type_.kind == "float":
            usual = numpy.isfinite(a) & numpy.isfinite(b)
            alike = numpy.isnan(a) & numpy.isnan(b)  # which bits a NaN has is no result of a computation
            special = ~usual & ~alike & (a != b)
            ulp, a, b = ulp[usual], a[usual], b[usual]
            tiny = 2.0**-1022 if type_.name == "f64" else 2.0**-149
            with numpy.errstate(over="ignore"):  # infinitely far apart, then
                absolute = numpy.abs(a - b)
                relative = absolute / numpy.maximum(numpy.abs(a), tiny)
        else:
            special = numpy.zeros(0, dtype=bool)
            absolute = ulp.astype("<f8")
            relative = absolute / numpy.maximum(numpy.abs(a.astype("<f8")), 1.0)
        self.special += int(special.sum())
        self.beyond += int(special.sum())
        if len(ulp):
            self.maximum_ulp = max(self.maximum_ulp, int(ulp.max()))
            self.zeros += int((a == 0).sum())
            if (to_something := relative[a != 0]).size:
                # At most the largest float: JSON has no infinity.
                worst = min(float(to_something.max()), sys.float_info.max)
                self.maximum_relative = max(self.maximum_relative, worst)
            self.maximum_absolute = max(self.maximum_absolute, min(float(absolute.max()), sys.float_info.max))
            if tolerance is None or tolerance.bitwise:
                self.beyond += len(ulp)
            else:
                largest = _largest(values(nearby, type_)) if tolerance.scaled else 1.0
                self.beyond += int((~tolerance.holds(ulp, relative, absolute, type_, largest)).sum())


@dataclass(frozen=True)
class Reading:
    """What is known of a buffer's elements, and how far they may differ. regions: in order, not overlapping."""

    regions: Sequence[Region] = ()
    tolerance: Tolerance | None = None


@dataclass
class BufferComparison:
    """What is known so far about one buffer. `label` names it for people, `address` is the captured one (0: none).

    reading: asked at the first difference, since to know types may take time.
    """

    label: str
    address: int
    size_bytes: int
    compared_bytes: int = 0
    differing_bytes: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    guess: FloatGuess | None = None
    place: Callable[[int], str] = lambda offset: ""
    reading: Callable[[], Reading] = Reading
    regions: dict[Region, RegionDifference] = field(default_factory=dict)
    untyped_bytes: int = 0  # that differ, and of which no type is known
    map: ErrorMap | None = None  # of those bytes
    _known: Reading | None = None
    _looked_at_bytes: int = 0

    @property
    def equal(self) -> bool:
        """Whether all that was compared is equal."""
        return self.differing_bytes == 0

    @property
    def tolerance(self) -> Tolerance | None:
        """How far the buffer's elements may differ; None while nothing differs."""
        return None if self._known is None else self._known.tolerance

    @property
    def acceptable(self) -> bool:
        """Whether all that differs is within the tolerance."""
        return not self.untyped_bytes and not any(item.beyond for item in self.regions.values())

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
        if self._known is None:
            self._known = self.reading()
        done = 0
        for region in self._known.regions:
            first, last = max(region.start - offset, 0), min(region.end - offset, len(expected))
            last -= (offset + last - region.start) % region.type.size_bytes if last > first else 0
            if (
                last > first
                and (offset + first - region.start) % region.type.size_bytes == 0
                and (region in self.regions or len(self.regions) < MAXIMUM_TYPED)
            ):
                self._add_untyped(offset + done, expected[done:first], actual[done:first])
                self._add_typed(region, offset + first, expected[first:last], actual[first:last])
                done = last
        self._add_untyped(offset + done, expected[done:], actual[done:])

    def _add_typed(self, region: Region, offset: int, expected: bytes, actual: bytes) -> None:
        if expected == actual:
            return
        import numpy

        size = region.type.size_bytes
        a, b = (numpy.frombuffer(data, numpy.uint8).reshape(-1, size) for data in (expected, actual))
        self.differing_bytes += int((a != b).sum())
        places = numpy.flatnonzero((a != b).any(axis=1))
        found = self.regions.setdefault(region, RegionDifference(region, map=self._map_of(region)))
        assert self._known is not None
        first = (offset - region.start) // size
        found.add(a[places].tobytes(), b[places].tobytes(), self._known.tolerance, expected, places + first)
        for place in places[: max(0, FIRST_MISMATCHES - len(self.mismatches))].tolist():
            at = offset + place * size
            self.mismatches.append(
                Mismatch(
                    at,
                    a[place].tobytes(),
                    b[place].tobytes(),
                    self.place(at),
                    (at - region.start) // size,
                    region.type,
                )
            )

    def _map_of(self, region: Region) -> ErrorMap | None:
        """None where the buffer has so many already."""
        if len(self.regions) >= MAXIMUM_MAPS:
            return None
        return ErrorMap((region.end - region.start) // region.type.size_bytes)

    def _add_untyped(self, offset: int, expected: bytes, actual: bytes) -> None:
        if expected == actual:
            return
        import numpy

        different = numpy.flatnonzero(
            numpy.frombuffer(expected, numpy.uint8) != numpy.frombuffer(actual, numpy.uint8)
        )
        self.differing_bytes += len(different)
        self.untyped_bytes += len(different)
        if self.map is None:
            self.map = ErrorMap(self.size_bytes)
        nothing = numpy.zeros(len(different))
        self.map.add(offset + different, nothing, bytes(len(different)), bytes(len(different)))
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


def found_errors(item: BufferComparison) -> list[OutputErrors]:
    """Where its elements differ, region by region, then the bytes of no known type."""
    found = []
    for region, difference in item.regions.items():
        if difference.map is not None and difference.map.worst is not None:
            error, element, expected, actual = difference.map.worst
            found.append(
                OutputErrors(
                    region.type.name, region.start, difference.map.elements, difference.map.cell_elements,
                    *difference.map.cells(), element, error, text(expected, region.type), text(actual, region.type),
                )
            )  # fmt: skip
    if item.map is not None:
        found.append(OutputErrors("", 0, item.map.elements, item.map.cell_elements, *item.map.cells()))
    return found


def _largest(numbers: Any) -> float:
    """The largest magnitude among those that are finite."""
    import numpy

    finite = numpy.abs(numbers[numpy.isfinite(numbers)])
    return float(finite.max()) if len(finite) else 0.0


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
        with numpy.errstate(invalid="ignore"):  # a signalling NaN, which makes the guess void
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
    if max(numpy.abs(wide_a).max(), numpy.abs(wide_b).max()) < _PLAUSIBLE_MAGNITUDES[dtype]:
        return None
    smallest = float(numpy.finfo(float_type).tiny)
    with numpy.errstate(over="ignore"):
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
