"""Where the rounds of both sides lie."""

from __future__ import annotations

from markupsafe import Markup

from replay.report.html.axis import round_ticks
from replay.report.html.drawing import Drawing, Scale
from replay.report.html.model import scale
from replay.results.comparison import ComparedRow
from replay.text import duration
from replay.timing.density import POINTS, density, extent
from replay.timing.statistics import median

_CURVE, _ROW, _AXIS = 96, 24, 22


def densities(row: ComparedRow) -> tuple[str, Markup] | None:
    """The medians of the rounds: their density, and each as a dot below. None with fewer than two rounds, or where all
    are the same on both sides."""
    sides = {"A": [item.a_ns for item in row.rounds], "B": [item.b_ns for item in row.rounds]}
    values = [value for side in sides.values() for value in side]
    if len(row.rounds) < 2 or len(set(values)) < 2:
        return None
    ends = [end for side in sides.values() for end in extent(side)]
    across = Scale(min(ends), max(ends), 0.08)
    divisor, unit = scale([max(ends)])
    curves = {name: density(side, across.low, across.high, POINTS) for name, side in sides.items()}
    tall = _CURVE if any(curves.values()) else 4
    height = tall + 2 * _ROW + _AXIS
    said = "; ".join(f"{name}: median {duration(median(side))}" for name, side in sides.items())
    drawing = Drawing(height, f"Where the medians of the rounds lie. {said}")
    for tick in round_ticks(across.low / divisor, across.high / divisor, 7):
        x = across(tick * divisor)
        drawing.line("grid", x, 0, x, height - _AXIS)
        drawing.text(x, height - 6, f"{tick:g} {unit}")
    for name, curve in curves.items():
        if curve:
            top = max(curve)
            places = [(at / (POINTS - 1), tall - (tall - 8) * value / top) for at, value in enumerate(curve)]
            drawing.curve(f"area {name.lower()}", [(0.0, tall), *places, (1.0, tall)], filled=True)
            drawing.curve(name.lower(), places)
    for at, (name, side) in enumerate(sides.items()):
        y = tall + _ROW * (at + 0.5)
        for value in side:
            drawing.dot(f"{name.lower()} faint", across(value), y, f"{name} {duration(value)}", 4)
        x = across(median(side))
        drawing.line(name.lower(), x, y - 9, x, y + 9)
        right, left = across(max(side)), across(min(side))
        text = f"{name} {duration(median(side))}"
        drawing.text(right + 0.015 if right < 0.8 else left - 0.015, y + 4, text, "start" if right < 0.8 else "end",
                     "label")  # fmt: skip
    return (
        "Medians of the rounds: their density above, each as a dot below, the median of all upright.",
        drawing.markup(),
    )
