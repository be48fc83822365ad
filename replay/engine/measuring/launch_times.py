"""The GPU time of each launch of a window: two events around it, in passes over the window of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from replay.api.functions import by_symbol
from replay.engine.driver import DriverFailure, call, passed_value, query
from replay.engine.execution.inputs import Prepared
from replay.engine.execution.submission import Batch
from replay.engine.measuring.measure import MAXIMUM_HELD_CALLS, WindowSampler
from replay.engine.session import Session, is_launch, launch_streams
from replay.inspection.launches import with_kernels
from replay.results.schema import LaunchTime
from replay.snapshot.schema import Call

# Launches of a window that are timed one by one; each takes two events
MAXIMUM_TIMED_LAUNCHES = 16_384

SMALLEST_PASS = 16  # launches; with fewer at a time a window is run too often

_NO_NUMBER = -1  # of a call that the application did not make
_OF_EVENTS = ("cuEventRecord", "cuEventElapsedTime")

Caches = Literal["cold", "hot"]


@dataclass
class _Timed:
    prepared: Prepared
    stream: int
    begin: int
    end: int
    times_ns: dict[Caches, list[int]] = field(default_factory=lambda: {"cold": [], "hot": []})


@dataclass
class _Pass:
    """The window with events around some of its launches."""

    window: Sequence[Prepared | Batch]
    timed: list[_Timed]


class LaunchTimer:
    """Runs a session's window with events around its launches, so many at a time as fit behind a held stream.

    notes: launches that are not timed, or not as well as others, and why.
    """

    def __init__(self, session: Session, sampler: WindowSampler) -> None:
        self._session = session
        self._sampler = sampler
        self.notes: list[str] = []
        self._timed = self._with_events()
        room = (MAXIMUM_HELD_CALLS - sampler.commands) // 2
        self._hold = not sampler.hold_reason and (room >= SMALLEST_PASS or room >= len(self._timed))
        if not self._hold and not sampler.hold_reason and self._timed:
            self.notes.append(
                "times of single launches include gaps in which the device waits for the host: the window has too many "
                "calls to hold its stream while they are queued"
            )
        size = room if self._hold else len(self._timed)
        self._passes = [
            self._pass(self._timed[start : start + size])
            for start in range(0, len(self._timed), max(size, 1))
        ]

    def _with_events(self) -> list[_Timed]:
        session = self._session
        handles = session.executor.handles
        timed: list[_Timed] = []
        without_context = unlisted = 0
        for item in session.window:
            if not is_launch(item):
                continue
            if len(timed) >= MAXIMUM_TIMED_LAUNCHES:
                unlisted += 1
            elif item.context and handles.find("CUcontext", item.context) is None:
                without_context += 1
            else:
                session.executor.be_in(item.context)
                events = [query(session.driver, "cuEventCreate", 0) for _ in range(2)]
                streams = launch_streams(item)
                timed.append(_Timed(item, streams[0] if streams else 0, events[0], events[1]))
        session.use_main_context()
        if unlisted:
            self.notes.append(
                f"the first {MAXIMUM_TIMED_LAUNCHES:,} launches were timed one by one, {unlisted:,} were not"
            )
        if without_context:
            self.notes.append(
                f"{without_context:,} launches were not timed one by one: the window makes their context itself"
            )
        return timed

    def _pass(self, timed: list[_Timed]) -> _Pass:
        around = {id(item.prepared): item for item in timed}
        window: list[Prepared] = []
        for item in self._session.window:
            chosen = around.get(id(item))
            window += [item] if chosen is None else self._between_events(chosen)
        return _Pass(self._session.submittable(window), timed)

    def _between_events(self, timed: _Timed) -> list[Prepared]:
        """The launch between calls that record its events; a stream that the window makes is looked up each time."""
        session, item = self._session, timed.prepared
        executor = session.executor
        record = session.driver.function("cuEventRecord", item.call.per_thread)
        if executor.is_permanent("CUstream", timed.stream):
            live = executor.handles.live("CUstream", timed.stream)
            row = Call(_NO_NUMBER, "cuEventRecord", "window", item.call.thread, [], 0)
            parameters = by_symbol()[row.function].parameters
            around = [
                Prepared(row, item.context, record, list(map(passed_value, parameters, (event, live))))
                for event in (timed.begin, timed.end)
            ]
            return [around[0], item, around[1]]

        def before() -> None:
            record(timed.begin, executor.handles.live("CUstream", timed.stream))

        def after() -> None:
            record(timed.end, executor.handles.live("CUstream", timed.stream))

        return [replace(item, first=[*item.first, before], then=[after, *item.then])]

    def run_once(self, caches: Caches, make_ready: Callable[[], None]) -> None:
        """Time every launch once. make_ready: called before each run of the window. Raises EngineError when a call of
        the window fails. An event that cannot be used (the window makes its contexts anew) ends it, with a note."""
        try:
            self._run_once(caches, make_ready)
        except DriverFailure as failure:
            if failure.function not in _OF_EVENTS or failure.where not in (
                None,
                f"call {_NO_NUMBER} of the window",
            ):
                raise
            self.notes.append(
                f"launches were not timed one by one: {failure.function} returned {failure.name}; the window may make "
                "or destroy the contexts that it launches in"
            )
            self._passes.clear()
            for timed in self._timed:
                timed.times_ns["cold"].clear()
                timed.times_ns["hot"].clear()

    def _run_once(self, caches: Caches, make_ready: Callable[[], None]) -> None:
        elapsed_ms = ctypes.c_float(0)
        for one in self._passes:
            make_ready()
            self._sampler.run(window=one.window, hold=self._hold)
            for timed in one.timed:
                if timed.prepared.call.result != 0:
                    continue  # it failed, as in the application, so its second event was not recorded
                call(
                    self._session.driver,
                    "cuEventElapsedTime",
                    ctypes.addressof(elapsed_ms),
                    timed.begin,
                    timed.end,
                )
                timed.times_ns[caches].append(round(elapsed_ms.value * 1e6))

    @property
    def launches(self) -> int:
        """How many are timed."""
        return len(self._timed)

    def add(self, caches: Caches, times_ns: Sequence[int]) -> None:
        """Times of each launch that were measured elsewhere."""
        for timed in self._timed:
            timed.times_ns[caches].extend(times_ns)

    def result(self) -> list[LaunchTime]:
        """The launches in the order of the window."""
        program = self._session.program
        kernels = {
            recorded.number: kernel.name
            for recorded, kernel in with_kernels([*program.setup, *program.window])
            if kernel.name
        }
        return [
            LaunchTime(
                call=timed.prepared.call.number,
                function=timed.prepared.call.function,
                kernel=kernels.get(timed.prepared.call.number, ""),
                stream=timed.stream,
                cold_ns=_median(timed.times_ns["cold"]),
                hot_ns=_median(timed.times_ns["hot"]),
                application_ns=timed.prepared.call.gpu_ns,
                cold_time_ns=timed.times_ns["cold"],
                hot_time_ns=timed.times_ns["hot"],
            )
            for timed in self._timed
        ]


def _median(times_ns: list[int]) -> float | None:
    return float(median(times_ns)) if times_ns else None
