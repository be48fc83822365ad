"""The section of a history: what changed first, each series over time, with dates and versions."""

from __future__ import annotations

import datetime
import math
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from replay.report.history import changed_levels, from_where, unchanged, untimed
from replay.report.html.cells import course_cell
from replay.report.html.drawing import Drawing, Scale
from replay.report.html.model import MAXIMUM_DETAILS, MAXIMUM_ROWS, Key, Section, Table, more, scale
from replay.report.html.plots import Curve, Panel, Plot, kept
from replay.report.pictures import FLAT
from replay.text import MODELLED, cuda_version, duration, number, percent, shown

if TYPE_CHECKING:
    from replay.history.series import HistoryView, Series

SHOWN_PROBLEMS = 10
SHOWN_MULTIPLES = 60
SHOWN_POINTS = 400  # of one small multiple
_HEIGHT = 96


def history_section(view: HistoryView) -> Section:
    """The course of each series, those that changed most first."""
    series = sorted(view.series, key=_changed_most)
    changed = sum(len(item.changes) for item in series)
    title = f"History of {number(len(series), 'series', 'series')}, {number(view.results, 'result')}"
    names = {item.kernel for item in series}
    if len(names) == 1 and len(series) > 1:
        title = f"{shown(names.pop(), 200)}: {title[:1].lower()}{title[1:]}"
    section = Section(title + (f": {number(changed, 'change')} of level" if changed else ""))
    if any(item.source == "modelled" for item in series):
        section.lines.append(MODELLED)
    if not series:
        section.lines.append("There are no results with times in this folder.")
    section.key = list(_key(series))
    section.lines += untimed(view)
    section.lines += [f"{shown(path)}: {shown(why, 200)}" for path, why in view.problems[:SHOWN_PROBLEMS]]
    section.lines += more(view.problems, SHOWN_PROBLEMS, "files that are no results")
    if len(series) > 1:
        part = Section("All series")
        part.tables.append(("The largest change of level first", _listed(series[:MAXIMUM_ROWS])))
        part.notes += more(series, MAXIMUM_ROWS, "series: `replay history` lists them")
        part.drawings.append((_legend(series), _multiples(series[:SHOWN_MULTIPLES])))
        part.notes += more(series, SHOWN_MULTIPLES, "series are not drawn here")
        section.parts.append(part)
    section.details = [_series(item) for item in series[:MAXIMUM_DETAILS]]
    if len(series) > MAXIMUM_DETAILS:
        section.notes.append(f"{MAXIMUM_DETAILS} series are shown in detail, those that changed most first")
    section.commands = [shown(shlex.join(["replay", "history", view.folder]))]
    return section


def _changed_most(item: Series) -> tuple[float, float]:
    """The largest change of level first, then those farthest from their baseline."""
    level = max((abs(math.log(change.ratio)) for change in item.changes if change.ratio > 0), default=0.0)
    apart = abs(math.log(item.latest_ns / item.baseline_ns)) if item.baseline_ns else 0.0
    return -level, -apart


def _key(series: Sequence[Series]) -> Iterator[Key]:
    changes = [(change, item) for item in series for change in item.changes]
    if changes:
        change, item = max(changes, key=lambda pair: pair[0].created_utc)
        yield Key(
            "newest change",
            percent(change.ratio, 1),
            f"{shown(item.kernel, 200)}, {_day(change.created_utc)}",
        )
        change, item = max(changes, key=lambda pair: abs(math.log(max(pair[0].ratio, 1e-300))))
        yield Key(
            "largest change",
            percent(change.ratio, 1),
            f"{shown(item.kernel, 200)}, {_day(change.created_utc)}",
        )
    days = sorted(point.created_utc for item in series for point in (item.points[0], item.points[-1]))
    if days:
        first, last = _ends(days[0], days[-1])
        yield Key("from", first, f"to {last}")


def _day(created_utc: str) -> str:
    return shown(created_utc[:10], 10)


def _ends(first_utc: str, last_utc: str) -> tuple[str, str]:
    """Both moments, as exactly as it takes to tell them apart: days, else minutes, else seconds of one day."""
    if first_utc[:10] != last_utc[:10]:
        return _day(first_utc), _day(last_utc)
    until = 16 if first_utc[:16] != last_utc[:16] else 19
    return shown(first_utc[:until].replace("T", " "), 19), shown(last_utc[11:until] or last_utc, 19)


def _title(item: Series) -> str:
    window = f" (window {item.window})" if item.window else ""
    return shown(item.kernel) + window + (f", {shown(item.variant)}" if item.variant else "")


def _listed(series: Sequence[Series]) -> Table:
    table = Table(["kernel", "device", "results", "latest", "against baseline", "course", "changes of level"])
    for item in series:
        table.rows.append([
            _title(item),
            shown(item.device),
            len(item.points),
            duration(item.latest_ns),
            percent(item.latest_ns / item.baseline_ns, 1) if item.baseline_ns else "",
            course_cell([point.median_ns for point in item.points], _marks(item), _course_in_words(item), FLAT),
            shown(", ".join(changed_levels(item))),
        ])  # fmt: skip
    return table.without_empty()


def _course_in_words(item: Series) -> str:
    first, last = item.points[0], item.points[-1]
    begin, end = _ends(first.created_utc, last.created_utc)
    return (
        f"from {duration(first.median_ns)} ({begin}) to {duration(last.median_ns)} ({end}), "
        f"{number(len(item.changes), 'change')} of level"
    )


def _marks(item: Series) -> list[int]:
    """Places of the first results of new levels."""
    paths = {change.path for change in item.changes}
    return [place for place, point in enumerate(item.points) if point.path in paths]


def _versions(item: Series) -> list[tuple[int, str]]:
    """Places at which the driver became another one, and its version."""
    found = []
    for place, point in enumerate(item.points):
        if place and point.driver_version != item.points[place - 1].driver_version:
            found.append((place, f"CUDA {cuda_version(point.driver_version)}"))
    return found


def _seconds(item: Series) -> list[float]:
    """When each result was made; nothing where any of them does not say so, or they are out of order."""
    found = []
    for point in item.points:
        try:
            moment = datetime.datetime.fromisoformat(point.created_utc.replace("Z", "+00:00"))
            found.append(moment.replace(tzinfo=moment.tzinfo or datetime.timezone.utc).timestamp())
        except (ValueError, OverflowError, OSError):
            return []
    in_order = all(a <= b for a, b in zip(found, found[1:], strict=False))
    return found if in_order and found[-1] > found[0] else []


def _legend(series: Sequence[Series]) -> str:
    texts = ["Each from its first result to its last"]
    texts += ["red, dashed: the level changed"] if any(item.changes for item in series) else []
    texts += ["dotted: another driver"] if any(_versions(item) for item in series) else []
    texts += ["green: the baseline"] if any(item.baseline_ns for item in series) else []
    return "; ".join(texts) + "."


def _multiples(series: Sequence[Series]) -> Markup:
    """Small drawings side by side, each with its name and its latest time."""
    one = Markup("<div><h3>{}</h3>{}<p>{}</p></div>")
    drawn = Markup("").join(one.format(_title(item), _small(item), _under(item)) for item in series)
    return Markup('<div class="multiples">{}</div>').format(drawn)


def _under(item: Series) -> str:
    changed = ", ".join(changed_levels(item)) or unchanged(item)
    return f"{duration(item.latest_ns)} on {shown(item.device, 200)}; {shown(changed, 200)}"


def _small(item: Series) -> Markup:
    drawing = Drawing(_HEIGHT, f"{_title(item)}: {_course_in_words(item)}")
    seconds = _seconds(item)
    places = seconds or [float(place) for place in range(len(item.points))]
    across = Scale(places[0], places[-1])
    times = [point.median_ns for point in item.points]
    low = min([*times, *([item.baseline_ns] if item.baseline_ns else [])])
    high = max([*times, *([item.baseline_ns] if item.baseline_ns else [])])
    room = max(high - low, FLAT * low) or 1.0
    middle = (low + high) / 2

    def y(value: float) -> float:
        return 44 - (value - middle) / room * 56

    for place, version in _versions(item)[:20]:
        x = across(places[place])
        drawing.line("step", x, 8, x, 76, version)
    if item.baseline_ns:
        drawing.line("level", 0, y(item.baseline_ns), 1, y(item.baseline_ns), "baseline")
    for place in _marks(item):
        x = across((places[place - 1] + places[place]) / 2 if place else places[0])
        drawing.line("mark", x, 8, x, 76, "the level changed")
    shown_places = sorted({*kept([times], len(times), SHOWN_POINTS), len(times) - 1})
    drawing.curve("a", [(across(places[at]), y(times[at])) for at in shown_places])
    drawing.dot("a", across(places[-1]), y(times[-1]), duration(times[-1]), 3)
    first, last = _ends(item.points[0].created_utc, item.points[-1].created_utc)
    drawing.text(0, _HEIGHT - 6, first, "start")
    if len(item.points) > 1:
        drawing.text(1, _HEIGHT - 6, last, "end")
    return drawing.markup()


def _series(item: Series) -> Section:
    divisor, unit = scale([point.median_ns for point in item.points])
    marks, versions = _marks(item), _versions(item)
    plot = Plot(
        f"history of {_title(item)}",
        "result",
        [
            Panel(
                "median",
                unit,
                [Curve("median", [point.median_ns / divisor for point in item.points], "a", True)],
                None if item.baseline_ns is None else item.baseline_ns / divisor,
            )
        ],
        [
            f"{shown(point.created_utc, 40)}, CUDA {cuda_version(point.driver_version)}"
            for point in item.points
        ],
        marks,
        seconds=_seconds(item),
        steps=versions,
    )
    detail = Section(_title(item))
    detail.is_folded = not item.changes
    results = number(len(item.points), "result") if item.changes else unchanged(item)
    detail.lines.append(f"{shown(item.device)}, {item.source}, {results}, latest {duration(item.latest_ns)}")
    detail.lines += filter(None, [from_where(item)])
    detail.lines += [
        f"{percent(change.ratio, 1)} on {shown(change.created_utc)} ({shown(change.path)})"
        for change in item.changes
    ]
    legend = ["median of each result"]
    legend += ["upright, dashed: the level changed"] if marks else []
    legend += ["upright, dotted: another driver"] if versions else []
    legend += ["level, dashed: the baseline"] if item.baseline_ns is not None else []
    detail.charts.append(("; ".join(legend), plot))
    return detail
