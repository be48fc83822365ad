"""What a snapshot knows of its bytes: the words that mean something else in another process."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import field
from itertools import repeat
from operator import itemgetter, le
from typing import Any, NamedTuple

from replay.api.structs import TENSOR_MAP_BYTES
from replay.errors import EngineError
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.calls import BlockSource
from replay.snapshot.kept import Kept
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

    The columns are numbers, offsets and targets, in the order of the numbers of their calls: those that were added by
    call, and a piece for each block of calls, one after the other.
    """

    def __init__(self, sites: Mapping[int, Site] | None = None) -> None:
        self._packed, self._calls, self._counts = bytearray(), array("q"), array("q")
        self._sites = dict(sites or {})
        self._alone = Kept(array("q"), array("Q"), array("Q"))
        self._pieces: list[Kept] = []
        self._firsts, self._lasts = array("q"), array("q")  # numbers of each piece

    def add(self, number: int, words: bytes) -> None:
        """Words as the snapshot has them, for `settle`."""
        self._packed += words
        self._calls.append(number)
        self._counts.append(len(words) // 24)

    def settle(self, ranges: Mapping[int, Range]) -> None:
        """All words were added. Raises EngineError for one that points to none of the ranges."""
        packed, numbers = bytes(self._packed), array("q")
        for number, count in zip(self._calls, self._counts, strict=True):
            numbers.extend(repeat(number, count))
        self._packed, self._calls, self._counts = bytearray(), array("q"), array("q")
        look_up = _few if len(numbers) <= _FEW else _many
        self._alone = Kept(*look_up(packed, numbers, ranges.values()))
        if not all(map(le, self._lasts, self._firsts[1:])):
            columns = _joined([piece.get() for piece in self._pieces])
            self._pieces, self._firsts, self._lasts = [], array("q"), array("q")
            self._take(columns)

    def take(self, found: Iterable[tuple[Any, Any]], ranges: Mapping[int, Range]) -> None:
        """Of a block: numpy columns of words and of the numbers of their calls. Raises as `settle`."""
        words = [(numbers.astype("<i8"), words) for numbers, words in found if len(numbers)]
        if words:
            numbers, packed = (
                b"".join(one.tobytes() for one in column) for column in zip(*words, strict=True)
            )
            self._take(_many(packed, array("q", numbers), ranges.values()))

    def _take(self, columns: tuple[Any, Any, Any]) -> None:
        self._pieces.append(Kept(*columns))
        self._firsts.append(int(columns[0][0]))
        self._lasts.append(int(columns[0][-1]))

    def between(self, first: int, last: int) -> tuple[Any, Any, Any]:
        """Numbers, offsets and targets of the words that are columns, of calls from one number to another: each an
        array of Python's or of numpy's."""
        pieces = self._pieces[bisect_left(self._lasts, first) : bisect_right(self._firsts, last)]
        found = [_between(piece.get(), first, last) for piece in (self._alone, *pieces)]
        found = [columns for columns in found if len(columns[0])] or found[:1]
        return found[0] if len(found) == 1 else _joined(found)

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
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> set[int]:
        return {
            *self._sites,
            *(int(number) for piece in (self._alone, *self._pieces) for number in piece.get()[0]),
        }


def _between(columns: tuple[Any, ...], first: int, last: int) -> tuple[Any, Any, Any]:
    begin, end = bisect_left(columns[0], first), bisect_right(columns[0], last)
    numbers, offsets, targets = (column[begin:end] for column in columns)
    return numbers, offsets, targets


def _joined(found: Sequence[tuple[Any, ...]]) -> tuple[Any, Any, Any]:
    """Columns of several pieces, in the order of the numbers."""
    import numpy

    numbers, offsets, targets = (numpy.concatenate(columns) for columns in zip(*found, strict=True))
    order = numpy.argsort(numbers, kind="stable")
    return numbers[order], offsets[order], targets[order]


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
                self.calls.take(value.census_words(), ranges)
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
