"""What a snapshot says of its addresses: its ranges, the census, and the buffers in which there may be more. Pure."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replay.api.functions import by_symbol
from replay.api.graphs import DESCRIBED, Part, parse_description
from replay.api.parts import find_part, parameter_buffer
from replay.api.vocabulary import Role
from replay.engine.census import Census
from replay.inspection.pieces import describe, read_contents
from replay.planning.spans import HIGHEST_ADDRESS, is_array
from replay.snapshot import schema
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Contents, Range, all_of

MAXIMUM_HOST_BYTES = 64 << 20  # that one call reads, searched


@dataclass(frozen=True)
class Site:
    """The parameter buffer of a call, the contents of a range when the window opened, host memory that a call reads, or
    the parameters of a node of the graph that a call describes.

    number: of the call or the range. node: of the graph, from 1.
    """

    place: Literal["parameters", "memory", "host", "graph"]
    number: int
    title: str
    node: int = 0


@dataclass
class Known:
    """What a snapshot says of its addresses."""

    ranges: dict[int, Range]
    # (offset, captured address); of host memory and nodes of graphs, which have no census, what looks like addresses
    census: dict[Site, list[tuple[int, int]]]
    calls: list[Call]
    complete: bool = True  # whether everything was searched
    _ordered: list[Range] = field(default_factory=list)
    _reach: list[int] = field(default_factory=list)  # the highest end of all ranges up to this one

    @classmethod
    def of(cls, reader: SnapshotReader) -> Known:
        """Read it from the window that the reader has chosen. Raises ReplayError."""
        ranges = {one.id: one for one in all_of(reader, Range)}
        calls = {
            call.number: call
            for call in all_of(reader, Call)
            if call.section == "window" or call.function in DESCRIBED
        }
        census: dict[Site, list[tuple[int, int]]] = {}
        for one in all_of(reader, schema.Census):
            if one.kind == "range" and one.site in ranges:
                site = _memory_site(ranges[one.site])
            elif one.kind == "call" and one.site in calls:
                site = _parameter_site(calls[one.site])
            else:
                continue
            found = Census()
            found.add(one, ranges, ())
            words = (found.ranges or found.calls)[one.site].words
            census.setdefault(site, []).extend((word.offset, word.target) for word in words)
        placed = (one for one in ranges.values() if not is_array(one) and one.address <= HIGHEST_ADDRESS)
        ordered = sorted(placed, key=lambda one: one.address)
        known = cls(ranges, census, list(calls.values()), True, ordered)
        starts, ends = known.edges()
        for site, data in known.buffers(reader):
            if site.place in ("host", "graph") and len(starts):
                values = np.frombuffer(data, "<u8", len(data) // 8)
                places = inside(values, starts, ends).tolist()
                census[site] = [(8 * place, int(values[place])) for place in places]
        return known

    def listed(self, site: Site) -> NDArray[np.int64]:
        """Where the census has words in a site, in order: offsets in bytes."""
        return np.array(sorted(offset for offset, _ in self.census.get(site, ())), "<i8")

    def range_at(self, address: int, slack_bytes: int = 0) -> Range | None:
        """The range that holds a captured address, its end included; else the one that ends less than slack_bytes
        before."""
        if len(self._reach) != len(self._ordered):
            ends = (one.address + one.size_bytes for one in self._ordered)
            self._reach = list(itertools.accumulate(ends, max))
        at = bisect.bisect_right(self._ordered, address, key=lambda one: one.address) - 1
        while at >= 0 and address <= self._reach[at] + slack_bytes:
            one = self._ordered[at]
            if address <= one.address + one.size_bytes + slack_bytes:
                return one
            at -= 1
        return None

    def edges(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Where ranges begin and end, by address, those that overlap joined."""
        starts: list[int] = []
        ends: list[int] = []
        for one in self._ordered:
            if starts and one.address <= ends[-1]:
                ends[-1] = max(ends[-1], one.address + one.size_bytes)
            else:
                starts.append(one.address)
                ends.append(one.address + one.size_bytes)
        return np.array(starts, "<u8"), np.array(ends, "<u8")

    def buffers(self, reader: SnapshotReader) -> Iterator[tuple[Site, bytes]]:
        """The parameter buffers of the window's launches, the host memory that its calls read, and the parameters of
        the nodes of its graphs."""
        for call in self.calls:
            yield from self._graph_buffers(reader, call)
            if call.section != "window":
                continue
            function = by_symbol().get(call.function)
            read = [one.name for one in function.parameters if one.role == Role.HOST_READ] if function else []
            buffer = parameter_buffer(call.inputs)
            if isinstance(buffer, bytes):
                yield _parameter_site(call), buffer
            for name in read:
                data = find_part(call.inputs, name)
                if data is not None and not isinstance(data, str):
                    site = Site(
                        "host", call.number, f"host memory that call {call.number} {call.function} reads"
                    )
                    large = isinstance(data, Contents) and data.size_bytes > MAXIMUM_HOST_BYTES
                    self.complete = self.complete and not large
                    if not large:
                        yield site, data if isinstance(data, bytes) else read_contents(reader, data)

    @staticmethod
    def _graph_buffers(reader: SnapshotReader, call: Call) -> Iterator[tuple[Site, bytes]]:
        found = call.inputs.get(DESCRIBED.get(call.function, ""))
        if found is None or isinstance(found, str):
            return
        if isinstance(found, Contents) and found.size_bytes > MAXIMUM_HOST_BYTES:
            return
        try:
            graph = parse_description(
                found if isinstance(found, bytes) else read_contents(reader, found)
            ).graph
        except ValueError:
            return
        for number, node in enumerate(graph.all_nodes(), 1):
            if data := node.parts.get(Part.BUFFER):
                title = f"parameters of node {number} of the graph of call {call.number} {call.function}"
                yield Site("graph", call.number, title, number), data

    def memory(self) -> Iterator[tuple[Site, Contents]]:
        """What ranges held when the window opened."""
        for one in self.ranges.values():
            if one.before is not None and not is_array(one):
                yield _memory_site(one), one.before


def _memory_site(one: Range) -> Site:
    return Site("memory", one.id, describe(one))


def _parameter_site(call: Call) -> Site:
    return Site("parameters", call.number, f"parameters of call {call.number} {call.function}")


def inside(
    words: NDArray[np.uint64], starts: NDArray[np.uint64], ends: NDArray[np.uint64]
) -> NDArray[np.intp]:
    """Places of words that lie in a range, or are the end of one."""
    candidates = np.flatnonzero((words >= starts[0]) & (words <= ends.max()))
    values = words[candidates]
    place = np.searchsorted(starts, values, side="right") - 1
    return candidates[values <= ends[place]]
