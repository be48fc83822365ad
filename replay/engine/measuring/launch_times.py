"""The GPU time of each launch of a window: two events around it, in passes over the window of their own; and its SM
cycles, from stamps of the clock along such a pass.

A stamp before and after each launch would take longer than short launches do. So the clock is stamped around the
window, and inside a long one before the launch with which STRETCH_NS more have gone by: a launch has the cycles that
pass in its time at the clock of the stretch that it lies in. Stamps inside a window are not yet seen on a GPU
(GT-STAMPS).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from statistics import median
from typing import Literal

from replay.api.functions import by_symbol
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import DriverFailure, passed_value
from replay.engine.execution.lanes import Lane, is_launch, is_work, lane_of, launch_streams
from replay.engine.measuring.bracket import NO_NUMBER, OF_NO_CALL, ended_context, step
from replay.engine.measuring.measure import MAXIMUM_HELD_CALLS, WindowSampler
from replay.engine.measuring.stamps import AFTER, BEFORE, BETWEEN, MAXIMUM_STAMPS
from replay.engine.session import Session, Submittable
from replay.engine.translation.translation import Late
from replay.inspection.launches import with_kernels
from replay.results.run.timing import LaunchTime
from replay.snapshot.schema import Call
from replay.timing.stamps import cycles_of

# Launches of a window that are timed one by one; each takes two events
MAXIMUM_TIMED_LAUNCHES = 16_384

SMALLEST_PASS = 16  # launches; with fewer at a time a window is run too often
STRETCH_NS = 1_000_000  # between two stamps inside a window, each of which takes some microseconds
MAXIMUM_STRETCHES = MAXIMUM_STAMPS - BETWEEN + 1

_OF_EVENTS = ("cuEventRecord", "cuEventElapsedTime", "cuEventCreate")

Caches = Literal["cold", "hot"]


@dataclass
class _Timed:
    """A launch. place: in the window. late: the window makes its context, and its events with it."""

    prepared: Prepared
    place: int
    lane: Lane
    late: bool
    begin: int = 0
    end: int = 0
    now_ns: int | None = None  # in the pass that runs
    stretch: int = 0  # of the window, that it lies in
    times_ns: dict[Caches, list[int]] = field(default_factory=lambda: {"cold": [], "hot": []})
    cycles: dict[Caches, list[int]] = field(default_factory=lambda: {"cold": [], "hot": []})


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
        session = self._session
        timed: list[_Timed] = []
        launches = (kind for kind in session.window.kinds() if is_launch(kind.item) and is_work(kind.item))
        unlisted = sum(kind.number for kind in launches) - MAXIMUM_TIMED_LAUNCHES
        for place, item in enumerate(session.window):
            if len(timed) >= MAXIMUM_TIMED_LAUNCHES:
                break
            if not (is_launch(item) and is_work(item)):  # one that failed in the application has no time
                continue
            late = self._sampler.bracket.makes(item.context)
            timed.append(_Timed(item, place, lane_of(item), late))
            if not late:
                session.translation.contexts.be_in(item.context)
                self._make_events(timed[-1])
        session.use_main_context()
        if unlisted > 0:
            self.notes.append(
                f"the first {MAXIMUM_TIMED_LAUNCHES:,} launches were timed one by one, {unlisted:,} were not"
            )
        return timed

    def _make_events(self, timed: _Timed) -> None:
        timed.begin, timed.end = (self._session.driver.cuEventCreate(0) for _ in range(2))

    def _make_passes(self) -> list[_Pass]:
        return [
            self._pass(self._timed[start : start + self._pass_size])
            for start in range(0, len(self._timed), self._pass_size)
        ]

    def _pass(self, timed: list[_Timed]) -> _Pass:
        around = {item.place: item for item in timed}
        first_of = self._first_of_stretches()
        ending = [kind.first for kind in self._session.window.kinds() if ended_context(kind.item)]

        def expand(place: int, item: Prepared) -> list[Prepared]:
            chosen = around.get(place)
            calls = [item] if chosen is None else self._between_events(chosen)
            if ended := ended_context(item):
                calls.insert(0, step(item, lambda: self._read_late(timed, ended)))
            if stretch := first_of.get(place):
                calls.insert(0, step(item, lambda: self._stamp(stretch)))
            return calls

        places = {*around, *first_of, *ending}
        return _Pass(self._sampler.bracket.around(expand, places), timed)

    def _between_events(self, timed: _Timed) -> list[Prepared]:
        """The launch between calls that record its events; a stream that the window makes is looked up each time."""
        session, item = self._session, timed.prepared
        handles = session.translation.handles
        record = session.driver.function("cuEventRecord")
        stream = timed.lane.stream
        if not timed.late and timed.prepared.call.result == 0:
            row = Call(NO_NUMBER, "cuEventRecord", "window", item.call.thread, [], 0)
            parameters = by_symbol()[row.function].parameters
            permanent = handles.is_permanent("CUstream", stream)
            live = handles.live("CUstream", stream) if permanent else 0
            late = [] if permanent else [Late(1, "CUstream", stream)]
            around = [
                Prepared(row, item.context, record, list(map(passed_value, parameters, (event, live))), late)
                for event in (timed.begin, timed.end)
            ]
            return [around[0], item, around[1]]

        def before() -> None:
            if timed.late:
                self._make_events(timed)
            session.driver.cuEventRecord(timed.begin, handles.live("CUstream", stream))

        def after() -> None:
            if timed.prepared.call.result in (0, None):
                session.driver.cuEventRecord(timed.end, handles.live("CUstream", stream))

        return [step(item, before), item, step(item, after)]

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
            for timed in one.timed:
                # One that failed, as in the application, recorded no second event.
                if timed.prepared.call.result == 0 and timed.now_ns is None:
                    timed.now_ns = self._elapsed_ns(timed)
                if timed.now_ns is not None:
                    timed.times_ns[caches].append(timed.now_ns)
            clocks = self._clocks_of(one.timed, whole.effective_clock_mhz)
            for timed in one.timed:
                clock = clocks[timed.stretch]
                if timed.now_ns is not None and clock is not None and not self._reason(timed):
                    timed.cycles[caches].append(cycles_of(timed.now_ns, clock))

    def _elapsed_ns(self, timed: _Timed) -> int:
        elapsed_ms: float = self._session.driver.cuEventElapsedTime(timed.begin, timed.end)
        return round(elapsed_ms * 1e6)

    def _read_late(self, timed: Sequence[_Timed], context: int) -> None:
        """The window is about to end a context, and the events in it."""
        for one in timed:
            if one.late and one.lane.context == context and one.begin and one.prepared.call.result == 0:
                self._session.driver.cuEventSynchronize(one.end)
                one.now_ns = self._elapsed_ns(one)
                one.begin = 0

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
                found[timed.place] = timed.stretch
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
        program = self._session.program
        last = self._timed[-1].prepared.call.number if self._timed else -1
        calls = takewhile(lambda call: call.number <= last, chain(program.setup, program.window))
        kernels = {recorded.number: kernel.name for recorded, kernel in with_kernels(calls) if kernel.name}
        return [self._one(timed, kernels.get(timed.prepared.call.number, "")) for timed in self._timed]

    def _one(self, timed: _Timed, kernel: str) -> LaunchTime:
        stamped = bool(timed.cycles["cold"] or timed.cycles["hot"])
        was_timed = bool(timed.times_ns["cold"] or timed.times_ns["hot"])
        reason = ""
        if was_timed and not stamped:
            reason = self._reason(timed) or "the stamps of the clock contradict the events"
        return LaunchTime(
            call=timed.prepared.call.number,
            function=timed.prepared.call.function,
            kernel=kernel,
            stream=(launch_streams(timed.prepared) or [0])[0],
            cold_ns=_median(timed.times_ns["cold"]),
            hot_ns=_median(timed.times_ns["hot"]),
            application_ns=timed.prepared.call.gpu_ns,
            cold_time_ns=timed.times_ns["cold"],
            hot_time_ns=timed.times_ns["hot"],
            cold_cycles=_median(timed.cycles["cold"]),
            hot_cycles=_median(timed.cycles["hot"]),
            cycles_source=self._sampler.cycles_source if stamped else "",
            cycles_reason=reason,
        )


def _median(values: list[int]) -> float | None:
    return float(median(values)) if values else None
