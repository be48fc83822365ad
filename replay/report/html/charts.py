"""Small charts as SVG: dots in order, with levels and marks. Only numbers go in; every text is escaped by the caller's
template (the result is markup)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from replay.report.html.axis import round_ticks

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 20, 26


@dataclass(frozen=True)
class Line:
    """Values in their order, None where there is none. style: a CSS class (a, b, clock, power). joined: with a line
    through them. titles: of each value, after it. ranges: of an upright bar at each value."""

    name: str
    values: Sequence[float | None]
    style: str = "plain"
    joined: bool = False
    titles: Sequence[str] = field(default_factory=list)
    ranges: Sequence[tuple[float, float] | None] = ()


def chart(
    lines: Sequence[Line],
    label: str,
    unit: str = "",
    marks: Sequence[float] = (),
    level: float | None = None,
    places: Sequence[float] = (),
    count: int = 0,
    name: str = "",
    ticks: Sequence[tuple[float, str]] = (),
    steps: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Lines over one axis. label: what it shows, for who cannot see it. marks: positions of upright lines. level: a
    horizontal one. places, count: where each value is among so many; left out: one after another. name: written
    above. ticks: places, and what is written below them, instead of their numbers. steps: upright lines with words."""
    known = [value for line in lines for value in line.values if value is not None]
    known += [end for line in lines for ends in line.ranges if ends is not None for end in ends]
    values = known + ([] if level is None else [level])
    places = places or range(max((len(line.values) for line in lines), default=0))
    count = count or len(places)
    if not values:
        return Markup("")
    low, high = min(values), max(values)
    # At least 4 % of height, or the smallest noise would look like mountains.
    margin = max((high - low) * 0.08, abs(high) * 0.02, 1e-9)
    low, high = low - margin, high + margin

    def x(place: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (place + 0.5) / max(1, count)

    def y(value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, label)]
    if name:
        parts.append(_text(_LEFT, 11, "start", name))
    for tick in round_ticks(low, high):
        parts.append(_stroke("grid", _LEFT, WIDTH - _RIGHT, y(tick), y(tick)))
        parts.append(_text(_LEFT - 6, y(tick) + 4, "end", f"{tick:g} {unit}".strip()))
    for at, text in ticks or [(place - 1, f"{place:,}") for place in _whole_ticks(count)]:
        parts.append(_text(x(at), HEIGHT - 8, "middle", text))
    for at, text in steps:
        parts.append(_stroke("step", x(at), x(at), _TOP, HEIGHT - _BOTTOM))
        parts.append(_text(x(at) - 3, _TOP + 9, "end", text))
    if level is not None:
        parts.append(_stroke("level", _LEFT, WIDTH - _RIGHT, y(level), y(level)))
    for mark in marks:
        parts.append(_stroke("mark", x(mark - 0.5), x(mark - 0.5), _TOP, HEIGHT - _BOTTOM))
    for line in lines:
        drawn = [
            (x(place), y(value), value, line.titles[at] if at < len(line.titles) else "")
            for at, (place, value) in enumerate(zip(places, line.values, strict=False))
            if value is not None
        ]
        for place, ends in zip(places, line.ranges, strict=False):
            if ends is not None:
                parts.append(_stroke(f"range {line.style}", x(place), x(place), y(ends[0]), y(ends[1])))
        if line.joined and len(drawn) > 1:
            points = " ".join(f"{left:.1f},{top:.1f}" for left, top, _, _ in drawn)
            parts.append(Markup('<polyline class="{}" points="{}"/>').format(line.style, points))
        for left, top, value, title in drawn:
            text = f"{value:g} {unit}".strip() + (f", {title}" if title else "")
            parts.append(
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}</title></circle>').format(
                    line.style, left, top, text
                )
            )
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def bar(fraction: float, text: str) -> Markup:
    """A bar from 0 to 1."""
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect width="{:.1f}" height="10"/></svg>'
    ).format(escape(text), 100 * min(1.0, max(0.0, fraction)))


def _stroke(style: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(
        style, x1, x2, y1, y2
    )


def _text(x: float, y: float, anchor: str, text: str) -> Markup:
    return Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def _whole_ticks(count: int) -> list[int]:
    """Up to ten round places from 1 to count."""
    steps = (size * 10**power for power in range(12) for size in (1, 2, 5))
    step = next(step for step in steps if count <= step * 10)
    return list(range(step, count + 1, step))
