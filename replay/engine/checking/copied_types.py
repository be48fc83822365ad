"""Element types follow copies of the window: what is copied out of a buffer of floats is floats, wherever it goes."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from replay.api.functions import by_symbol
from replay.api.vocabulary import Work
from replay.outputs.elements import Region
from replay.planning.spans import is_array, is_host
from replay.records import dataclass
from replay.snapshot.schema import Call, Range

MAXIMUM_COPIES = 100_000  # that are looked at
_TARGETS = ("dstHost", "dstDevice", "dst")
_SOURCES = ("srcDevice", "srcHost", "src")
_SIZES = ("ByteCount", "size")


@dataclass(frozen=True)
class Copy:
    """A copy of consecutive bytes, captured addresses."""

    call: int
    target: int
    source: int
    size_bytes: int


def copies(calls: Iterable[Call]) -> Iterator[Copy]:
    """Plain copies among calls, in order."""
    for call in islice((item for item in calls if _work(item) == Work.COPY), MAXIMUM_COPIES):
        if (copy := copy_of(call)) is not None:
            yield copy


def _work(call: Call) -> Work:
    function = by_symbol().get(call.function)
    return function.work if function is not None else Work.NONE


def copy_of(call: Call) -> Copy | None:
    """What a call copies, if its parameters say it all."""
    function = by_symbol().get(call.function)
    if function is None:
        return None
    words = dict(zip((parameter.name for parameter in function.parameters), call.arguments, strict=False))
    target, source, size = (
        next((words[name] for name in names if name in words), None) for names in (_TARGETS, _SOURCES, _SIZES)
    )
    if target is None or source is None or size is None:
        return None
    return Copy(call.number, target, source, size)


class Places:
    """Finds the range that an address lies in: by the device's address, or the host's."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        found = [(item.address, item) for item in ranges if not is_array(item)]
        found += [(item.host_address, item) for _, item in found if is_host(item) and item.host_address]
        self._found = sorted(found, key=lambda pair: pair[0])
        self._starts = [address for address, _ in self._found]

    def find(self, address: int) -> tuple[Range, int] | None:
        """The range, and the offset in it."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start, range_ = self._found[place]
        return (range_, address - start) if address < start + range_.size_bytes else None


def part(regions: Sequence[Region], offset: int, size_bytes: int, at: int, how: str = "") -> list[Region]:
    """The regions of `size_bytes` bytes from `offset` on, for the same bytes at `at`. how: added to the origin."""
    found = []
    for region in regions:
        first, last = max(region.start, offset), min(region.end, offset + size_bytes)
        size = region.type.size_bytes
        first += -(first - region.start) % size
        last -= (last - first) % size if last > first else 0
        start = at + first - offset
        if last > first and start % size == 0:
            origin = ", ".join(filter(None, (region.origin, how)))
            found.append(Region(start, start + last - first, region.type, region.source, origin))
    return found


def spread(
    known: Mapping[int, list[Region]], ranges: Iterable[Range], calls: Iterable[Call]
) -> dict[int, list[Region]]:
    """`known` (regions by range id), and what copies brought to where no type was known. The last copy counts."""
    places = Places(ranges)
    found = dict(known)
    for copy in copies(calls):
        source, target = places.find(copy.source), places.find(copy.target)
        if source is None or target is None or source[0].id not in found or target[0].id in known:
            continue
        brought = part(found[source[0].id], source[1], copy.size_bytes, target[1], "copied")
        end = target[1] + copy.size_bytes
        kept = [item for item in found.get(target[0].id, []) if item.end <= target[1] or item.start >= end]
        found[target[0].id] = sorted([*kept, *brought], key=lambda item: item.start)
    return found
