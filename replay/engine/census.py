"""What a snapshot knows of its bytes: the words that mean something else in another process."""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from replay.api.structs import TENSOR_MAP_BYTES
from replay.errors import EngineError
from replay.snapshot import schema
from replay.snapshot.schema import Range

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


@dataclass
class Census:
    """The sites of a snapshot: ranges by their id; parameter buffers, and host memory that is read, by the number of
    the call; nodes by that of the call that describes their graph and their own, from 1."""

    ranges: dict[int, Site] = field(default_factory=dict)
    calls: dict[int, Site] = field(default_factory=dict)
    hosts: dict[int, Site] = field(default_factory=dict)
    nodes: dict[tuple[int, int], Site] = field(default_factory=dict)

    def add(self, census: schema.Census, ranges: Mapping[int, Range], maps: Container[int]) -> None:
        """Take over one object of a snapshot. Raises EngineError for words that mean nothing there."""
        of, _, what = census.kind.partition("_")
        name = f"the census of {census.kind} {census.site}"
        if len(census.words) % 24:
            raise EngineError(f"{name} has a broken length")
        site = (self.ranges if of == "range" else self.calls).setdefault(census.site, Site())
        end = 0
        for offset, inner, target, sort in struct.iter_unpack("<QQII", census.words):
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
