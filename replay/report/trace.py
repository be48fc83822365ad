"""A window as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: JSON of the Trace Event Format.

Format: "Trace Event Format" (Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
events ("X") with a begin and a duration in microseconds, instant events ("i"), flow events ("s", "f"), counters ("C"),
metadata ("M").

Only durations of launches are known, not when they began. Each says so in its arguments: inside the application it is
drawn as early as its call and the work before it in its stream allow; in the replay, where launches are timed in
passes of their own, one after the other.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from replay.api.functions import by_symbol
from replay.api.parts import find_struct
from replay.api.structs import CUlaunchConfig
from replay.api.vocabulary import Effect, Function, Term, Work
from replay.images.demangle import demangle
from replay.inspection.launches import LaunchedKernel, with_kernels
from replay.results.run.timing import LaunchTime, TimeSummary
from replay.results.schema import RunResult
from replay.snapshot.schema import Call, Range
from replay.text import shown

if TYPE_CHECKING:
    from pathlib import Path

MAXIMUM_EVENTS = 500_000
LONGEST_NAME = 500
_NS_IN_A_UNIT = 1000  # the format counts in microseconds
_LAUNCHES = (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
_COPIES = (Work.COPY, Work.FILL, Work.PREFETCH)
_FIRST_PROCESS = 1001  # no number of a row, which a viewer would take for the main thread

Event = dict[str, Any]


@dataclass
class Trace:
    """Events of any number of sources. Each source has processes of its own, whose names say what its times are: at
    their beginnings, for viewers cut them."""

    events: list[Event] = field(default_factory=list)
    left_out: int = 0
    _process: Iterator[int] = field(default_factory=lambda: count(_FIRST_PROCESS))
    _flow: Iterator[int] = field(default_factory=lambda: count(1))

    def document(self) -> dict[str, Any]:
        """What the file holds."""
        other = {"events left out": self.left_out} if self.left_out else {}
        return {"traceEvents": self.events, "displayTimeUnit": "ns", "otherData": other}

    def process(self, name: str) -> int:
        """A new one."""
        number = next(self._process)
        self.events.append(_metadata("process_name", number, 0, {"name": shown(name, LONGEST_NAME)}))
        self.events.append(_metadata("process_sort_index", number, 0, {"sort_index": number}))
        return number

    def row(self, process: int, number: int, name: str) -> None:
        """Name a row of a process."""
        self.events.append(_metadata("thread_name", process, number, {"name": shown(name, LONGEST_NAME)}))

    def add(self, event: Event) -> bool:
        """False when there is no room."""
        if len(self.events) >= MAXIMUM_EVENTS:
            self.left_out += 1
            return False
        self.events.append(event)
        return True

    def connect(self, begin: Event, end: Event, name: str = "launch") -> None:
        """An arrow: from a call to its work, or from a call that records an event to one that waits for it."""
        number = next(self._flow)
        for phase, at, more in (("s", begin, {}), ("f", end, {"bp": "e"})):
            self.add({"ph": phase, "id": number, "name": name, "cat": name, "pid": at["pid"], "tid": at["tid"],
                      "ts": at["ts"], **more})  # fmt: skip


def snapshot_trace(trace: Trace, path: Path) -> None:
    """The windows of a snapshot as they ran in the application: calls by thread, launches and copies by stream.

    Raises FormatError and the like for a file that cannot be read.
    """
    from replay.snapshot.contents import Snapshot

    with Snapshot(path) as opened:
        environment = opened.environment()
        source = "modelled" if environment is not None and environment.emulated else "measured"
        for window in opened.each_window():
            name = path.name + ("" if window is None else f", window {window.number}")
            _window(trace, name, source, opened.calls(), opened.ranges())


class _MemoryInUse:
    """How much memory that the window reaches there is, by kind, from call to call."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._bytes: Counter[str] = Counter()
        self._changes: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self._told = False
        for item in ranges:
            if item.born_call is None:
                self._bytes[item.kind] += item.size_bytes
            else:
                self._changes[item.born_call].append((item.kind, item.size_bytes))
            if item.died_call is not None:
                self._changes[item.died_call].append((item.kind, -item.size_bytes))

    def after(self, call: int) -> dict[str, int] | None:
        """The sums after a call; None where they are as before it."""
        changes = self._changes.get(call, ())
        for kind, size in changes:
            self._bytes[kind] += size
        if self._told and not changes:
            return None
        self._told = True
        return {f"{kind}, bytes": max(0, count) for kind, count in sorted(self._bytes.items())}


def _window(
    trace: Trace, name: str, source: str, calls: Iterable[Call], ranges: Iterable[Range] = ()
) -> None:
    memory = _MemoryInUse(ranges)
    host = trace.process(f"host, under capture: {name}")
    device = trace.process(f"GPU, {source}: {name}")
    threads, streams = _Rows(trace, host, "thread"), _Rows(trace, device, "stream")
    free: dict[int, float] = {}  # when the work before in a stream is over
    origin: int | None = None
    recorded: dict[int, Event] = {}  # handle of a CUevent -> the call that recorded it last
    for call, kernel in with_kernels(calls):
        if call.section != "window":
            continue
        if origin is None:
            origin = call.enter_ns
        begin = max(0, call.enter_ns - origin) / _NS_IN_A_UNIT
        event = _call_event(call, kernel, host, threads.of(call.thread), begin)
        if not trace.add(event):
            continue
        if (in_use := memory.after(call.number)) is not None and in_use:
            trace.add({"ph": "C", "name": "memory that the window reaches", "pid": device, "tid": 0,
                       "ts": event["ts"], "args": in_use})  # fmt: skip
        function = by_symbol().get(call.function)
        if function is None or call.in_capture or call.result != 0:
            continue
        _order(trace, recorded, event, call, function)
        stream = _stream(call)
        if function.effect in _LAUNCHES:
            if call.gpu_ns is None:
                work = _instant(event["args"].get("kernel", call.function), device, streams.of(stream), begin)
                work["args"] = {"call": call.number, "duration": "not timed in the application"}
                trace.add(work)
                continue
            at = max(begin, free.get(stream, 0.0))
            work = _complete(event["args"].get("kernel", call.function), "launch", device, streams.of(stream), at,
                             call.gpu_ns / _NS_IN_A_UNIT)  # fmt: skip
            work["args"] = {
                "call": call.number,
                "duration": f"{source} in the application",
                "begin": "not known",
            }
            free[stream] = at + work["dur"]
            if trace.add(work):
                trace.connect(event, work)
        elif function is not None and function.work in _COPIES:
            work = _instant(call.function, device, streams.of(stream), max(begin, free.get(stream, 0.0)))
            work["args"] = {"call": call.number, "duration": "not timed", **_amount(call)}
            trace.add(work)


def _order(trace: Trace, recorded: dict[int, Event], event: Event, call: Call, function: Function) -> None:
    """An arrow to a call that waits for an event from the one that recorded it."""
    waited, stream = function.takes("CUevent"), function.takes("CUstream")
    if waited is None or not (function.queues or function.waits):
        return
    places = {parameter.name: place for place, parameter in enumerate(function.parameters)}
    if places[waited.name] >= len(call.arguments):
        return
    handle = call.arguments[places[waited.name]]
    if stream is not None and places[waited.name] < places[stream.name]:
        recorded[handle] = event
    elif handle in recorded:
        trace.connect(recorded[handle], event, "event")


def _call_event(call: Call, kernel: LaunchedKernel, process: int, row: int, begin: float) -> Event:
    duration = max(0, call.leave_ns - call.enter_ns) / _NS_IN_A_UNIT
    event = _complete(call.function, "call", process, row, begin, duration)
    event["args"] = {"call": call.number, "result": call.result, **_amount(call)}
    if kernel.name:
        event["args"]["kernel"] = _name(kernel.name)
    elif call.kernels:
        event["args"]["kernel"] = ", ".join(_name(name) for name in list(call.kernels)[:4])
    return event


def _amount(call: Call) -> dict[str, int]:
    """How many bytes a copy moves, where its arguments say so."""
    function = by_symbol().get(call.function)
    if function is None or function.effect not in (Effect.WRITE, Effect.READ, Effect.COPY):
        return {}
    term: Term = function.effect_terms[-1]
    if not all(place < len(call.arguments) for place in term.parameters):
        return {}
    return {"bytes": math.prod(call.arguments[place] for place in term.parameters) * term.scale}


def _stream(call: Call) -> int:
    """As the application named it; 0: the default stream."""
    function = by_symbol()[call.function]
    for value, parameter in zip(call.arguments, function.parameters, strict=False):
        if parameter.c_type == "CUstream":
            return value
    config = find_struct(call.inputs, "config", CUlaunchConfig)
    return 0 if config is None else int(config.hStream)


def result_trace(trace: Trace, result: RunResult) -> None:
    """The launches of one replay: with cold caches, with hot ones, and inside the application, each by stream."""
    name = result.snapshot.file + (
        "" if result.snapshot.window is None else f", window {result.snapshot.window}"
    )
    source = "modelled" if result.driver.emulated else "measured"
    before = "modelled" if result.application.emulated else "measured"
    for caches, timing in (("cold", result.timing), ("hot", result.hot)):
        times = [
            (launch, launch.cold_ns if caches == "cold" else launch.hot_ns) for launch in result.launch_times
        ]
        if timing is None and not any(time is not None for _, time in times):
            continue
        process = trace.process(f"replay {caches}, {source}: {name}")
        if timing is not None and timing.gpu is not None:  # a host time is not of the device, nor modelled
            _whole(trace, process, timing.gpu, timing.source)
        _end_to_end(trace, process, times, f"{source}, median of passes with {caches} caches")
    inside = [(launch, launch.application_ns) for launch in result.launch_times]
    if any(time is not None for _, time in inside):
        process = trace.process(f"application, {before}: {name}")
        _end_to_end(trace, process, inside, f"{before} in the application")


def _whole(trace: Trace, process: int, summary: TimeSummary, source: str) -> None:
    trace.row(process, 0, "whole window, median")
    event = _complete("window", "window", process, 0, 0.0, summary.median_ns / _NS_IN_A_UNIT)
    event["args"] = {"duration": f"{source} GPU time, median of {summary.count}", "noise": summary.noise}
    trace.add(event)


def _end_to_end(
    trace: Trace, process: int, times: Iterable[tuple[LaunchTime, float | int | None]], what: str
) -> None:
    rows = _Rows(trace, process, "stream")
    at = 0.0
    for launch, time_ns in times:
        name = _name(launch.kernel) if launch.kernel else launch.function
        if time_ns is None:
            event = _instant(name, process, rows.of(launch.stream), at)
            event["args"] = {"call": launch.call, "duration": "not timed"}
        else:
            duration = time_ns / _NS_IN_A_UNIT
            event = _complete(name, "launch", process, rows.of(launch.stream), at, duration)
            event["args"] = {
                "call": launch.call,
                "duration": what,
                "begin": "not known, in the order of the calls",
            }
            at += duration
        trace.add(event)


class _Rows:
    """Rows of a process by thread or stream, in the order in which they appear."""

    def __init__(self, trace: Trace, process: int, what: str) -> None:
        self._trace, self._process, self._what = trace, process, what
        self._numbers: dict[int, int] = {}

    def of(self, key: int) -> int:
        if key not in self._numbers:
            number = self._numbers[key] = len(self._numbers) + 1
            name = f"{self._what} {key:#x}" if key > 2 and self._what == "stream" else f"{self._what} {key}"
            default = {0: "default stream", 1: "legacy default stream", 2: "default stream of the thread"}
            self._trace.row(self._process, number, default.get(key, name) if self._what == "stream" else name)
        return self._numbers[key]


def _name(mangled: str) -> str:
    return shown(demangle(mangled), LONGEST_NAME)


def _metadata(name: str, process: int, row: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": process, "tid": row, "args": arguments}


def _complete(name: str, category: str, process: int, row: int, begin: float, duration: float) -> Event:
    return {"ph": "X", "name": shown(name, LONGEST_NAME), "cat": category, "pid": process, "tid": row,
            "ts": round(begin, 3), "dur": round(duration, 3)}  # fmt: skip


def _instant(name: str, process: int, row: int, begin: float) -> Event:
    return {"ph": "i", "s": "t", "name": shown(name, LONGEST_NAME), "cat": "untimed", "pid": process, "tid": row,
            "ts": round(begin, 3)}  # fmt: skip
