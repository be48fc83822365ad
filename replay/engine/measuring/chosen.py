"""Which launches of a window are timed one by one: all of a short one, a bounded number of a long one.

Of a long window those are timed that the application timed, as far as they are half of all, and one out of each of as
many equal stretches as are left. Where in its stretch moves on from stretch to stretch by the golden section, so that
no period of the application meets the same kernel each time; the same launches are chosen in every replay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from replay.engine.arguments.prepared import Prepared
from replay.engine.execution.lanes import is_launch, is_work
from replay.engine.execution.repeated import PreparedRepeats
from replay.engine.execution.window import Window

_GOLDEN_SECTION = 0.6180339887498949


class Launch(NamedTuple):
    """place: in the window. item: the call, or its template where `repeats`. number, application_ns: of the call."""

    place: int
    item: Prepared
    number: int
    application_ns: int | None
    repeats: bool


def choose_launches(window: Window, most: int) -> tuple[list[Launch], int]:
    """At most so many launches, in the order of the window, and how many it has. One that failed in the application has
    no time, and is none."""
    parts = [(first, part, places) for first, part in window.cut(()) if (places := _places(part))]
    ends = list(accumulate(len(places) for _, _, places in parts))
    total = ends[-1] if ends else 0
    ranks: Iterable[int] = range(total)
    if total > most:
        in_application: list[int] = []
        for (_, part, places), end in zip(parts, ends, strict=True):
            in_application += (end - len(places) + at for at in _timed_there(part, places))
        del in_application[most // 2 :]
        ranks = sorted({*in_application, *spread(total, most - len(in_application))})
    found = []
    for rank in ranks:
        number = bisect_right(ends, rank)
        first, part, places = parts[number]
        found.append(_launch(first, part, places[rank - (ends[number] - len(places))]))
    return found, total


def spread(total: int, number: int) -> list[int]:
    """One of each of so many equal stretches of `range(total)`."""
    borders = [at * total // number for at in range(number + 1)]
    return [
        begin + int(at * _GOLDEN_SECTION % 1 * (end - begin))
        for at, (begin, end) in enumerate(zip(borders, borders[1:], strict=False))
    ]


def _works(item: Prepared) -> bool:
    return is_launch(item) and is_work(item)


def _places(part: Prepared | PreparedRepeats) -> Sequence[int]:
    """Where the launches of a part are, in it."""
    if isinstance(part, Prepared):
        return [0] if _works(part) else []
    return part.places_of([number for number, item in part.templates.items() if _works(item)])


def _timed_there(part: Prepared | PreparedRepeats, places: Sequence[int]) -> list[int]:
    """Which of these launches the application timed."""
    if isinstance(part, Prepared):
        return [0] if part.call.gpu_ns is not None else []
    found = ((bisect_left(places, at), at) for at in sorted(part.repeats.gpu_ns))
    return [rank for rank, at in found if rank < len(places) and places[rank] == at]


def _launch(first: int, part: Prepared | PreparedRepeats, at: int) -> Launch:
    if isinstance(part, Prepared):
        return Launch(first, part, part.call.number, part.call.gpu_ns, repeats=False)
    repeats = part.repeats
    columns = repeats.columns
    template = part.templates[columns.which[at]]
    return Launch(first + at, template, columns.numbers[at], repeats.gpu_ns.get(at), repeats=True)
