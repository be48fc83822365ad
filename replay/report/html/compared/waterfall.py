"""From the time of A to that of B, launch by launch."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from replay.report.html.drawing import Drawing, Scale
from replay.results.comparison import ComparedLaunch
from replay.text import duration, number, shown

SHOWN_LAUNCHES = 12
_ROW = 36


def waterfall(launches: Sequence[ComparedLaunch]) -> tuple[str, Markup] | None:
    """The largest changes, each as a bar that begins where the one before ended. None where nothing changed."""
    total_a, total_b = (sum(getattr(item, name) for item in launches) for name in ("a_ns", "b_ns"))
    changed = [item for item in launches if item.a_ns != item.b_ns]
    if not changed:
        return None
    steps: list[tuple[str, float]] = [
        (f"call {item.call}, {shown(item.kernel, 60)}", item.b_ns - item.a_ns)
        for item in changed[:SHOWN_LAUNCHES]
    ]
    rest = changed[SHOWN_LAUNCHES:]
    if rest:
        steps.append(
            (number(len(rest), "other launch", "other launches"), sum(item.b_ns - item.a_ns for item in rest))
        )
    places = [total_a]
    for _, change in steps:
        places.append(places[-1] + change)
    across = Scale(min(places), max(places), 0.06)
    change = total_b - total_a
    said = "; ".join(f"{name} {_signed(step)}" for name, step in steps[:6])
    drawing = Drawing(_ROW * (len(steps) + 2), f"From {duration(total_a)} to {duration(total_b)}. {said}")
    _end(drawing, across, 0, f"A, all launches {duration(total_a)}", total_a)
    for at, (name, step) in enumerate(steps, 1):
        y = _ROW * at
        begin, end = sorted((places[at - 1], places[at]))
        share = f", {100 * step / change:.0f} % of the change" if change else ""
        text = f"{name}: {_signed(step)}{share}"
        drawing.line("reference", across(places[at - 1]), y - 12, across(places[at - 1]), y + 30)
        drawing.text(0.0, y + 12, text, "start", "label")
        style = "change slower" if step > 0 else "change faster"
        drawing.box(style, across(begin), y + 17, max(across(end), across(begin) + 0.003), y + 30, text)
    _end(drawing, across, len(steps) + 1, f"B, all launches {duration(total_b)}", total_b)
    return (
        "Launches timed one by one, the largest change first: each bar begins where the one above ends.",
        drawing.markup(),
    )


def _end(drawing: Drawing, across: Scale, row: int, text: str, value: float) -> None:
    y = _ROW * row
    drawing.text(0.0, y + 12, text, "start", "label")
    drawing.dot("plain", across(value), y + 23, text, 5)


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '-'}{duration(abs(ns))}"
