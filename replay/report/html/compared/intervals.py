"""Intervals of all rows against the smallest change that counts."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from replay.report.html.axis import round_ticks
from replay.report.html.drawing import Drawing, Scale
from replay.results.comparison import ComparedRow
from replay.text import percent, shown

SHOWN_ROWS = 60
_ROW, _AXIS = 38, 24
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
    drawing.box("band", across(-minimum_effect), 0, across(minimum_effect), bottom)
    for tick in round_ticks(100 * across.low, 100 * across.high, 7):
        x = across(tick / 100)
        drawing.line("grid", x, 0, x, bottom)
        drawing.text(x, height - 7, f"{tick:+g} %" if tick else "0 %")
    drawing.line("zero", across(0.0), 0, across(0.0), bottom)
    for at, row in enumerate(drawn):
        assert row.ratio is not None
        y = _ROW * at + 27
        drawing.text(0.0, y - 13, f"{shown(row.kernel, 70)}  {row.verdict}", "start", "label")
        if row.low is not None and row.high is not None:
            text = f"{percent(row.low)} .. {percent(row.high)}"
            drawing.line(f"interval {row.verdict}", across(row.low - 1), y, across(row.high - 1), y, text)
        drawing.dot(row.verdict, across(row.ratio - 1), y, percent(row.ratio), 5)
        x = across(max(row.ratio, row.high or row.ratio) - 1)
        drawing.text(x + 0.012 if x < 0.8 else 0.99, y + 4 if x < 0.8 else y - 13, percent(row.ratio),
                     "start" if x < 0.8 else "end", "label")  # fmt: skip
    more = f" The first {SHOWN_ROWS} rows." if len(rows) > SHOWN_ROWS else ""
    caption = (
        f"Change of B against A; right is slower. The band is the smallest change that counts, "
        f"{100 * minimum_effect:g} % on either side; the bar is the interval.{more}"
    )
    return caption, drawing.markup()
