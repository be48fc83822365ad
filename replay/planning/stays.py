"""Pinned memory at addresses where memory of the device is at other times of the window: who is there when.

Memory of the device takes up whole granules of addresses, pinned memory pages. What the system gave to the host after
the device's memory was gone, or the other way round, may lie in the same granule. Pure; `turns.py` acts on it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import accumulate

from replay.planning.families import GRANULE_BYTES, born, died
from replay.records import dataclass
from replay.snapshot.schema import Range

_ROUNDS = 8  # of cutting by time and by address in turn; what is still together then stays together


@dataclass(frozen=True)
class Stay:
    """Pinned memory for a time: whole pages that come and go at once.

    born, died: numbers of calls. apart: memory of the device is in the same granule at the same time, so it cannot be
    at its captured address.
    """

    address: int
    end: int
    range_ids: tuple[int, ...]
    born: int
    died: int
    apart: bool = False


@dataclass
class Stays:
    """All of a snapshot, by number from 1. of: range id -> number. beside: ids of ranges of the device in the same
    granules."""

    by_number: dict[int, Stay] = field(default_factory=dict)
    of: dict[int, int] = field(default_factory=dict)
    beside: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Pinned:
    range_: Range
    address: int  # whole pages
    end: int


def find_stays(pinned: Iterable[tuple[int, Range]], others: Iterable[Range], page_bytes: int) -> Stays:
    """pinned: host memory with its address; others: memory of the device."""
    blocks = sorted(
        ((_down(r.address), _up(r.address + max(r.size_bytes, 1)), r.id, r) for r in others),
        key=lambda block: block[:3],
    )
    found = Stays()
    if not blocks:
        return found
    pages = [
        _Pinned(
            item,
            address // page_bytes * page_bytes,
            -(-(address + max(item.size_bytes, 1)) // page_bytes) * page_bytes,
        )
        for address, item in pinned
    ]
    starts = [block[0] for block in blocks]
    furthest = list(accumulate((block[1] for block in blocks), max))

    def in_the_way(address: int, end: int) -> Iterable[Range]:
        at = bisect_left(starts, end) - 1
        while at >= 0 and furthest[at] > address:
            if blocks[at][1] > address:
                yield blocks[at][3]
            at -= 1

    for group in _by_address(pages):
        if not any(any(True for _ in in_the_way(item.address, item.end)) for item in group):
            continue
        for together in _cut(group):
            address, end = min(item.address for item in together), max(item.end for item in together)
            first = min(born(item.range_) for item in together)
            last = max(died(item.range_) for item in together)
            sharing = list(in_the_way(address, end))
            apart = any(born(item) < last and first < died(item) for item in sharing)
            number = len(found.by_number) + 1
            ids = tuple(sorted(item.range_.id for item in together))
            found.by_number[number] = Stay(address, end, ids, first, last, apart)
            found.of.update(dict.fromkeys(ids, number))
            found.beside.update(item.id for item in sharing)
    return found


def _down(address: int) -> int:
    return address // GRANULE_BYTES * GRANULE_BYTES


def _up(address: int) -> int:
    return -(-address // GRANULE_BYTES) * GRANULE_BYTES


def _cut(group: Sequence[_Pinned]) -> list[list[_Pinned]]:
    """Those that share no page, or no time, come and go each for itself."""
    groups = [list(group)]
    for _ in range(_ROUNDS):
        cut = [part for one in groups for when in _by_time(one) for part in _by_address(when)]
        if len(cut) == len(groups):
            break
        groups = cut
    return groups


def _by_address(items: Iterable[_Pinned]) -> list[list[_Pinned]]:
    groups: list[list[_Pinned]] = []
    end = 0
    for item in sorted(items, key=lambda one: (one.address, one.range_.id)):
        if groups and item.address < end:
            groups[-1].append(item)
        else:
            groups.append([item])
            end = 0
        end = max(end, item.end)
    return groups


def _by_time(items: Iterable[_Pinned]) -> list[list[_Pinned]]:
    groups: list[list[_Pinned]] = []
    last = 0
    for item in sorted(items, key=lambda one: (born(one.range_), one.range_.id)):
        if groups and born(item.range_) < last:
            groups[-1].append(item)
            last = max(last, died(item.range_))
        else:
            groups.append([item])
            last = died(item.range_)
    return groups
