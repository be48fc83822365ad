"""Statistics of the samples beside their median: moments with intervals, drift, and how many lie outside of fences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.report.html.model import Section, Table
from replay.results.run.timing import Timing
from replay.text import duration, percent
from replay.timing.estimates import MILD, SEVERE, Estimated, Estimates, estimates, fences

_NAMES = {
    "median": "median",
    "mean": "mean",
    "deviation": "standard deviation",
    "scaled_deviation": "median absolute deviation × 1.4826",
}


def estimated_part(timings: Sequence[Timing]) -> Iterator[Section]:
    """Folded. Nothing where no series varies, or all are too short."""
    found = [(timing, known) for timing in timings if (known := estimates(timing.samples_ns)) is not None]
    if not found:
        return
    titles = [title for timing, _ in found for title in (_of(timing), f"95 % interval, {timing.mode}")]
    table = Table(["", *titles])
    for name, words in _NAMES.items():
        table.rows.append([words, *(cell for _, known in found for cell in _times(getattr(known, name)))])
    table.rows.append(
        ["drift, first sample to last", *(cell for _, known in found for cell in _drift(known))]
    )
    table.rows.append(
        ["R² of the drift", *(cell for _, known in found for cell in (f"{known.explained:.3f}", ""))]
    )
    part = Section("Statistics and outliers", is_folded=True)
    part.tables = [("Of the samples", table.without_empty()), _fences([timing for timing, _ in found])]
    yield part


def between(low_ns: float, high_ns: float) -> str:
    """Both ends, with their unit once where it is the same."""
    first, last = duration(low_ns), duration(high_ns)
    same = first.split()[-1] == last.split()[-1]
    return f"{first.split()[0] if same else first} .. {last}"


def _of(timing: Timing) -> str:
    return f"{timing.mode} caches"


def _times(found: Estimated) -> tuple[str, str]:
    if found.low is None or found.high is None:
        return duration(found.value), ""
    return duration(found.value), between(found.low, found.high)


def _drift(known: Estimates) -> tuple[str, str]:
    drift = known.drift
    assert drift.low is not None
    assert drift.high is not None
    low, high = percent(1 + drift.low), percent(1 + drift.high)
    return percent(1 + drift.value), f"{low.removesuffix(' %')} .. {high}"


def _fences(timings: Sequence[Timing]) -> tuple[str, Table]:
    table = Table(
        [
            "samples outside of the fences",
            *(cell for item in timings for cell in (f"beyond, {item.mode}", _of(item))),
        ]
    )
    sides = [fences(timing.samples_ns) for timing in timings]
    for name in sides[0]:
        row: list[object] = [name]
        for side, timing in zip(sides, timings, strict=True):
            fence, count = side[name]
            share = f" ({100 * count / len(timing.samples_ns):.1f} %)" if count else ""
            row += [duration(fence) if fence > 0 else "", f"{count:,}{share}"]
        table.rows.append(row)
    caption = (
        f"Outliers by Tukey's fences, {MILD:g} and {SEVERE:g} distances of the quartiles beyond them. All are kept, "
        "and are part of every figure"
    )
    return caption, table
