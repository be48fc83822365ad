"""Small charts as SVG: dots in order, with levels and marks. Numbers alone go in; every text is escaped by the caller's
template (the result is markup)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 12, 26
MAXIMUM_POINTS = 4000


@dataclass(frozen=True)
class Line:
    """Values in their order. style: a CSS class (a, b, plain). joined: with a line through them."""

    name: str
    values: Sequence[float]
    style: str = "plain"
    joined: bool = False
    titles: Sequence[str] = field(default_factory=list)


def chart(
    lines: Sequence[Line], label: str, unit: str = "", marks: Sequence[int] = (), level: float | None = None
) -> Markup:
    """Lines over one axis. label: what it shows, for who cannot see it. marks: positions of upright lines. level: a
    horizontal one."""
    values = [value for line in lines for value in line.values] + ([] if level is None else [level])
    count = max((len(line.values) for line in lines), default=0)
    if not values:
        return Markup("")
    low, high = min(values), max(values)
    # At least 4 % of height, or the smallest noise would look like mountains.
    margin = max((high - low) * 0.08, abs(high) * 0.02, 1e-9)
    low, high = low - margin, high + margin

    def x(place: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (place + 0.5) / max(1, count)

    def y(value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, label)]
    for tick in _ticks(low, high):
        parts.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, WIDTH - _RIGHT, y(tick), y(tick)
            )
        )
        parts.append(
            Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
                _LEFT - 6, y(tick) + 4, f"{tick:g} {unit}".strip()
            )
        )
    if level is not None:
        parts.append(
            Markup('<line class="level" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, WIDTH - _RIGHT, y(level), y(level)
            )
        )
    parts += [
        Markup('<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(
            x(place) - (WIDTH - _LEFT - _RIGHT) / max(1, count) / 2, _TOP, HEIGHT - _BOTTOM
        )
        for place in marks
    ]
    for line in lines:
        step = max(1, len(line.values) // MAXIMUM_POINTS)
        places = range(0, len(line.values), step)
        if line.joined and len(line.values) > 1:
            points = " ".join(f"{x(place):.1f},{y(line.values[place]):.1f}" for place in places)
            parts.append(Markup('<polyline class="{}" points="{}"/>').format(line.style, points))
        for place in places:
            title = line.titles[place] if place < len(line.titles) else f"{line.values[place]:g} {unit}"
            parts.append(
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}</title></circle>').format(
                    line.style, x(place), y(line.values[place]), title
                )
            )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def bar(fraction: float, text: str) -> Markup:
    """A bar from 0 to 1."""
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" role="img" aria-label="{}"><rect width="{:.1f}" height="10"/></svg>'
    ).format(escape(text), 100 * min(1.0, max(0.0, fraction)))


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round values between both."""
    import math

    span = high - low
    step = 10 ** math.floor(math.log10(span / 3)) if span > 0 else 1.0
    for factor in (5, 2):
        if span / (step * factor) >= 3:
            step *= factor
            break
    first = math.ceil(low / step)
    return [round(n * step, 12) for n in range(first, math.floor(high / step) + 1)][:8]
