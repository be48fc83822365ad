"""What a snapshot asks to be executed: its calls, its memory with the time each range lives, and its pointers.

Pure: reads the snapshot and decides what can be replayed, before any driver is loaded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate

from replay.api.functions import by_symbol
from replay.engine.attachments import Attachments
from replay.engine.census import Census
from replay.engine.faults import captured_fault, ended_by, refused_launches
from replay.engine.variants import Changes, apply
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.inspection.requirements import unfaithful
from replay.planning.families import find_families
from replay.planning.spans import is_array, is_global, stays_of
from replay.snapshot.calls import Calls, Repeats, read_calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import (
    Call,
    Change,
    Contents,
    Environment,
    Image,
    Kernel,
    Note,
    Range,
    Summary,
    TensorMap,
    all_of,
    first_of,
)

_FEW = 300  # calls of a window that are prepared one by one sooner than numpy is loaded


def require_arguments(call: Call) -> None:
    """Raises EngineError for a call that has more or fewer arguments than its function has parameters."""
    function = by_symbol().get(call.function)
    if function is not None and len(call.arguments) != len(function.parameters):
        raise EngineError(
            f"has {len(call.arguments)} arguments, {call.function} takes {len(function.parameters)}",
            where=f"call {call.number}",
        )


class Program:
    """The content of a snapshot, ready for a `Session`.

    best_effort: calls that cannot be replayed are left out, with a line each in `left_out`, instead of refused.
    expand_graphs: graphs are launched node by node. changes: what a variant does otherwise; its images by digest are
    in `variant_images`. untrusted: they may be made to deceive.
    late: ids of ranges that share their addresses or their memory with others and are born inside the window. shared:
    ids of all ranges in such places. births, deaths: ranges that are loaded before, or compared before, the call
    of that number. changes: what the host wrote before the call of that number, seen: what memory held after it.
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
        self.images = {image.digest: image for image in all_of(reader, Image)}
        self.ranges = {range_.id: range_ for range_ in all_of(reader, Range)}
        for range_ in self.ranges.values():
            for contents in (range_.before, range_.after):
                if contents is not None and contents.size_bytes > range_.size_bytes:
                    raise EngineError(
                        f"{describe(range_)} has contents of {contents.size_bytes} bytes",
                        next="somebody changed the snapshot, or its writer was at fault: capture again",
                    )
        self.notes: list[Note] = list(all_of(reader, Note))
        self.kernels = [kernel.demangled or kernel.name for kernel in all_of(reader, Kernel)]
        self.varied = changes != Changes()
        self.untrusted = False
        parts: Iterable[Call | Repeats] = self._parts()
        if self.varied or best_effort:  # which may change or leave out any single call
            parts = apply(Calls(parts), changes)
        self.variant_images = changes.images()
        self.attachments = Attachments(reader, self.images, self.variant_images)
        self.launched_images = {kernel.image for kernel in all_of(reader, Kernel)}
        sections: dict[str, list[Call | Repeats]] = {"setup": [], "window": []}
        for part in parts:
            sections[(part if isinstance(part, Call) else part.templates[0]).section].append(part)
        self.setup = list(Calls(sections["setup"]))
        window = Calls(sections["window"])
        self.window = window if len(window) > _FEW else Calls(list(window))
        self.tensor_maps = {one.id: one for one in all_of(reader, TensorMap)}
        self.census = Census()
        self.census.read(reader, self.ranges, self.tensor_maps)
        self._refuse()
        summary = first_of(reader, Summary)
        self.fault = captured_fault(self.window.kinds(), summary, self.notes)
        self.refused = refused_launches(self.window.kinds())
        self.ended_by = ended_by(first_of(reader, Environment))
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
        self.window = self.window.apart({*self.births, *self.deaths, *self.changes, *self.seen})

    def kinds(self) -> Iterator[Call]:
        """The calls of setup and window; of those that repeat, one of each kind (`Calls.kinds`)."""
        yield from self.setup
        yield from self.window.kinds()

    def _parts(self) -> Iterator[Call | Repeats]:
        parts = read_calls(self.reader)
        for part in Calls(parts) if self.best_effort else parts:
            try:
                for call in [part] if isinstance(part, Call) else part.templates:
                    require_arguments(call)
            except EngineError as error:
                if not self.best_effort:
                    raise
                self.left_out.append(f"left out: {error}")
            else:
                yield part

    def _refuse(self) -> None:
        if not self.window:
            raise EngineError(
                "the window holds no calls", where=self.reader.path, next="`replay info` shows the notes"
            )
        called = ((call.number, call.function, call.in_capture) for call in self.window.kinds())
        failed = {call.number for call in self.window.kinds() if call.result not in (0, None)}
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
        if numbers:
            self.window = Calls(call for call in self.window if call.number not in numbers)

    def _find_changes(self) -> None:
        for change in all_of(self.reader, Change):
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

    @cached_property
    def dead(self) -> set[int]:
        """Ids of the ranges that end inside the window and are compared there."""
        return {range_.id for ranges in self.deaths.values() for range_ in ranges}

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
