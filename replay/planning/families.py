"""Which captured mappings share one physical memory, and when each range lives. Pure.

Mappings of one physical allocation that live at the same time are a *family*: they share one allocation in the replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from replay.records import dataclass
from replay.snapshot.schema import Range

GRANULE_BYTES = 2 << 20  # of cuMemCreate on every GPU so far (CU_MEM_ALLOC_GRANULARITY_MINIMUM)
BEFORE_THE_WINDOW, AFTER_THE_WINDOW = -1, 1 << 64


@dataclass
class Families:
    """Who shares memory with whom.

    of: range id -> family (from 1). size_bytes: of a family's memory. covered: range id -> how many of its first bytes
    other addresses of the family hold already when it appears. split: ids of ranges that would share memory but
    cannot, since their addresses overlap others only in part.
    """

    of: dict[int, int] = field(default_factory=dict)
    size_bytes: dict[int, int] = field(default_factory=dict)
    covered: dict[int, int] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)


def born(range_: Range) -> int:
    """The number of the call that made it; below all of them where it was there before the window."""
    return BEFORE_THE_WINDOW if range_.born_call is None else range_.born_call


def died(range_: Range) -> int:
    """The number of the call that ended it; above all of them where it outlives the window."""
    return AFTER_THE_WINDOW if range_.died_call is None else range_.died_call


def find_families(ranges: Iterable[Range]) -> Families:
    """The families among the ranges of a snapshot."""
    families = Families()
    ranges = list(ranges)
    mapped = [item for item in ranges if item.physical]
    if not mapped:
        return families
    by_physical: dict[int, list[Range]] = {}
    for item in mapped:
        by_physical.setdefault(item.physical, []).append(item)
    components: list[list[Range]] = []
    for group in by_physical.values():
        end = BEFORE_THE_WINDOW - 1
        for item in sorted(group, key=born):
            if born(item) < end:
                components[-1].append(item)
            else:
                components.append([item])
            end = max(end, died(item))
    ordered = sorted(ranges, key=lambda item: item.address)
    whole = _whole(ordered)
    for component in components:
        if len({item.address for item in component}) < 2:
            continue
        if not all(item.id in whole for item in component):
            families.split.update(item.id for item in component)
            continue
        number = len(families.size_bytes) + 1
        families.size_bytes[number] = max(item.size_bytes for item in component)
        for item in component:
            families.of[item.id] = number
            if item.born_call is not None:
                families.covered[item.id] = max(
                    (
                        min(other.size_bytes, item.size_bytes)
                        for other in component
                        if other is not item and born(other) < born(item) < died(other)
                    ),
                    default=0,
                )
    return families


def _whole(ordered: list[Range]) -> set[int]:
    """Ids of ranges of whole granules that overlap others only where both are at the same addresses."""
    found: set[int] = set()
    group: list[Range] = []
    end = 0
    for item in [*ordered, None]:
        if item is not None and group and item.address // GRANULE_BYTES * GRANULE_BYTES < end:
            group.append(item)
        else:
            places = {(other.address, other.size_bytes) for other in group}
            if len(places) == 1 and all(value % GRANULE_BYTES == 0 for place in places for value in place):
                found.update(other.id for other in group)
            group = [item] if item is not None else []
            end = 0
        if item is not None:
            end = max(end, -(-(item.address + item.size_bytes) // GRANULE_BYTES) * GRANULE_BYTES)
    return found
