"""The calls of one window as columns, and what launches do with memory. One pass; a launch that repeats gets no object.

Bounded: reading ends after MAXIMUM_READ calls, whatever the file claims.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay.api import structs
from replay.api.functions import by_symbol
from replay.api.parts import PARAMETERS, find_struct, parameter_buffer
from replay.api.vocabulary import Effect, Function, Term, Work
from replay.images.demangle import demangle
from replay.images.ptx_accesses import UNKNOWN, Accesses
from replay.inspection.launches import UNKNOWN as NO_KERNEL
from replay.inspection.launches import KernelNames, LaunchedKernel, named_arguments
from replay.inspection.readable import describe
from replay.overview.model import CallKind, Timeline, Use
from replay.snapshot.calls import Calls, Repeats, read_calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Range
from replay.text import dimensions, shown, size

MAXIMUM_READ = 4_000_000  # calls, setup included
MAXIMUM_SHOWN = 250_000  # calls of the window that a page holds
MAXIMUM_KINDS = 20_000
MAXIMUM_ARROWS = 100_000
MAXIMUM_PARAMETER_BYTES = 32_768
LONGEST_TEXT = 200
_SORTS = {Work.COPY: "copy", Work.PREFETCH: "copy", Work.FILL: "fill", Work.DISCARD: "fill"}
_LAUNCHES = (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
_Key = tuple[int, str, str]  # id of a range, name, how


@dataclass
class WindowCalls:
    """setup, window: the calls. cut: whether there were more."""

    setup: Calls
    window: Calls
    cut: bool

    def kinds(self) -> Iterator[Call]:
        """One of each kind, as `Calls.kinds`."""
        yield from self.setup.kinds()
        yield from self.window.kinds()


def read_window(reader: SnapshotReader) -> WindowCalls:
    """The calls of the window that the reader is at, as far as they are looked at."""
    sections: dict[str, list[Call | Repeats]] = {"setup": [], "window": []}
    room = MAXIMUM_READ
    for part in read_calls(reader):
        room -= 1 if isinstance(part, Call) else len(part)
        if room < 0:
            break
        sections[(part if isinstance(part, Call) else part.templates[0]).section].append(part)
    return WindowCalls(Calls(sections["setup"]), Calls(sections["window"]), room < 0)


class Follower:
    """Goes through the calls: what each is, and which memory launches are given.

    ranges: to which addresses belong. accesses: what a kernel (name, image) does with the pointers that it is given.
    """

    def __init__(self, ranges: Iterable[Range], accesses: Callable[[str, str], Accesses]) -> None:
        ordered = sorted((item for item in ranges if item.array is None), key=lambda item: item.address)
        self._ids = [item.id for item in ordered]
        self._begins = np.array([item.address for item in ordered], "<u8")
        self._ends = np.array([item.address + item.size_bytes for item in ordered], "<u8")
        self._accesses = accesses
        self._names = KernelNames()
        self._kind_of: dict[Any, int] = {}
        self._events: dict[int, int] = {}  # handle -> place of the call that recorded it last
        self._uses: Counter[_Key] = Counter()
        self.timeline = Timeline()
        self.gpu_ns: Counter[tuple[str, str]] = Counter()  # of launches of a kernel of an image
        self.timed: Counter[tuple[str, str]] = Counter()  # how many these are

    def setup(self, calls: Calls) -> None:
        """Learn which kernel each handle is."""
        for call in calls.kinds():
            self._follow(call)

    def window(self, calls: Calls) -> None:
        """All parts of the window."""
        self.timeline.total = len(calls)
        for part in calls.parts:
            if isinstance(part, Call):
                self._single(part)
            else:
                self._repeats(part)

    def uses(self) -> dict[int, list[Use]]:
        """By id of a range, the most frequent first."""
        found: dict[int, list[Use]] = defaultdict(list)
        for (number, name, how), times in self._uses.most_common():
            found[number].append(Use(name, how, times))
        return found

    # -- single calls -------------------------------------------------------------------------------------------

    def _follow(self, call: Call) -> tuple[Function | None, dict[str, int]]:
        function = by_symbol().get(call.function)
        if function is None:
            return None, {}
        arguments = named_arguments(call, (parameter.name for parameter in function.parameters))
        self._names.follow(call, arguments)
        return function, arguments

    def _single(self, call: Call) -> None:
        function, arguments = self._follow(call)
        kernel = self._kernel(function, arguments)
        place = self._place()
        if place is not None:
            timeline = self.timeline
            timeline.which.append(self._kind(call, function, arguments, kernel))
            timeline.numbers.append(call.number)
            timeline.begin_ns.append(_word(call.enter_ns))
            timeline.end_ns.append(_word(max(call.enter_ns, call.leave_ns)))
            timeline.gpu_ns.append(-1 if call.gpu_ns is None else _word(call.gpu_ns))
        if function is None or call.result != 0 or call.in_capture:
            return
        if call.gpu_ns is not None and function.effect == Effect.LAUNCH:
            self.gpu_ns[kernel.name, kernel.image] += call.gpu_ns
            self.timed[kernel.name, kernel.image] += 1
        if place is not None:
            self._order(function, arguments, place)
        if function.effect == Effect.LAUNCH:
            buffer = parameter_buffer(call.inputs)
            if isinstance(buffer, bytes):
                self._reached(kernel, np.frombuffer(buffer[:MAXIMUM_PARAMETER_BYTES], "u1")[None, :])
        else:
            self._moved(call, function)

    def _place(self) -> int | None:
        """Where the next call is in the columns; None when they are full."""
        place = len(self.timeline.which)
        return place if place < MAXIMUM_SHOWN else None

    def _kernel(self, function: Function | None, arguments: Mapping[str, int]) -> LaunchedKernel:
        if function is None or function.effect != Effect.LAUNCH:
            return NO_KERNEL
        return self._names.kernel(arguments.get("f", 0))

    def _kind(
        self, call: Call, function: Function | None, arguments: Mapping[str, int], kernel: LaunchedKernel
    ) -> int:
        stream = _stream(call, function, arguments)
        if stream == 0 and call.per_thread:
            stream = 2  # CU_STREAM_PER_THREAD
        name, text = shown(demangle(kernel.name), LONGEST_TEXT) if kernel.name else "", ""
        if function is not None and function.effect == Effect.LAUNCH:
            text = _geometry(call, arguments)
        elif call.kernels:
            names = [shown(demangle(item), LONGEST_TEXT) for item in list(call.kernels)[:4]]
            name, text = ", ".join(names), describe(call)[:LONGEST_TEXT]
        else:
            text = describe(call)[:LONGEST_TEXT]
        key = (call.function, call.thread, stream, name, text)
        if key not in self._kind_of:
            if len(self._kind_of) >= MAXIMUM_KINDS:
                key = (call.function, call.thread, stream, "", "")
            if key not in self._kind_of:
                self._kind_of[key] = len(self.timeline.kinds)
                sort = _sort(function)
                self.timeline.kinds.append(
                    CallKind(shown(call.function, 100), sort, call.thread, stream, *key[3:])
                )
        return self._kind_of[key]

    def _order(self, function: Function, arguments: Mapping[str, int], place: int) -> None:
        """Events: a call that waits for one waits for what was before the call that recorded it."""
        event, stream = function.takes("CUevent"), function.takes("CUstream")
        if event is None or not (function.queues or function.waits):
            return
        handle = arguments.get(event.name, 0)
        records = stream is not None and function.parameters.index(event) < function.parameters.index(stream)
        if records:
            self._events[handle] = place
        elif handle in self._events:
            if len(self.timeline.arrows) < MAXIMUM_ARROWS:
                self.timeline.arrows.append((self._events[handle], place))
            else:
                self.timeline.arrows_left_out += 1

    def _moved(self, call: Call, function: Function) -> None:
        """Copies and fills, by the addresses that their effect names."""
        if function.effect not in (Effect.WRITE, Effect.READ, Effect.COPY) or not function.effect_terms:
            return
        hows = {Effect.WRITE: ("writes",), Effect.READ: ("reads",), Effect.COPY: ("writes", "reads")}
        for how, term in zip(hows[function.effect], function.effect_terms, strict=False):
            if (address := _value(term, call)) is None:
                continue
            for number in self._found(np.array([address], "<u8")):
                self._uses[int(number), function.name, how] += 1

    # -- calls that repeat --------------------------------------------------------------------------------------

    def _repeats(self, part: Repeats) -> None:
        columns = part.columns
        which = np.frombuffer(columns.which, "u4")
        kinds = np.zeros(len(part.templates), "u4")
        for number in np.unique(which).tolist():
            call = part.templates[number]
            function, arguments = self._follow(call)
            kernel = self._kernel(function, arguments)
            kinds[number] = self._kind(call, function, arguments, kernel)
            if function is None:
                continue
            rows = np.flatnonzero(which == number)
            if function.effect == Effect.LAUNCH:
                timed = (
                    [part.gpu_ns[row] for row in rows.tolist() if row in part.gpu_ns] if part.gpu_ns else []
                )
                self.gpu_ns[kernel.name, kernel.image] += sum(timed)
                self.timed[kernel.name, kernel.image] += len(timed)
                if PARAMETERS in call.inputs:
                    self._reached(kernel, _parameters(columns.starts, columns.parameters, rows))
        begin = len(self.timeline.which)
        room = max(0, MAXIMUM_SHOWN - begin)
        timeline, count = self.timeline, min(room, len(part))
        timeline.which.extend(kinds[which[:count]].tolist())
        timeline.numbers.extend(columns.numbers[:count])
        timeline.begin_ns.extend(columns.enter_ns[:count])
        timeline.end_ns.extend(columns.leave_ns[:count])
        timeline.gpu_ns.extend(part.gpu_ns.get(row, -1) for row in range(count))
        self._order_repeats(part, which[:count], begin)

    def _order_repeats(self, part: Repeats, which: Any, begin: int) -> None:
        known = []
        for call in part.templates:
            function = by_symbol().get(call.function)
            orders = function is not None and function.takes("CUevent") is not None
            known.append(self._follow(call) if orders else None)
        orders_at = np.array([item is not None for item in known], bool)
        for row in np.flatnonzero(orders_at[which]).tolist():
            found = known[int(which[row])]
            if found is not None and found[0] is not None:
                self._order(found[0], found[1], begin + row)

    # -- memory -------------------------------------------------------------------------------------------------

    def _found(self, words: Any) -> Any:
        """The ids of the ranges that these words are addresses in, one for each word that is."""
        if not len(self._ids):
            return np.zeros(0, "<i8")
        at = np.searchsorted(self._begins, words, "right").astype("<i8") - 1
        inside = (at >= 0) & (words < self._ends[np.maximum(at, 0)])
        return np.array(self._ids, "<i8")[at[inside]]

    def _reached(self, kernel: LaunchedKernel, parameters: Any) -> None:
        """Launches of one kernel, a row of bytes for each: every aligned word that is an address."""
        accesses = self._accesses(kernel.name, kernel.image)
        name = shown(demangle(kernel.name), LONGEST_TEXT) if kernel.name else "a kernel that is not known"
        for offset in range(0, parameters.shape[1] - 7, 8):
            words = np.ascontiguousarray(parameters[:, offset : offset + 8]).view("<u8").ravel()
            numbers, counts = np.unique(self._found(words), return_counts=True)
            if len(numbers):
                how = _how(accesses, offset)
                for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                    self._uses[number, name, how] += count


def _how(accesses: Accesses, offset: int) -> str:
    if accesses == UNKNOWN:
        return "is given"
    reads, writes = offset in accesses.reads, offset in accesses.writes
    if reads and writes:
        return "reads and writes"
    return "writes" if writes else "reads" if reads else "is given"


def _parameters(starts: array[int], parameters: bytearray, rows: Any) -> Any:
    """The parameters of the launches of one template: a row for each."""
    begins = np.frombuffer(starts, "<i8")
    length = int(begins[rows[0] + 1] - begins[rows[0]]) if len(rows) else 0
    length = min(length, MAXIMUM_PARAMETER_BYTES)
    return np.frombuffer(parameters, "u1")[begins[rows][:, None] + np.arange(length)]


def _word(value: int) -> int:
    return value if 0 <= value < 1 << 62 else 0


def _value(term: Term, call: Call) -> int | None:
    if len(term.parameters) != 1 or term.parameters[0] >= len(call.arguments):
        return None
    return call.arguments[term.parameters[0]] * term.scale & (1 << 64) - 1


def _stream(call: Call, function: Function | None, arguments: Mapping[str, int]) -> int | None:
    if function is None:
        return None
    if (stream := function.takes("CUstream")) is not None:
        return arguments.get(stream.name, 0)
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    if config is not None:
        return int(config.hStream)
    works = function.effect in _LAUNCHES or function.work in _SORTS
    return 0 if works else None


def _sort(function: Function | None) -> str:
    if function is None:
        return "other"
    if function.effect in _LAUNCHES:
        return "launch"
    if function.work in _SORTS:
        return _SORTS[function.work]
    if function.waits:
        return "wait"
    return "order" if function.queues or function.takes("CUevent") is not None else "other"


def _geometry(call: Call, arguments: Mapping[str, int]) -> str:
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    if config is None:
        config = structs.CUlaunchConfig(*(arguments.get(name, 0) for name in structs.SHAPE_FIELDS))
    grid, block, shared = structs.geometry(config)
    more = f", {size(shared)} shared" if shared else ""
    return f"grid {dimensions(grid)}, block {dimensions(block)}{more}"
