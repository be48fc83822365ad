"""Which captured memory was there at a call of the window."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from replay.planning.families import born, died
from replay.planning.spans import is_array
from replay.snapshot.schema import WHOLE_ADDRESS, WHOLE_BYTES, Range


class Lifetimes:
    """By address and time, of all ranges that have addresses."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        found: list[tuple[int, int, int, int]] = []
        for item in ranges:
            if is_array(item):
                continue
            # Of a block of an allocation, all of that was there.
            start = item.properties.get(WHOLE_ADDRESS, item.address)
            size_bytes = item.properties.get(WHOLE_BYTES, item.size_bytes)
            for address in {start, item.host_address or start}:
                found.append((address, address + size_bytes, born(item), died(item)))
        self._all = sorted(found)
        self._starts = [start for start, *_ in self._all]
        self._furthest = list(accumulate((end for _, end, *_ in self._all), max))

    def is_there(self, address: int, call: int) -> bool:
        """Whether any captured memory held the address when the call of this number was made."""
        at = bisect_right(self._starts, address) - 1
        while at >= 0 and self._furthest[at] > address:
            _, end, first, last = self._all[at]
            if address < end and first <= call <= last:
                return True
            at -= 1
        return False
