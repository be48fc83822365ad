"""Small pictures of characters beside numbers: a course of values, where samples lie, an interval around no change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from replay.text import Screen

COLUMNS = 40
_BLOCKS = "▁▂▃▄▅▆▇█"
FLAT = 0.02  # less scatter than this is drawn as a flat line, or noise would look like a change


def sparkline(values: Sequence[float], columns: int = COLUMNS, flat: float = FLAT) -> str:
    """A row of blocks from the smallest to the largest value; of more values than columns, medians of stretches. flat:
    the least height of the picture, as a share of the smallest value."""
    if not values:
        return ""
    if len(values) > columns:
        edges = [len(values) * n // columns for n in range(columns + 1)]
        values = [sorted(values[begin:end])[(end - begin) // 2] for begin, end in pairwise(edges)]
    low, high = min(values), max(values)
    span = max(high - low, flat * low) or 1.0
    return "".join(_BLOCKS[min(7, int((value - low) / span * 8))] for value in values)


def course(values: Sequence[float], screen: Screen, columns: int = COLUMNS) -> str:
    """A sparkline of samples in their order; nothing where all are equal, or where it cannot be shown."""
    if not screen.has_blocks or len(values) < 2 or min(values) == max(values):
        return ""
    return sparkline(values, columns, 0.0)


def box(
    values: tuple[float, float, float, float, float], axis: tuple[float, float], screen: Screen, columns: int
) -> str:
    """`├──▒▒█▒───┤`: smallest, lower quartile, median, upper quartile and largest on an axis; nothing where all of the
    axis is one value."""
    if not screen.has_blocks or not axis[1] > axis[0]:
        return ""
    low, lower, middle, upper, high = (cell(value, axis, columns) for value in values)
    drawn = [" "] * columns
    drawn[low : high + 1] = "─" * (high - low + 1)
    drawn[low], drawn[high] = "├", "┤"
    drawn[lower : upper + 1] = "▒" * (upper - lower + 1)
    drawn[middle] = "█"
    return "".join(drawn)


def interval(
    values: tuple[float, float, float],
    axis: tuple[float, float],
    marks: Sequence[float],
    screen: Screen,
    columns: int,
) -> str:
    """`┊   │  ┊ ├─●─┤`: low end, estimate and high end on an axis, in front of marks, the first a whole line.
    What lies outside of the axis ends in an arrow."""
    if not screen.has_blocks or not axis[1] > axis[0]:
        return ""
    drawn = [" "] * columns
    for mark in reversed(marks):
        if axis[0] <= mark <= axis[1]:
            drawn[cell(mark, axis, columns)] = "│" if mark == marks[0] else "┊"
    low, middle, high = (cell(value, axis, columns) for value in values)
    drawn[low : high + 1] = "─" * (high - low + 1)
    if high > low:
        drawn[low], drawn[high] = "├", "┤"
    drawn[middle] = "●"
    if values[0] < axis[0]:
        drawn[0] = "◀"
    if values[2] > axis[1]:
        drawn[-1] = "▶"
    return "".join(drawn)


def cell(value: float, axis: tuple[float, float], columns: int) -> int:
    """The column of a value on an axis that is so many columns wide; the nearest end of one outside."""
    low, high = axis
    return min(columns - 1, max(0, round((value - low) / (high - low) * (columns - 1))))
