"""A figure of one or more panels over the same places: an SVG for everybody, and the same values as JSON for the script
that makes it interactive. Long series are thinned out, and that is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from replay.report.html.axis import day_ticks
from replay.report.html.charts import Line, chart

if TYPE_CHECKING:
    Values = Sequence[float | None]

# Circles of an SVG, and points of a canvas, of one figure
DRAWN_POINTS = 600
LIVE_POINTS = 4000
PAGE_POINTS = 200_000  # of all figures together
LEAST_POINTS = 40
SVG_TICKS = 5
MAXIMUM_STEPS = 50


@dataclass(frozen=True)
class Curve:
    """One value for each place, None where there is none. style: a CSS variable: a, b, clock, power. joined: with a
    line through them. ranges: from where to where an upright bar reaches at each place, None where there is none."""

    name: str
    values: Values
    style: str = "a"
    joined: bool = False
    ranges: Sequence[tuple[float, float] | None] = ()


@dataclass(frozen=True)
class Panel:
    """Curves of one unit. level: a horizontal line."""

    name: str
    unit: str
    curves: Sequence[Curve]
    level: float | None = None


@dataclass(frozen=True)
class Plot:
    """label: what it shows, for who cannot see it. x: what a place is ("round"); places are counted from 1. titles: of
    each place, for who looks closer. marks: positions (from 0), each with an upright line before it. seconds: when each
    place was, since 1970: then the axis is one of time. steps: positions with an upright line, and its words."""

    label: str
    x: str
    panels: Sequence[Panel]
    titles: Sequence[str] = ()
    marks: Sequence[int] = field(default_factory=tuple)
    seconds: Sequence[float] = ()
    steps: Sequence[tuple[int, str]] = ()

    def before(self, place: int) -> float:
        """Halfway from the place before it, on the axis."""
        if not self.seconds:
            return place + 0.5
        return (self.seconds[max(0, place - 1)] + self.seconds[place]) / 2

    def on_axis(self, place: int) -> float:
        """Places count from 1, or are moments."""
        return self.seconds[place] if self.seconds else place + 1

    @property
    def places(self) -> int:
        return max((len(curve.values) for panel in self.panels for curve in panel.curves), default=0)


def points_for_each(figures: int) -> int:
    """How many places each figure of a page may show, so that the page stays one that a browser can open."""
    return max(LEAST_POINTS, min(LIVE_POINTS, PAGE_POINTS // max(1, figures)))


@dataclass(frozen=True)
class Drawn:
    """svg: for everybody. data: for the script. left_out: what is to be said of points that are not shown."""

    svg: Markup
    data: Markup
    left_out: str = ""


def draw(plot: Plot, points: int = LIVE_POINTS) -> Drawn:
    """A figure with so many places at most."""
    panels = [
        panel for panel in plot.panels if any(value is not None for c in panel.curves for value in c.values)
    ]
    if not panels:
        return Drawn(Markup(""), Markup(""))
    columns = [curve.values for panel in panels for curve in panel.curves]
    live = kept(columns, plot.places, points)
    drawn = kept(columns, plot.places, min(points, DRAWN_POINTS))
    at = _positions(plot)
    parts = [
        chart(
            [
                Line(curve.name, [_at(curve.values, place) for place in drawn], curve.style, curve.joined,
                     [_at_text(plot.titles, place) for place in drawn], [_range(curve, place) for place in drawn])
                for curve in panel.curves
            ],
            f"{plot.label}: {panel.name}", panel.unit, [at(plot.before(mark)) + 0.5 for mark in plot.marks],
            panel.level, [at(plot.on_axis(place)) for place in drawn], plot.places,
            panel.name if len(panels) > 1 else "",
            [(at(moment), text) for moment, text in day_ticks(plot.seconds[0], plot.seconds[-1], SVG_TICKS)]
            if plot.seconds else (),
            [(at(plot.before(place)), text) for place, text in plot.steps[:MAXIMUM_STEPS]],
        )
        for panel in panels
    ]  # fmt: skip
    data = {
        "x": plot.x,
        "time": bool(plot.seconds),
        "xs": [plot.on_axis(place) for place in live],
        "titles": [plot.titles[place] for place in live] if plot.titles else [],
        "marks": [plot.before(place) for place in plot.marks],
        "steps": [{"x": plot.before(place), "text": text} for place, text in plot.steps[:MAXIMUM_STEPS]],
        "panels": [
            {
                "name": panel.name,
                "unit": panel.unit,
                "level": panel.level,
                "curves": [
                    {"name": curve.name, "style": curve.style, "joined": curve.joined,
                     "ranges": [_range(curve, place) for place in live] if any(curve.ranges) else [],
                     "values": [_at(curve.values, place) for place in live]}
                    for curve in panel.curves
                ],
            }
            for panel in panels
        ],
    }  # fmt: skip
    left_out = "" if len(live) == plot.places else (
        f"{len(live):,} of {plot.places:,} places are shown: of each stretch the lowest and the highest"
    )  # fmt: skip
    data_element = Markup('<script type="application/json">{}</script>').format(script_json(data))
    return Drawn(Markup("").join(parts), data_element, left_out)


def _positions(plot: Plot) -> Callable[[float], float]:
    """From the axis to places of the drawing, which count from 0."""
    if not plot.seconds:
        return lambda value: value - 1
    first, last = plot.seconds[0], plot.seconds[-1]
    return lambda value: (value - first) / (last - first) * (plot.places - 1)


def kept(columns: Sequence[Values], places: int, limit: int) -> list[int]:
    """Places to show: all, or of each of equal stretches where each column is lowest and highest, so that no outlier is
    lost."""
    if places <= limit:
        return list(range(places))
    stretches = max(1, limit // (2 * max(1, len(columns))))
    found: set[int] = set()
    for stretch in range(stretches):
        inside = range(stretch * places // stretches, (stretch + 1) * places // stretches)
        for values in columns:
            known = [(value, place) for place in inside if (value := _at(values, place)) is not None]
            if known:
                found |= {min(known)[1], max(known)[1]}
    return sorted(found)


def script_json(value: object) -> Markup:
    """JSON that can be in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))  # noqa: S704


def _range(curve: Curve, place: int) -> tuple[float, float] | None:
    return curve.ranges[place] if place < len(curve.ranges) else None


def _at(values: Values, place: int) -> float | None:
    return values[place] if place < len(values) else None


def _at_text(texts: Sequence[str], place: int) -> str:
    return texts[place] if place < len(texts) else ""
