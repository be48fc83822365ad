"""Where samples lie: a curve of their density, and below it each group with its quartiles and its median."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from replay.report.html.axis import round_ticks
from replay.report.html.drawing import Drawing, Scale
from replay.report.html.model import scale
from replay.text import duration, number
from replay.timing.density import POINTS, bandwidth, density, extent, median_interval
from replay.timing.statistics import median, quantile

MOST_DOTS = 60  # samples of a group that are drawn one by one
_CURVE, _ROW, _AXIS = 96, 38, 22  # pixels: of the curves, of each row, below
_HALF_LETTER = 0.0095  # of the width of a telephone


@dataclass(frozen=True)
class Group:
    """Times in nanoseconds. style: a CSS class, a or b."""

    name: str
    style: str
    values: Sequence[float]

    @property
    def varies(self) -> bool:
        return min(self.values) != max(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        ordered = sorted(self.values)
        return quantile(ordered, 0.25), quantile(ordered, 0.75)

    @property
    def words(self) -> str:
        """The median, for a line beside its row."""
        return f"{self.name} {duration(median(self.values))}"


def spread(
    groups: Sequence[Group], what: str, beside: tuple[str, float] | None = None
) -> tuple[str, Markup] | None:
    """What of them is drawn, in sentences, and the drawing. what: they are. beside: a name and one time more. None
    where there is one time alone."""
    found = {float(value) for group in groups for value in group.values}
    if len(found | ({float(beside[1])} if beside is not None else set())) < 2:
        return None
    ends = [end for group in groups for end in extent([float(value) for value in group.values])]
    ends += [] if beside is None else [beside[1]]
    # Room for the ends of the curves, as far as that leaves the rest wide
    room = min(2 * max(bandwidth(group.values) for group in groups), 0.15 * (max(ends) - min(ends)))
    across = Scale(min(ends) - room, max(ends) + room, 0.06)
    curves = [density(group.values, across.low, across.high, POINTS) for group in groups]
    tall = _CURVE if any(curves) else 4
    rows = len(groups) + (beside is not None)
    height = tall + _ROW * rows + _AXIS
    said = "; ".join(_said(group) for group in groups)
    drawing = Drawing(height, f"Where {what} lie. {said}")
    _grid(drawing, across, height, max(ends))
    for group, curve in zip(groups, curves, strict=True):
        if curve:
            top = max(curve)
            places = [(at / (POINTS - 1), tall - (tall - 8) * value / top) for at, value in enumerate(curve)]
            drawing.curve(f"area {group.style}", [(0.0, tall), *places, (1.0, tall)], filled=True)
            drawing.curve(group.style, places)
    for at, group in enumerate(groups):
        _row(drawing, across, tall + _ROW * (at + 0.7), group)
    if beside is not None:
        x, y = across(beside[1]), tall + _ROW * (rows - 0.3)
        drawing.line("reference", x, 0, x, height - _AXIS)
        drawing.dot("plain", x, y, f"{beside[0]} {duration(beside[1])}")
        _name(drawing, x, y, f"{beside[0]} {duration(beside[1])}")
    return _caption(groups, across, bool(any(curves))), drawing.markup()


def _grid(drawing: Drawing, across: Scale, height: int, largest: float) -> None:
    divisor, unit = scale([largest])
    ticks = round_ticks(across.low / divisor, across.high / divisor, 7)
    for tick in ticks:
        x = across(tick * divisor)
        drawing.line("grid", x, 0, x, height - _AXIS)
        if 0.06 <= x <= 0.94 or len(ticks) < 5:  # on a telephone there is no room to turn away from the edge
            drawing.text(x, height - 6, f"{tick:g} {unit}")


def _row(drawing: Drawing, across: Scale, y: float, group: Group) -> None:
    """Each sample as a dot where they are few, quartiles as a bar, the interval of the median inside, the median."""
    style = group.style
    if group.varies:
        if len(group.values) <= MOST_DOTS:
            for value in group.values:
                drawing.dot(f"{style} faint", across(value), y, duration(value), 3.5)
        drawing.line(f"span {style}", *_level(across, group.quartiles, y), f"quartiles: {_said(group)}")
        if (interval := median_interval(group.values)) is not None:
            title = f"95 % interval {duration(interval[0])} .. {duration(interval[1])}"
            drawing.line(f"interval {style}", *_level(across, interval, y), title)
    middle = across(median(group.values))
    drawing.line(style, middle, y - 9, middle, y + 9, group.words)
    drawing.dot(style, middle, y, group.words, 4)
    _name(drawing, middle, y, group.words)


def _level(across: Scale, ends: tuple[float, float], y: float) -> tuple[float, float, float, float]:
    return across(ends[0]), y, across(ends[1]), y


def _name(drawing: Drawing, x: float, y: float, text: str) -> None:
    """Text above what it names, in a line of its own, so that nothing runs through it; on a telephone, too."""
    room = min(0.5, _HALF_LETTER * len(text))
    if 3 * room <= 1 and not room <= x <= 1 - room:  # beside its place, however wide the drawing is
        away = 0.01 if x < room else -0.01
        drawing.text(x + away, y - 13, text, "start" if x < room else "end", "label")
    else:
        drawing.text(min(max(x, room), 1 - room), y - 13, text, "middle", "label")


def _said(group: Group) -> str:
    low, high = map(duration, group.quartiles)
    return f"{group.name}: median {duration(median(group.values))}, {low} .. {high}"


def _caption(groups: Sequence[Group], across: Scale, has_curves: bool) -> str:
    """What is drawn, and nothing else."""
    said = ["Curves: their density, each as high as its own top."] if has_curves else []
    varying = [group for group in groups if group.varies]
    if varying:
        dots = "each sample a dot; " if all(len(group.values) <= MOST_DOTS for group in varying) else ""
        thick = any(median_interval(group.values) is not None for group in varying)
        sure = ", thick where the median lies with 95 % confidence" if thick else ""
        said.append(f"Below: {dots}a bar from quartile to quartile{sure}; the median upright.")
    else:
        said.append("Every sample of a side is the same.")
    outside = sum(not across.low <= value <= across.high for group in groups for value in group.values)
    if outside:
        said.append(f"{number(outside, 'sample')} further out {'is' if outside == 1 else 'are'} not drawn.")
    return " ".join(said)
