"""Text of `replay minimise`: the symptom, the sizes, and what each pass did."""

from __future__ import annotations

from collections.abc import Iterator

from replay.minimising.model import Minimisation
from replay.text import Column, Screen, duration, fields, heading, number, shown, size, table

_COLUMNS = (Column("pass"), Column("tried", "right"), Column("kept", "right"), Column("size", "right"))


def render_minimisation(found: Minimisation, screen: Screen) -> str:
    """All of it."""
    return "\n".join(
        [
            heading(f"{shown(found.path)}: {size(found.file_bytes)} of {size(found.original_bytes)}", screen),
            fields(_facts(found), screen),
            "",
            table(
                _COLUMNS,
                [(item.name, str(item.tried), str(item.kept), size(item.bytes)) for item in found.passes],
                screen,
            ),
        ]
    )


def _facts(found: Minimisation) -> Iterator[tuple[str, str]]:
    yield "symptom", shown(f"{found.symptom}: {found.what}" if found.what else found.symptom)
    looks = f"shown in {found.shown} of {number(found.looks, 'look')} at the end"
    votes = f"; a step was given up after {number(found.votes, 'look')}" if found.votes > 1 else ""
    yield "certainty", looks + votes
    calls, ranges = number(found.calls[0], "call"), number(found.ranges[0], "range")
    yield "window", f"{found.calls[1]} of {calls}, {found.ranges[1]} of {ranges} of memory"
    yield "effort", f"{number(found.replays, 'replay')}, {duration(found.wall_s * 1e9)}"
    if not found.finished:
        yield "ended", f"{found.reason}: the same command goes on from here"
    for note in found.notes:
        yield "note", shown(note)
