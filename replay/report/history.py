"""Text of `replay history` and `replay baseline`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from replay.history.baseline import Mark
from replay.history.changes import LEAST_RESULTS
from replay.history.series import HistoryView, Series
from replay.inspection.origins import shorter
from replay.report.origins import SHOWN_FRAMES, SHOWN_KERNELS
from replay.report.pictures import sparkline
from replay.report.spreadsheet import csv_of
from replay.text import (
    MODELLED,
    Cells,
    Column,
    Screen,
    duration,
    flow,
    heading,
    listing,
    number,
    percent,
    shown,
)

SHOWN_PROBLEMS = 5


def render_history(view: HistoryView, screen: Screen) -> str:
    """A line for each series: how often, its course, where its level changed."""
    if not view.series:
        nothing = "" if view.untimed else ": no results"
        return "\n".join([f"{shown(view.folder)}{nothing}", *untimed(view), *_problems(view)])
    title = heading(f"{shown(view.folder)}: {number(view.results, 'result')}", screen)
    parts = [title, listing(view.series, _SERIES, screen)]
    parts += [flow(f"  {shown(item.kernel, 80)}: {text}", screen) for item, text in _places(view)]
    if any(item.source == "modelled" for item in view.series):
        parts.append(flow(MODELLED, screen))
    return "\n".join([*parts, *untimed(view), *_problems(view)])


def _places(view: HistoryView) -> list[tuple[Series, str]]:
    """Where the first few kernels of which that is known were launched."""
    known = {(item.kernel, text): item for item in view.series if (text := from_where(item))}
    return [(item, text) for (_, text), item in known.items()][:SHOWN_KERNELS]


def from_where(item: Series) -> str:
    """`launched from model.py:120 (forward)`; "": not known."""
    place = shorter(item.launched_from, SHOWN_FRAMES)
    return f"launched from {shown(place, 400)}" if place else ""


def _against_baseline(item: Series) -> str:
    return "" if item.baseline_ns is None else percent(item.latest_ns / item.baseline_ns, 1)


_SERIES: Cells[Series] = [
    (
        Column("kernel", cut="middle"),
        lambda item: shown(item.kernel) + (f" (window {item.window})" if item.window else "") + _suffix(item),
    ),
    (Column("device", cut=True), lambda item: shown(item.device, 40)),
    (Column("n", "right"), lambda item: str(len(item.points))),
    (Column("median", "right"), lambda item: duration(median_high(point.median_ns for point in item.points))),
    (Column("latest", "right"), lambda item: duration(item.latest_ns)),
    (Column("baseline", "right", if_filled=True), _against_baseline),
    (Column("course"), lambda item: sparkline([point.median_ns for point in item.points])),
    (Column("changes", if_filled=True), lambda item: ", ".join(changed_levels(item))),
]


def changed_levels(item: Series) -> list[str]:
    """How far the level of a series changed, and on which days."""
    return [f"{percent(change.ratio, 1)} on {change.created_utc[:10]}" for change in item.changes]


def unchanged(item: Series) -> str:
    """In place of changes, where there are none."""
    count = number(len(item.points), "result")
    if len(item.points) < LEAST_RESULTS:
        return f"{count}; a change of level takes {LEAST_RESULTS} to be seen"
    return f"no change of level in {count}"


def untimed(view: HistoryView) -> list[str]:
    """A line about results without times, where there are any."""
    if not view.untimed:
        return []
    outputs = (
        f"{view.unmatched:,} with outputs that do not match"
        if view.unmatched
        else "all with outputs that match"
    )
    return [f"{number(view.untimed, 'result')} without times (run --no-timing), {outputs}"]


def _suffix(item: Series) -> str:
    modelled = ", modelled" if item.source == "modelled" else ""
    return (f", {shown(item.variant, 60)}" if item.variant else "") + modelled


def _problems(view: HistoryView) -> list[str]:
    lines = [
        f"  left out: {shown(path)}: {shown(problem)}" for path, problem in view.problems[:SHOWN_PROBLEMS]
    ]
    more = len(view.problems) - SHOWN_PROBLEMS
    return [*lines, f"  ... and {number(more, 'more file')}"] if more > 0 else lines


def history_csv(view: HistoryView) -> str:
    """Every result as a line."""
    titles = ("kernel", "snapshot", "window", "device", "source", "variant", "created_utc", "median_ns",
              "driver_version", "outputs", "path")  # fmt: skip
    rows = (
        (item.kernel, item.snapshot, item.window, item.device, item.source, item.variant, point.created_utc,
         point.median_ns, point.driver_version, point.outputs, point.path)
        for item in view.series
        for point in item.points
    )  # fmt: skip
    return csv_of(titles, rows).rstrip("\n")


def render_baseline(marks: Sequence[Mark], screen: Screen) -> str:
    """The accepted times."""
    if not marks:
        return "no baseline is set"
    cells: Cells[Mark] = [
        (Column("kernel", cut="middle"), lambda mark: shown(mark.kernel)),
        (Column("device", cut=True), lambda mark: shown(mark.device, 40)),
        (Column("time", "right"), lambda mark: duration(mark.median_ns)),
        (Column("of"), lambda mark: mark.created_utc[:10]),
        (Column("result", cut="middle"), lambda mark: shown(mark.path)),
    ]
    return listing(marks, cells, screen)
