"""Intervals of all rows against the smallest change that counts."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from replay.report.html.axis import round_ticks
from replay.report.html.drawing import Drawing, Scale
from replay.results.comparison import ComparedRow
from replay.text import percent, shown

SHOWN_ROWS = 60
_WORDS, _ROW, _AXIS = 19, 44, 20  # pixels: the line of words, all of a row, below
_WIDEST = 4.0  # times the smallest effect on each side of the rest: farther ends of intervals are cut, with an arrow


def intervals(rows: Sequence[ComparedRow], minimum_effect: float) -> tuple[str, Markup] | None:
    """A row each: its name above, the interval as a bar with the estimate on it. None where no row has an interval."""
    drawn = [row for row in rows if row.ratio is not None][:SHOWN_ROWS]
    if not drawn:
        return None
    ratios = [row.ratio - 1 for row in drawn if row.ratio is not None]
    reach = max([abs(ratio) for ratio in ratios] + [minimum_effect]) + _WIDEST * minimum_effect
    ends = [end - 1 for row in drawn for end in (row.low, row.high) if end is not None]
    low = max(min([*ends, *ratios, -minimum_effect]), -reach)
    high = min(max([*ends, *ratios, minimum_effect]), reach)
    across = Scale(low, high, 0.08)
    height = _ROW * len(drawn) + _AXIS
    bottom = height - _AXIS
    said = "; ".join(f"{shown(row.kernel, 60)} {percent(row.ratio or 1.0)}" for row in drawn[:10])
    drawing = Drawing(height, f"Change of B against A, with intervals. {said}")
    ticks = round_ticks(100 * across.low, 100 * across.high, 7)
    for at, row in enumerate(drawn):
        _row(drawing, across, row, _ROW * at, minimum_effect, ticks)
    for tick in ticks:
        drawing.text(across(tick / 100), bottom + 15, f"{tick:+g} %" if tick else "0 %")
    more = f" The first {SHOWN_ROWS} rows." if len(rows) > SHOWN_ROWS else ""
    caption = (
        f"Change of B against A; right is slower. The band is the smallest change that counts, "
        f"{100 * minimum_effect:g} % on either side; the bar is the interval.{more}"
    )
    return caption, drawing.markup()


def _row(
    drawing: Drawing,
    across: Scale,
    row: ComparedRow,
    top: float,
    minimum_effect: float,
    ticks: Sequence[float],
) -> None:
    """Words in a line of their own; below it the strip with band, grid and interval, which run through no text."""
    assert row.ratio is not None
    begin, end = top + _WORDS, top + _ROW - 4
    middle = (begin + end) / 2
    drawing.text(1.0, top + 14, f"{row.verdict} {percent(row.ratio)}", "end", f"label {row.verdict}")
    drawing.name(0.66, top, shown(row.kernel, 300))
    drawing.box("band", across(-minimum_effect), begin, across(minimum_effect), end)
    for tick in ticks:
        drawing.line("grid", across(tick / 100), begin, across(tick / 100), end)
    drawing.line("zero", across(0.0), begin, across(0.0), end)
    if row.low is not None and row.high is not None:
        text = f"{percent(row.low)} .. {percent(row.high)}"
        drawing.line(
            f"interval {row.verdict}", across(row.low - 1), middle, across(row.high - 1), middle, text
        )
    drawing.dot(row.verdict, across(row.ratio - 1), middle, percent(row.ratio), 5)
