"""What a snapshot asks to be executed: its calls, its memory with the time each range lives, and its pointers.

Pure: reads the snapshot and decides what can be replayed, before any driver is loaded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from replay.api.structs import TENSOR_MAP_BYTES
from replay.engine.checking.faults import captured_fault, ended_by, refused_launches
from replay.engine.contents.tensor_maps import MapPlace, unpack_maps
from replay.engine.contents.words import HandleWord, Word, unpack_handles, unpack_words
from replay.engine.placing.addresses import ChosenWord
from replay.engine.variants import Changes, apply
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.inspection.requirements import unfaithful
from replay.planning.families import find_families
from replay.planning.spans import is_array, is_global, stays_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import (
    Call,
    Census,
    Change,
    Contents,
    Environment,
    Image,
    Kernel,
    Note,
    Range,
    Summary,
    TensorMap,
    from_wire,
)


class Program:
    """The content of a snapshot, ready for a `Session`.

    best_effort: calls that cannot be replayed are left out, with a line each in `left_out`, instead of refused.
    expand_graphs: graphs are launched node by node. changes: what a variant does otherwise; its images by digest are
    in `variant_images`.
    late: ids of ranges that share their addresses or their memory with others and are born inside the window. shared:
    ids of all ranges in such places. births, deaths: ranges that are loaded before, or compared before, the call
    of that number. changes: what the host wrote before the call of that number, seen: what memory held behind it.
    changed: ids of the ranges concerned. fault: the error that the window ended in, if it did; refused: its launches,
    if the driver took none of them; ended_by: the signal by which the application ended itself, "" otherwise. stays:
    pinned memory at addresses where other memory is at other times. Raises
    EngineError when the window cannot be replayed.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        best_effort: bool,
        expand_graphs: bool = False,
        changes: Changes = Changes(),  # noqa: B008 (frozen)
    ) -> None:
        self.reader = reader
        self.best_effort = best_effort
        self.expand_graphs = expand_graphs
        self.left_out: list[str] = []
        self.images = {image.digest: image for image in self._objects(Image, "image")}
        self.ranges = {range_.id: range_ for range_ in self._objects(Range, "range")}
        for range_ in self.ranges.values():
            for contents in (range_.before, range_.after):
                if contents is not None and contents.size_bytes > range_.size_bytes:
                    raise EngineError(
                        f"{describe(range_)} has contents of {contents.size_bytes} bytes",
                        next="somebody changed the snapshot, or its writer was at fault: capture again",
                    )
        self.notes: list[Note] = list(self._objects(Note, "note"))
        self.kernels = [kernel.demangled or kernel.name for kernel in self._objects(Kernel, "kernel")]
        calls: list[Call] = apply(self._objects(Call, "call"), changes)
        self.variant_images = changes.images()
        self.varied = changes != Changes()
        self.launched_images = {kernel.image for kernel in self._objects(Kernel, "kernel")}
        self.setup = [call for call in calls if call.section == "setup"]
        self.window = [call for call in calls if call.section == "window"]
        self.call_words: dict[int, list[Word]] = {}
        self.range_words: dict[int, list[Word]] = {}
        self.host_words: dict[int, list[ChosenWord]] = {}  # of host memory that a call reads
        self.node_words: dict[tuple[int, int], list[ChosenWord]] = {}  # (call, number of a node of its graph)
        self.call_handles: dict[int, list[HandleWord]] = {}
        self.range_handles: dict[int, list[HandleWord]] = {}
        self.tensor_maps = {one.id: one for one in self._objects(TensorMap, "tensor_map")}
        self.call_maps: dict[int, list[MapPlace]] = {}
        self.range_maps: dict[int, list[MapPlace]] = {}
        for census in self._objects(Census, "census"):
            if census.kind in ("call_handles", "range_handles"):
                self._handles(census)
                continue
            if census.kind in ("call_maps", "range_maps"):
                self._maps(census)
                continue
            words = self.call_words if census.kind == "call" else self.range_words
            site = f"{census.kind} {census.site}"
            found = unpack_words(census.words, self.ranges, site)
            if census.kind == "range":
                holder = self.ranges.get(census.site)
                if holder is None or any(word.offset + 8 > holder.size_bytes for word in found):
                    raise EngineError(f"the pointer census of {site} lies outside the captured memory")
            words.setdefault(census.site, []).extend(found)
        self._refuse()
        summary = next(iter(self._objects(Summary, "summary")), None)
        self.fault = captured_fault(self.window, summary, self.notes)
        self.refused = refused_launches(self.window)
        self.ended_by = ended_by(next(iter(self._objects(Environment, "environment")), None))
        self.late: set[int] = set()
        self.shared: set[int] = set()
        self.births: dict[int, list[Range]] = {}
        self.deaths: dict[int, list[Range]] = {}
        self.stays = stays_of(self.ranges.values())
        self.families = find_families(
            range_
            for range_ in self.ranges.values()
            if not (is_global(range_) or is_array(range_) or range_.id in self.stays.of)
        )
        self.doubts: list[str] = []  # why outputs that differ may do so though every kernel did what it did
        if self.families.split:
            self.doubts.append(
                f"{len(self.families.split)} ranges are other addresses of one memory and are replayed as "
                "memories of their own: they overlap others in part"
            )
            self.left_out += self.doubts
        self._find_lifetimes()
        self.changes: dict[int, list[Change]] = {}
        self.seen: dict[int, list[Change]] = {}
        self.changed: set[int] = set()
        self._find_changes()

    def _objects(self, kind: type[Any], name: str) -> Iterable[Any]:
        return (from_wire(kind, value) for value in self.reader.objects(name))

    def _handles(self, census: Census) -> None:
        """Words that hold the handle of a texture or surface object."""
        found = unpack_handles(census.words, f"{census.kind} {census.site}")
        if census.kind == "call_handles":
            self.call_handles.setdefault(census.site, []).extend(found)
            return
        holder = self.ranges.get(census.site)
        if holder is None or any(word.offset + 8 > holder.size_bytes for word in found):
            raise EngineError(
                f"the census of handles in range {census.site} lies outside the captured memory"
            )
        self.range_handles.setdefault(census.site, []).extend(found)

    def _maps(self, census: Census) -> None:
        """Where tensor maps begin."""
        places = unpack_maps(census.words, self.tensor_maps, f"{census.kind} {census.site}")
        if census.kind == "call_maps":
            self.call_maps.setdefault(census.site, []).extend(places)
            return
        holder = self.ranges.get(census.site)
        if holder is None or any(place.offset + TENSOR_MAP_BYTES > holder.size_bytes for place in places):
            raise EngineError(
                f"the census of tensor maps in range {census.site} lies outside the captured memory"
            )
        self.range_maps.setdefault(census.site, []).extend(places)

    def _refuse(self) -> None:
        if not self.window:
            raise EngineError(
                "the window holds no calls", where=self.reader.path, next="`replay info` shows the notes"
            )
        called = ((call.number, call.function, call.in_capture) for call in self.window)
        failed = {call.number for call in self.window if call.result not in (0, None)}
        reasons = unfaithful(called, self.notes, failed)
        if reasons and not self.best_effort:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            raise EngineError(
                f"the window cannot be replayed faithfully: {reasons[0][1]}{more}",
                where=self.reader.path,
                next="`replay ls SNAPSHOT notes` lists them; --best-effort replays the rest",
            )
        self.left_out += [f"left out: {text}" for _, text in reasons]
        numbers = {number for number, _ in reasons}
        self.window = [call for call in self.window if call.number not in numbers]

    def _find_changes(self) -> None:
        for change in self._objects(Change, "change"):
            range_ = self.ranges.get(change.range)
            size = len(change.contents) if isinstance(change.contents, bytes) else 0
            if isinstance(change.contents, Contents):
                size = change.contents.size_bytes
            if range_ is None or not 0 <= change.offset <= range_.size_bytes - size or not size:
                raise EngineError(
                    f"what the host wrote before call {change.call} lies outside the captured memory"
                )
            self.changed.add(change.range)
            when = self.changes if change.moment == "before" else self.seen
            when.setdefault(change.call, []).append(change)

    def _take_turns(self, ranges: Iterable[Range]) -> None:
        """These share their addresses: each that the window makes is there from its birth on."""
        for range_ in ranges:
            self.shared.add(range_.id)
            if range_.born_call is not None:
                self.late.add(range_.id)

    def _find_reused_by_variables(self, ordered: list[Range]) -> None:
        """Variables of modules that were at addresses where other memory was at another time; `ordered` by address."""
        starts = [range_.address for range_ in ordered]
        furthest = list(accumulate((range_.address + range_.size_bytes for range_ in ordered), max))
        for variable in filter(is_global, self.ranges.values()):
            place = bisect_left(starts, variable.address + variable.size_bytes) - 1
            while place >= 0 and furthest[place] > variable.address:
                range_, place = ordered[place], place - 1
                if range_.address + range_.size_bytes > variable.address:
                    self._take_turns((range_, variable))

    def _find_lifetimes(self) -> None:
        """Ranges at overlapping addresses lived one after the other; all others may be there from the start."""
        ordered = sorted(
            (r for r in self.ranges.values() if not is_global(r) and not is_array(r)), key=lambda r: r.address
        )
        for group in _overlapping(ordered):
            self._take_turns(group)
        variables = sorted(filter(is_global, self.ranges.values()), key=lambda r: r.address)
        for group in _overlapping(variables):
            if any(item.born_call is not None or item.died_call is not None for item in group):
                self._take_turns(group)
        self._find_reused_by_variables(ordered)
        self._take_turns(self.ranges[range_id] for range_id in (*self.stays.of, *self.stays.beside))
        for range_id in self.families.of:
            if self.ranges[range_id].born_call is not None:
                self.late.add(range_id)
            self.shared.add(range_id)
        for range_ in self.ranges.values():
            if range_.id in self.late and range_.born_call is not None:
                self.births.setdefault(range_.born_call, []).append(range_)
            if range_.died_call is not None and (
                range_.id in self.shared or is_global(range_) or is_array(range_)
            ):
                self.deaths.setdefault(range_.died_call, []).append(range_)


def _overlapping(ordered: Iterable[Range]) -> Iterator[list[Range]]:
    """Two and more ranges at a time whose addresses overlap, of all that are `ordered` by address."""
    group: list[Range] = []
    end = 0
    for range_ in ordered:
        if group and range_.address >= end:
            if len(group) > 1:
                yield group
            group = []
        end = max(end, range_.address + range_.size_bytes) if group else range_.address + range_.size_bytes
        group.append(range_)
    if len(group) > 1:
        yield group
