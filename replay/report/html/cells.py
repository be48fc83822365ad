"""Small drawings inside of the cells of a table. Their words are the text alternative."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from replay.report.html.plots import kept

_WIDTH, _HEIGHT = 120, 18
_MARGIN = 5
_POINTS = 60


def interval_cell(
    values: tuple[float, float, float], axis: tuple[float, float], reference: float, words: str
) -> Markup:
    """Low end, estimate and high end on an axis, with an upright line at the reference."""

    def x(value: float) -> float:
        return _across(value, axis)

    middle = _HEIGHT / 2
    return Markup(
        '<svg class="cell" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
        '<line class="reference" x1="{:.1f}" x2="{:.1f}" y1="1" y2="{}"/>'
        '<line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>'
        '<circle class="{}" cx="{:.1f}" cy="{}" r="4"/></svg>'
    ).format(
        _WIDTH, _HEIGHT, words, words, x(reference), x(reference), _HEIGHT - 1, x(values[0]), x(values[2]), middle,
        middle, "b" if values[0] > reference else "a", x(values[1]), middle,
    )  # fmt: skip


def course_cell(values: Sequence[float], changes: Sequence[int], words: str, flat: float) -> Markup:
    """Values in their order as a line, upright marks before the places of changes. Of many values, the highest and the
    lowest of stretches. flat: the least height, as a share of the smallest value."""
    low, high = min(values), max(values)
    room = max(high - low, flat * low) or 1.0
    middle = (low + high) / 2
    last = max(1, len(values) - 1)
    points = []
    for place in sorted({*kept([values], len(values), _POINTS), len(values) - 1}):
        x = _across(place, (0, last))
        y = _HEIGHT - 3 - (_HEIGHT - 6) * ((values[place] - middle) / room + 0.5)
        points.append(f"{x:.1f},{y:.1f}")
    marks = Markup("").join(
        Markup('<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1}"/>').format(
            _across(place - 0.5, (0, last)), _HEIGHT
        )
        for place in changes
    )
    end = points[-1].split(",")
    return Markup(
        '<svg class="cell" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}'
        '<polyline class="a" points="{}"/><circle class="a" cx="{}" cy="{}" r="2.5"/></svg>'
    ).format(_WIDTH, _HEIGHT, words, words, marks, " ".join(points), end[0], end[1])


def _across(value: float, axis: tuple[float, float]) -> float:
    low, high = axis
    share = (value - low) / (high - low) if high > low else 0.5
    return _MARGIN + (_WIDTH - 2 * _MARGIN) * min(1.0, max(0.0, share))
