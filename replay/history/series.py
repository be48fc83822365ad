"""What a folder of results says about each kernel over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from replay.errors import FormatError
from replay.history import baseline
from replay.history.changes import change_points
from replay.history.packs import unpack
from replay.history.spread import Spread, spread_of
from replay.history.store import Entry, History, SeriesKey, by_series, series_of
from replay.results.schema import RunResult
from replay.text import number


@dataclass(frozen=True)
class Point:
    """One result in time."""

    created_utc: str
    median_ns: float
    driver_version: int
    outputs: str
    path: str


@dataclass(frozen=True)
class Change:
    """A change of level: the first result of the new one, and the ratio of the medians."""

    created_utc: str
    path: str
    ratio: float


@dataclass(frozen=True)
class Series:
    """Results that can be compared over time, oldest first. baseline_ns: None when none is set. launched_from: where
    the kernels of the newest one were launched, in words; "": not known."""

    kernel: str
    snapshot: str
    window: int
    device: str
    source: str
    variant: str
    points: list[Point]
    changes: list[Change] = field(default_factory=list)
    baseline_ns: float | None = None
    launched_from: str = ""

    @property
    def latest_ns(self) -> float:
        """The newest time."""
        return self.points[-1].median_ns


@dataclass(frozen=True)
class HistoryView:
    """All series of a folder, and the files in it that are no results. untimed: results without times, which are in no
    series; unmatched: how many of those have outputs that do not match."""

    folder: str
    series: list[Series]
    results: int
    problems: list[tuple[str, str]] = field(default_factory=list)
    untimed: int = 0
    unmatched: int = 0


def require_consistent(view: HistoryView) -> None:
    """Of one that a stranger may have written. Raises FormatError where a series has nothing to show."""
    for item in view.series:
        if not item.points or not all(point.median_ns > 0 for point in item.points):
            raise FormatError("has a series without times")
        if item.baseline_ns is not None and not item.baseline_ns > 0:
            raise FormatError("has a baseline that is no time")


def look(folder: Path, kernel: str = "", device: str = "", last: int | None = None) -> HistoryView:
    """Bring the index up to date and read it. last: so many results of each series. Raises UsageError."""
    with History(folder) as history:
        history.update()
        entries = history.entries(kernel, device)
        problems = history.problems
    untimed = [entry for entry in entries if not entry.median_ns]
    marks = {mark.series: mark.median_ns for mark in baseline.read(folder)}
    found = [
        _series(items if last is None else items[-last:], marks.get(key))
        for key, items in by_series(entries).items()
    ]
    return HistoryView(
        str(folder),
        sorted(found, key=lambda item: (item.kernel, item.device, item.window)),
        len(entries),
        problems,
        len(untimed),
        sum(entry.outputs != "match" for entry in untimed),
    )


def packed(folder: Path) -> str:
    """Put the results of a folder into packs. Says what was done. Raises UsageError, FileError."""
    with History(folder) as history:
        history.update()
        results, packs = history.pack()
    return f"{number(results, 'result')} in {number(packs, 'new pack')}"


def unpacked(folder: Path, target: Path) -> str:
    """Write the results of the packs of a folder into a new one. Says what was done. Raises UsageError, FileError."""
    with History(folder) as history:
        history.update()
        return f"{number(unpack(history.packs(), target), 'result')} in {target}"


def _series(items: list[Entry], baseline_ns: float | None) -> Series:
    points = [
        Point(item.created_utc, float(item.median_ns or 0), item.driver_version, item.outputs, item.path)
        for item in items
    ]
    changes = [
        Change(points[found.position].created_utc, points[found.position].path, found.ratio)
        for found in change_points([point.median_ns for point in points])
    ]
    return Series(*items[0].series, points, changes, baseline_ns, items[-1].launched_from)


def spreads_of(folder: Path) -> Callable[[RunResult], Spread | None]:
    """How far results of one series lie apart, for any result; None where the history has too few of its like.

    Raises UsageError when there is no such folder.
    """
    with History(folder) as history:
        history.update()
        found = by_series(history.entries())
    kept: dict[SeriesKey, Spread | None] = {}

    def known(result: RunResult) -> Spread | None:
        key = series_of(result)
        if key is not None and key not in kept:
            entries = [entry for entry in found.get(key, []) if entry.outputs not in ("wrong", "unsure")]
            kept[key] = spread_of([(entry.created_utc, float(entry.median_ns or 0)) for entry in entries])
        return None if key is None else kept[key]

    return known
