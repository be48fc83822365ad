"""What a snapshot knows of its bytes: the words that mean something else in another process."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import field
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from replay.api.structs import TENSOR_MAP_BYTES
from replay.errors import EngineError
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.calls import BlockSource
from replay.snapshot.schema import Range, from_wire

_WORD = struct.Struct("<QQII")  # offset, offset in its range, range, what it is: schema.Census
_FEW = 2000
_OBJECT_TYPES = {1: "CUtexObject", 2: "CUsurfObject"}  # schema.Census


@dataclass(frozen=True)
class Word:
    """A captured address: where it is, and what it points to. high_offset: where its high half is, if `offset`
    is the place of the low half alone."""

    offset: int
    target: int  # captured address
    high_offset: int | None = None


@dataclass(frozen=True)
class HandleWord:
    """The captured handle of a texture or surface object, and where it is."""

    offset: int
    c_type: str
    captured: int


@dataclass(frozen=True)
class MapPlace:
    """Where a tensor map begins in its site."""

    offset: int
    id: int


class ChosenWord(NamedTuple):
    """A word of bytes that have no census: it is patched to follow `target`, a captured address, or for None left
    alone, whatever it looks like. high_offset: of its upper half, where that is elsewhere."""

    offset: int
    target: int | None
    high_offset: int | None = None


@dataclass
class Site:
    """What some captured bytes hold: a range, the parameters or the host memory of a call, those of a node."""

    words: list[Word] = field(default_factory=list)
    handles: list[HandleWord] = field(default_factory=list)
    maps: list[MapPlace] = field(default_factory=list)
    chosen: list[ChosenWord] = field(default_factory=list)


NOTHING = Site()


class CallSites(MutableMapping[int, Site]):
    """The sites of the parameters of calls by number: plain words as columns, since each launch of a million has some,
    and as a `Site` what is more than that, or was set or changed.

    numbers, offsets, targets: of the words that are columns, in the order of the numbers of their calls.
    """

    def __init__(self, sites: Mapping[int, Site] | None = None) -> None:
        self._packed, self._calls, self._counts = bytearray(), array("q"), array("q")
        self._sites = dict(sites or {})
        self.settle({})

    def add(self, number: int, words: bytes) -> None:
        """Words as the snapshot has them, for `settle`."""
        self._packed += words
        self._calls.append(number)
        self._counts.append(len(words) // 24)

    def extend(self, numbers: Any, words: Any) -> None:
        """The same of numpy columns: one word of each of these calls."""
        self._packed += words.tobytes()
        self._calls.frombytes(numbers.astype("<i8").tobytes())
        self._counts.extend([1] * len(numbers))

    def settle(self, ranges: Mapping[int, Range]) -> None:
        """All words were added. Raises EngineError for one that points to none of the ranges."""
        packed, numbers = bytes(self._packed), array("q")
        for number, count in zip(self._calls, self._counts, strict=True):
            numbers.extend(repeat(number, count))
        self._packed, self._calls, self._counts = bytearray(), array("q"), array("q")
        look_up = _few if len(numbers) <= _FEW else _many
        self.numbers, self.offsets, self.targets = look_up(packed, numbers, ranges.values())

    def between(self, first: int, last: int) -> tuple[Any, Any, Any]:
        """Numbers, offsets and targets of the words that are columns, of calls from one number to another: each an
        array of Python's or of numpy's."""
        begin, end = bisect_left(self.numbers, first), bisect_right(self.numbers, last)
        return self.numbers[begin:end], self.offsets[begin:end], self.targets[begin:end]

    def more(self) -> Iterable[int]:
        """The calls whose sites are more than words that are columns."""
        return self._sites.keys()

    def __getitem__(self, number: int) -> Site:
        if number in self._sites:
            return self._sites[number]
        _, offsets, targets = self.between(number, number)
        if not len(offsets):
            raise KeyError(number)
        return Site([Word(int(offset), int(target)) for offset, target in zip(offsets, targets, strict=True)])

    def setdefault(self, number: int, default: Site | None = None) -> Site:
        """The site of a call, to be changed."""
        return self._sites.setdefault(number, self.get(number) or default or Site())

    def __setitem__(self, number: int, site: Site) -> None:
        self._sites[number] = site

    def __delitem__(self, number: int) -> None:
        self._sites[number] = Site()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*map(int, self.numbers), *self._sites}))

    def __len__(self) -> int:
        return len({*map(int, self.numbers), *self._sites})


def _few(packed: bytes, numbers: array[int], ranges: Iterable[Range]) -> tuple[Any, Any, Any]:
    """As `_many`, without numpy, which takes longer to load than these to look up."""
    places = {one.id: one for one in ranges}
    words = []
    for number, (offset, inner, range_id, _) in zip(numbers, _WORD.iter_unpack(packed), strict=True):
        place = places.get(range_id)
        if place is None or inner > place.size_bytes:
            raise _outside(number)
        words.append((number, offset, (place.address + inner) % (1 << 64)))
    words.sort(key=itemgetter(0))
    columns = tuple(zip(*words, strict=True)) or ((), (), ())
    return array("q", columns[0]), array("Q", columns[1]), array("Q", columns[2])


def _many(packed: bytes, numbers: array[int], ranges: Iterable[Range]) -> tuple[Any, Any, Any]:
    """Numbers, offsets and targets of words, in the order of their calls."""
    import numpy

    kind = numpy.dtype([("offset", "<u8"), ("inner", "<u8"), ("range", "<u4"), ("sort", "<u4")])
    words, calls = numpy.frombuffer(packed, kind), numpy.frombuffer(numbers, "<i8")
    found = sorted((one.id, one.address, one.size_bytes) for one in ranges)
    # One more, which no word can name, so that there is always one
    ids, addresses, sizes = numpy.array([*found, (1 << 32, 0, 0)], "<u8").T
    places = numpy.searchsorted(ids, words["range"])
    wrong = (ids[places] != words["range"]) | (words["inner"] > sizes[places])
    if wrong.any():
        raise _outside(int(calls[numpy.flatnonzero(wrong)[0]]))
    order = numpy.argsort(calls, kind="stable")
    return calls[order], words["offset"][order], (addresses[places] + words["inner"])[order]


def _outside(number: int) -> EngineError:
    return EngineError(f"the census of call {number} points outside the captured memory")


@dataclass
class Census:
    """The sites of a snapshot: ranges by their id; parameter buffers, and host memory that is read, by the number of
    the call; nodes by that of the call that describes their graph and their own, from 1."""

    ranges: dict[int, Site] = field(default_factory=dict)
    calls: CallSites = field(default_factory=CallSites)
    hosts: dict[int, Site] = field(default_factory=dict)
    nodes: dict[tuple[int, int], Site] = field(default_factory=dict)

    def read(self, source: BlockSource, ranges: Mapping[int, Range], maps: Container[int]) -> None:
        """Take over all of a snapshot. Raises EngineError for words that mean nothing there."""
        others = []
        for value in source.objects_and_blocks("census"):
            if not isinstance(value, dict):
                for numbers, words in value.census_words():
                    self.calls.extend(numbers, words)
                continue
            found = value if isinstance(value, dict) and value.get("kind") == "call" else {}
            number, words = found.get("site"), found.get("words")
            sound = isinstance(number, int) and 0 <= number < 1 << 63
            if sound and isinstance(words, bytes) and len(words) % 24 == 0:
                self.calls.add(number, words)  # type: ignore[arg-type]
            else:
                others.append(value)
        self.calls.settle(ranges)
        for value in others:
            self.add(from_wire(schema.Census, value), ranges, maps)

    def add(self, census: schema.Census, ranges: Mapping[int, Range], maps: Container[int]) -> None:
        """Take over one object of a snapshot. Raises EngineError for words that mean nothing there."""
        of, _, what = census.kind.partition("_")
        name = f"the census of {census.kind} {census.site}"
        if len(census.words) % 24:
            raise EngineError(f"{name} has a broken length")
        site = (self.ranges if of == "range" else self.calls).setdefault(census.site, Site())
        end = 0
        for offset, inner, target, sort in _WORD.iter_unpack(census.words):
            end = max(end, offset + (TENSOR_MAP_BYTES if what == "maps" else 8))
            if what == "maps":
                if target not in maps:
                    raise EngineError(f"{name} names a tensor map that is not in the snapshot")
                site.maps.append(MapPlace(offset, target))
            elif what == "handles":
                if sort not in _OBJECT_TYPES:
                    raise EngineError(f"{name} has handles of an unknown sort")
                site.handles.append(HandleWord(offset, _OBJECT_TYPES[sort], inner))
            else:
                range_ = ranges.get(target)
                if range_ is None or inner > range_.size_bytes:
                    raise EngineError(f"{name} points outside the captured memory")
                site.words.append(Word(offset, range_.address + inner))
        holder = ranges.get(census.site)
        if of == "range" and (holder is None or end > holder.size_bytes):
            raise EngineError(f"{name} lies outside the captured memory")
