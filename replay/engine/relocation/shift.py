"""Moving all captured memory on purpose, for `replay run --shift`: where to, and what came of it.

The captured addresses stay held for as long as the worker lives, so nothing else can be there and a pointer that was
not patched faults, or reaches nothing. Every stretch moves by a distance of its own: what follows a distance in the
outputs tells which memory it was made from, and code that relies on how far two stretches are apart is found out.

Nothing but the standard library may be imported here: it runs before the driver is loaded (`worker.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from replay.engine.placing.memory import hold
from replay.planning.families import GRANULE_BYTES
from replay.planning.spans import PAGE_BYTES, Span, units, whole

# Below what the kernel gives to programs and libraries, be it from the top (0x7f...) or the bottom (0x2aaa...).
# The second is no multiple of a power of two away from the first, so that no mask hides both distances.
AREAS = (0x0A00_0000_0000, 0x1275_1340_0000)
_TRIES = 64
_DISTINCT_HALVES = 1024  # spans: so many distances differ in their low 32 bits too
_LOW_HALF = (1 << 32) - 1

CensusChange = dict[str, list[list[int | str]]]


def plan_targets(spans: Sequence[Span], number: int) -> list[int]:
    """Where each span goes in shifted replay `number` (from 1): same place within a granule, no two by one distance."""
    address = AREAS[(number - 1) % len(AREAS)] + number * GRANULE_BYTES
    used: set[int] = set()
    mask = _LOW_HALF if len(spans) <= _DISTINCT_HALVES else -1
    targets = []
    for span in spans:
        target = -(-address // GRANULE_BYTES) * GRANULE_BYTES + span.address % GRANULE_BYTES
        while (target - span.address) & mask in used:
            target += GRANULE_BYTES
        used.add((target - span.address) & mask)
        targets.append(target)
        address = target + span.size_bytes + number * GRANULE_BYTES
    return targets


def hold_targets(spans: Sequence[Span], number: int) -> dict[Span, int]:
    """Hold a place for each span, as planned where that is free. A span without one is moved by the driver's choice."""
    from dataclasses import replace

    found: dict[Span, int] = {}
    ahead = 0
    pieces = units(spans)
    stretches = [whole(unit) for unit in pieces]
    for unit, stretch, planned in zip(pieces, stretches, plan_targets(stretches, number), strict=True):
        for _ in range(_TRIES):
            if not hold([replace(stretch, address=planned + ahead)]):
                found.update({span: planned + ahead + span.address - stretch.address for span in unit})
                break
            ahead += -(-stretch.size_bytes // GRANULE_BYTES) * GRANULE_BYTES + GRANULE_BYTES
    return found


def hold_variables(places: Iterable[tuple[int, int]]) -> None:
    """Keep variables of modules, (address, bytes) each, away from where they were captured, as far as that is free."""
    for address, size_bytes in places:
        start = address // PAGE_BYTES * PAGE_BYTES
        hold([Span(start, -(-(address + size_bytes) // PAGE_BYTES) * PAGE_BYTES - start, True)])


def change_census(program: Any, change: CensusChange) -> None:
    """Try out another census: `patch` are words [site kind, site, offset, captured address] that it lacks, with a fifth
    number of those whose high half is elsewhere; `leave` are [site kind, site, offset] of words that may be
    numbers. Sites are of kind range, call, host (memory that the call of this number reads), or `graph N` (node N of
    the graph that the call of this number describes)."""
    from replay.engine.census import ChosenWord, Site, Word

    census = program.census
    by_kind = {"range": census.ranges, "call": census.calls, "host": census.hosts}
    for kind, number, offset, *captured in [*change.get("leave", ()), *change.get("patch", ())]:
        at, target = int(offset), int(captured[0]) if captured else None
        high = int(captured[1]) if len(captured) > 1 else None
        name, _, node = str(kind).partition(" ")
        if node:
            site = census.nodes.setdefault((int(number), int(node)), Site())
        else:
            site = by_kind[name].setdefault(int(number), Site())
        if name in ("host", "graph"):
            site.chosen.append(ChosenWord(at, target, high))
        elif target is not None:
            site.words.append(Word(at, target, high))
        else:
            site.words[:] = [word for word in site.words if word.offset != at]
