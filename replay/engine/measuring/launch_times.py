"""The GPU time of each launch of a window: two events around it, in passes over the window of their own; and its SM
cycles, from stamps of the clock along such a pass.

A stamp before and after each launch would take longer than short launches do. So the clock is stamped around the
window, and inside a long one before the launch with which STRETCH_NS more have gone by: a launch has the cycles that
pass in its time at the clock of the stretch that it lies in. Stamps inside a window are not yet seen on a GPU
(GT-STAMPS).
"""

from __future__ import annotations

import ctypes
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Literal

from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import DriverFailure
from replay.engine.execution.lanes import Lane, lane_of, launch_streams
from replay.engine.execution.repeated import PreparedRepeats
from replay.engine.execution.submission import Marks, call_each
from replay.engine.measuring.bracket import NO_NUMBER, OF_NO_CALL, ended_context, step
from replay.engine.measuring.chosen import Launch, choose_launches
from replay.engine.measuring.measure import MAXIMUM_HELD_CALLS, WindowSampler
from replay.engine.measuring.stamps import AFTER, BEFORE, BETWEEN, MAXIMUM_STAMPS
from replay.engine.session import Session, Submittable
from replay.engine.translation.translation import Late
from replay.inspection.launches import with_kernels
from replay.records import dataclass
from replay.results.run.timing import LaunchTime
from replay.snapshot.schema import Call
from replay.timing.stamps import cycles_of
from replay.timing.statistics import median

# Launches of a window that are timed one by one (chosen.py); each takes two events
MAXIMUM_TIMED_LAUNCHES = 4_096

SMALLEST_PASS = 16  # launches; with fewer at a time a window is run too often
STRETCH_NS = 1_000_000  # between two stamps inside a window, each of which takes some microseconds
MAXIMUM_STRETCHES = MAXIMUM_STAMPS - BETWEEN + 1

_OF_EVENTS = ("cuEventRecord", "cuEventElapsedTime", "cuEventCreate", "cuEventSynchronize")

Caches = Literal["cold", "hot"]


@dataclass
class _Timed:
    """A launch. lane: where its work goes. late: the window makes its context, and its events with it. slot: where the
    events are in words of `Marks`."""

    launch: Launch
    lane: Lane
    late: bool
    begin: int = 0
    end: int = 0
    slot: tuple[array[int], int] | None = None
    now_ns: int | None = None  # in the pass that runs
    stretch: int = 0  # of the window, that it lies in
    times_ns: dict[Caches, list[int]] = field(default_factory=lambda: {"cold": [], "hot": []})
    cycles: dict[Caches, list[int]] = field(default_factory=lambda: {"cold": [], "hot": []})

    @property
    def has_ended(self) -> bool:
        """Whether it did in the application; one of which that is not known recorded no second event."""
        return self.launch.item.call.result == 0


@dataclass
class _Pass:
    """The window with events around some of its launches."""

    window: Sequence[Submittable]
    timed: list[_Timed]


class LaunchTimer:
    """Runs a session's window with events around its launches, as many at a time as fit into a held stream.

    notes: launches that are not timed, or not as well as others, and why.
    """

    def __init__(self, session: Session, sampler: WindowSampler) -> None:
        self._session = session
        self._sampler = sampler
        self.notes: list[str] = []
        self._timed = self._launches()
        room = (MAXIMUM_HELD_CALLS - sampler.commands - MAXIMUM_STRETCHES) // 2
        self._hold = not sampler.hold_reason and (room >= SMALLEST_PASS or room >= len(self._timed))
        if not self._hold and self._timed and len(session.window) > 1 and not sampler.modelled:
            reason = (
                sampler.hold_reason
                or "the window has too many calls to hold its stream while they are queued"
            )
            self.notes.append(
                f"times of single launches may hold gaps in which the device waits for the host: {reason}"
            )
        self._pass_size = max(room if self._hold else len(self._timed), 1)
        self._stretches = 1
        self._is_divided = False
        self._passes = self._make_passes()

    def _launches(self) -> list[_Timed]:
        launches, number = choose_launches(self._session.window, MAXIMUM_TIMED_LAUNCHES)
        if number > len(launches):
            self.notes.append(
                f"{len(launches):,} of {number:,} launches were timed one by one: those that the application timed, "
                "and others spread over the window"
            )
        lanes: dict[int, Lane] = {}  # of templates, by their id
        timed = []
        for one in launches:
            lane = lanes[id(one.item)] = lanes.get(id(one.item)) or lane_of(one.item)
            timed.append(_Timed(one, lane, self._sampler.bracket.makes(one.item.context)))
        for context in dict.fromkeys(one.launch.item.context for one in timed if not one.late):
            self._session.translation.contexts.be_in(context)
            self._make_events([one for one in timed if one.launch.item.context == context])
        self._session.use_main_context()
        return timed

    def _make_events(self, timed: Sequence[_Timed]) -> None:
        """In the context that is current."""
        events = (ctypes.c_uint64 * (2 * len(timed)))()
        first = ctypes.addressof(events)
        self._call_each("cuEventCreate", [(first + 8 * number, 0) for number in range(len(events))])
        for one, begin, end in zip(timed, events[::2], events[1::2], strict=True):
            one.begin, one.end = begin, end
            if one.slot is not None:
                words, number = one.slot
                words[2 * number], words[2 * number + 1] = begin, end

    def _call_each(self, symbol: str, rows: Sequence[Sequence[int]]) -> None:
        operation = getattr(self._session.driver, symbol)
        operation.check(call_each(operation.bare(), rows))

    def _make_passes(self) -> list[_Pass]:
        return [
            self._pass(self._timed[start : start + self._pass_size])
            for start in range(0, len(self._timed), self._pass_size)
        ]

    def _pass(self, timed: list[_Timed]) -> _Pass:
        around = {item.launch.place: item for item in timed}
        first_of = self._first_of_stretches()
        ending = {
            kind.first: context
            for kind in self._session.window.kinds()
            if (context := ended_context(kind.item))
        }
        groups = _late_groups(timed, ending)
        makes = {group[0].launch.place: group for group, _ in groups}
        # The first of a group is by itself, since its events are made in front of it.
        alone = {item.launch.place for item in timed if not item.launch.repeats}
        places = {*alone, *makes, *first_of, *ending}

        def expand(place: int, item: Prepared) -> list[Prepared]:
            chosen = around.get(place)
            calls = [item] if chosen is None else self._between_events(chosen, item)
            if group := makes.get(place):
                calls.insert(0, step(item, lambda: self._make_events(group)))
            if ended := [group for group, end in groups if end == place]:
                calls.insert(0, step(item, lambda: self._read_late(ended)))
            if stretch := first_of.get(place):
                calls.insert(0, step(item, lambda: self._stamp(stretch)))
            return calls

        def mark(place: int, part: PreparedRepeats) -> PreparedRepeats:
            first, last = (bisect_left(timed, at, key=_place) for at in (place, place + len(part)))
            return self._marked(part, place, timed[first:last]) if first < last else part

        return _Pass(self._sampler.bracket.around(expand, places, mark), timed)

    def _marked(self, part: PreparedRepeats, place: int, timed: list[_Timed]) -> PreparedRepeats:
        """Calls that repeat, with the events around the launches among them."""
        words = array("Q", bytes(16 * len(timed)))
        for number, one in enumerate(timed):
            one.slot = words, number
            words[2 * number], words[2 * number + 1] = one.begin, one.end
        streams = {number: lane_of(item).stream for number, item in part.templates.items()}
        places = array("I", [one.launch.place - place for one in timed])
        return part.marked(Marks(self._record(timed[0].launch.item), places, words, streams))

    def _record(self, near: Prepared, *arguments: Any, late: Sequence[Late] = ()) -> Prepared:
        """A call of ours that records an event, in the context of `near`."""
        row = Call(NO_NUMBER, "cuEventRecord", "window", near.call.thread, [], 0)
        record = self._session.driver.function(row.function)
        return Prepared(row, near.context, record, list(arguments), list(late))

    def _between_events(self, timed: _Timed, item: Prepared) -> list[Prepared]:
        """The launch between calls that record its events; a stream that the window makes is looked up each time."""
        session = self._session
        handles = session.translation.handles
        stream = timed.lane.stream
        if not timed.late and timed.has_ended:
            permanent = handles.is_permanent("CUstream", stream)
            live = ctypes.c_void_p(handles.live("CUstream", stream) if permanent else 0)
            late = [] if permanent else [Late(1, "CUstream", stream)]
            begin, end = (
                self._record(item, ctypes.c_void_p(event), live, late=late)
                for event in (timed.begin, timed.end)
            )
            return [begin, item, end]

        def record(event: Literal["begin", "end"]) -> None:
            session.driver.cuEventRecord(getattr(timed, event), handles.live("CUstream", stream))

        return [step(item, lambda: record("begin")), item, step(item, lambda: record("end"))]

    def _stamp(self, stretch: int) -> None:
        """In front of the first launch of a stretch of the window."""
        main = self._sampler.bracket.main
        self._sampler.stamp(
            BETWEEN + stretch - 1, self._session.translation.handles.live("CUstream", main.stream)
        )

    def run_once(self, caches: Caches, make_ready: Callable[[], None]) -> None:
        """Time every launch once. make_ready: called before each run of the window. Raises EngineError when a call of
        the window fails. An event that cannot be used ends it, with a note."""
        try:
            self._run_once(caches, make_ready)
            if not self._is_divided:
                self._is_divided = True
                if self._divide(caches):
                    self._forget()
                    self._run_once(caches, make_ready)
        except DriverFailure as failure:
            if failure.function not in _OF_EVENTS or failure.where not in (None, OF_NO_CALL):
                raise
            self.notes.append(
                f"launches were not timed one by one: {failure.function} returned {failure.name}"
            )
            self._passes.clear()
            self._forget()

    def _forget(self) -> None:
        for timed in self._timed:
            for lists in (timed.times_ns, timed.cycles):
                lists["cold"].clear()
                lists["hot"].clear()

    def _run_once(self, caches: Caches, make_ready: Callable[[], None]) -> None:
        for one in self._passes:
            make_ready()
            for timed in one.timed:
                timed.now_ns = None
            whole = self._sampler.run(window=one.window, hold=self._hold)
            self._read([timed for timed in one.timed if timed.has_ended and timed.now_ns is None])
            clocks = self._clocks_of(one.timed, whole.effective_clock_mhz)
            for timed in one.timed:
                if timed.now_ns is None:
                    continue
                timed.times_ns[caches].append(timed.now_ns)
                clock = clocks[timed.stretch]
                if clock is not None and not self._reason(timed):
                    timed.cycles[caches].append(cycles_of(timed.now_ns, clock))

    def _read(self, timed: Sequence[_Timed]) -> None:
        """The times of launches that have ended."""
        times_ms = (ctypes.c_float * len(timed))()
        first = ctypes.addressof(times_ms)
        rows = [(first + 4 * number, one.begin, one.end) for number, one in enumerate(timed)]
        self._call_each("cuEventElapsedTime", rows)
        for one, elapsed_ms in zip(timed, times_ms, strict=True):
            one.now_ns = round(elapsed_ms * 1e6)

    def _read_late(self, groups: Sequence[Sequence[_Timed]]) -> None:
        """The window is about to end a context, and the events in it."""
        timed = [one for group in groups for one in group if one.has_ended]
        self._call_each("cuEventSynchronize", [(one.end,) for one in timed])
        self._read(timed)

    # -- cycles -------------------------------------------------------------------------------------------------

    def _divide(self, caches: Caches) -> bool:
        """Cut the window into stretches, now that the time of each launch is known. Whether it is more than one."""
        if self._sampler.cycles_source != "stamped":
            return False
        main = self._sampler.bracket.main
        total_ns = sum(timed.times_ns[caches][0] for timed in self._timed if timed.times_ns[caches])
        length_ns = max(STRETCH_NS, total_ns / MAXIMUM_STRETCHES)
        stretch, gone_ns = 0, 0
        for timed in self._timed:
            if timed.lane == main and gone_ns >= length_ns and stretch + 1 < MAXIMUM_STRETCHES:
                stretch, gone_ns = stretch + 1, 0
            timed.stretch = stretch
            gone_ns += timed.times_ns[caches][0] if timed.times_ns[caches] else 0
        if stretch:
            self._stretches = stretch + 1
            self._passes = self._make_passes()
        return stretch > 0

    def _first_of_stretches(self) -> dict[int, int]:
        """The stretch that begins with a call, by the place of that call."""
        found: dict[int, int] = {}
        for before, timed in zip(self._timed, self._timed[1:], strict=False):
            if timed.stretch != before.stretch:
                found[timed.launch.place] = timed.stretch
        return found

    def _clocks_of(self, timed: Sequence[_Timed], whole_mhz: float | None) -> list[float | None]:
        """The SM clock of each stretch in the last run."""
        if self._stretches == 1:
            return [whole_mhz]
        main = self._sampler.bracket.main
        work_ns = [0] * self._stretches
        for one in timed:
            if one.lane == main:
                work_ns[one.stretch] += one.now_ns or 0
        borders = [BEFORE, *range(BETWEEN, BETWEEN + self._stretches - 1), AFTER]
        return [
            self._sampler.clock_between(borders[number], borders[number + 1], work_ns[number])
            for number in range(self._stretches)
        ]

    def _reason(self, timed: _Timed) -> str:
        """Why there are no cycles of a launch; "" when there are."""
        if self._sampler.cycles_reason:
            return self._sampler.cycles_reason
        if self._stretches > 1 and timed.lane != self._sampler.bracket.main:
            return (
                "the clock is stamped only along the stream of the first work, and it moves in a long window"
            )
        return ""

    # -- results ------------------------------------------------------------------------------------------------

    @property
    def launches(self) -> int:
        """How many are timed."""
        return len(self._timed)

    def add(self, caches: Caches, times_ns: Sequence[int], cycles: Sequence[int]) -> None:
        """Times and cycles of each launch that were measured elsewhere."""
        for timed in self._timed:
            timed.times_ns[caches].extend(times_ns)
            timed.cycles[caches].extend(cycles)

    def result(self) -> list[LaunchTime]:
        """The launches in the order of the window."""
        program, numbers = self._session.program, {timed.launch.number for timed in self._timed}
        calls = chain(program.setup, program.window.chosen(numbers))
        kernels = {recorded.number: kernel.name for recorded, kernel in with_kernels(calls) if kernel.name}
        return [self._one(timed, kernels.get(timed.launch.number, "")) for timed in self._timed]

    def _one(self, timed: _Timed, kernel: str) -> LaunchTime:
        launch = timed.launch
        stamped = bool(timed.cycles["cold"] or timed.cycles["hot"])
        was_timed = bool(timed.times_ns["cold"] or timed.times_ns["hot"])
        reason = ""
        if was_timed and not stamped:
            reason = self._reason(timed) or "the stamps of the clock contradict the events"
        return LaunchTime(
            call=launch.number,
            function=launch.item.call.function,
            kernel=kernel,
            stream=(launch_streams(launch.item) or [0])[0],
            cold_ns=_median(timed.times_ns["cold"]),
            hot_ns=_median(timed.times_ns["hot"]),
            application_ns=launch.application_ns,
            cold_time_ns=timed.times_ns["cold"],
            hot_time_ns=timed.times_ns["hot"],
            cold_cycles=_median(timed.cycles["cold"]),
            hot_cycles=_median(timed.cycles["hot"]),
            cycles_source=self._sampler.cycles_source if stamped else "",
            cycles_reason=reason,
        )


def _place(timed: _Timed) -> int:
    return timed.launch.place


def _late_groups(timed: Sequence[_Timed], ending: dict[int, int]) -> list[tuple[list[_Timed], int]]:
    """Launches in contexts that the window makes, those together whose context ends with the same call: with the place
    of that call, -1 where the window does not end it. ending: the context that is ended at a place."""
    groups: dict[tuple[int, int], list[_Timed]] = {}
    for one in timed:
        if one.late:
            context = one.launch.item.context
            ends = (at for at, ended in ending.items() if ended == context and at > _place(one))
            groups.setdefault((context, min(ends, default=-1)), []).append(one)
    return [(group, end) for (_, end), group in groups.items()]


def _median(values: list[int]) -> float | None:
    return float(median(values)) if values else None
