"""One sample of the window, cold or hot: restore, flush, hold, run between two events, release. See `timing/METHOD.md`.

Holding the stream and flushing are not yet seen on a GPU.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from statistics import median
from typing import Literal

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, Keep
from replay.engine.driver import DriverFailure, call, query, query_int
from replay.engine.execution.inputs import Prepared
from replay.engine.execution.submission import Batch
from replay.engine.measuring.hold import LIMIT_S, Hold
from replay.engine.measuring.stamps import COMMANDS as STAMP_COMMANDS
from replay.engine.measuring.stamps import ClockStamps, nominal_clock_mhz
from replay.engine.session import ATTRIBUTE_L2_BYTES, Session, is_launch, launch_streams
from replay.errors import EngineError
from replay.timing.clocks import SLOWEST_CLOCK, Clocks
from replay.timing.sampler import Sample
from replay.timing.stamps import cycles_of

# Commands that may wait behind a held stream. The launch queue of a stream takes 1,024; a launch that finds it full
# waits for the stream, which waits for us.
MAXIMUM_HELD_CALLS = 512
BATCH_NS = 1_000_000  # of hot runs between two events, which resolve about 0.5 us

POLL_S = 0.001

_NOT_READY = 600  # CUDA_ERROR_NOT_READY
_EVENT_DEFAULT, _EVENT_DISABLE_TIMING = 0, 2


class WindowSampler:
    """Measures a session's window. Implements `timing.sampler.Measurable`.

    Which of events, hold and flush can be used is decided once; the reasons against stand in `*_reason`, empty when
    used.
    """

    def __init__(self, session: Session, clocks: Clocks, *, emulated: bool) -> None:
        self._session = session
        self._driver = session.driver
        self._clocks = clocks
        self._streams = _streams_of(session)
        self._main = self._streams[0]
        session.restore()
        session.synchronize()
        self.event_reason = self._why_no_events()
        self._events: list[int] = []
        if not self.event_reason:
            session.use_main_context()
            self._start, self._end = (query(self._driver, "cuEventCreate", _EVENT_DEFAULT) for _ in range(2))
            self._joins = [query(self._driver, "cuEventCreate", _EVENT_DISABLE_TIMING) for _ in self._streams]
        self._nominal_mhz = nominal_clock_mhz(self._driver, session.device)
        self._stamps: ClockStamps | None = None
        self.cycles_reason = self._prepare_stamps(emulated)
        self.cycles_source: Literal["stamped", "modelled", ""] = ""
        if not self.cycles_reason:
            self.cycles_source = "modelled" if self._stamps is None else "stamped"
        self.flush_reason, self._flush_address, self._flush_bytes = self._prepare_flush(emulated)
        self._restore_ns: list[int] = []
        self._hold: Hold | None = None
        self.hold_reason = self._why_no_hold(emulated)
        if not self.hold_reason:
            self.hold_reason = self._prepare_hold()
        self._elapsed = ctypes.c_float(0)
        self.throttled: dict[str, None] = {}  # reasons why the device was slowed down, behind any sample

    def sample(self) -> Sample:
        """Restore, flush and run the window once. Raises EngineError when a call fails."""
        self.make_ready()
        return self.run()

    @property
    def restore_ns(self) -> float | None:
        """Median host time of bringing back what the window starts from, until it is there; None: it never was."""
        return median(self._restore_ns) if self._restore_ns else None

    def make_ready(self, *, flush: bool = True) -> None:
        """Bring back what the window starts from, with cold caches if `flush`. The device is idle afterwards."""
        begin_ns = time.perf_counter_ns()
        self._session.restore()
        self._session.synchronize()
        self._restore_ns.append(time.perf_counter_ns() - begin_ns)
        if flush and self._flush_bytes:
            call(self._driver, "cuMemsetD8Async", self._flush_address, 0, self._flush_bytes, 0)
            self._session.synchronize()

    def run(
        self, times: int = 1, *, window: Sequence[Prepared | Batch] | None = None, hold: bool | None = None
    ) -> Sample:
        """Run the window so many times, one right behind the other; times are those of one.

        window: calls to run in its place. hold: whether to hold the stream; None: where it is possible.
        """
        session = self._session
        held = False
        if self._stamps is not None:
            self._stamps.begin(self._live(self._main))
        begin_ns = time.perf_counter_ns()
        try:
            if self._hold is not None and hold is not False:
                held = True
                self._hold.close(self._live(self._main))
            if not self.event_reason:
                self._open()
            for _ in range(times):
                session.run_window(window)
            if not self.event_reason:
                session.use_main_context()
                self._close()
                if self._stamps is not None:
                    self._stamps.behind(self._live(self._main))
        finally:
            if held and self._hold is not None:
                self._hold.open()
        session.use_main_context()
        session.synchronize()
        if held and self._hold is not None and self._hold.has_expired:
            self._hold = None
            self.hold_reason = f"queueing the window behind it took longer than {LIMIT_S:g} s"
            self.make_ready()
            return self.run(times, window=window, hold=False)
        host_ns = round((time.perf_counter_ns() - begin_ns) / times)
        gpu_ns = None
        if not self.event_reason:
            call(self._driver, "cuEventElapsedTime", ctypes.addressof(self._elapsed), self._start, self._end)
            gpu_ns = round(self._elapsed.value * 1e6 / times)
        clock = self._clocks.sm_mhz()
        exact_mhz = self._clock_of(gpu_ns, times)
        self.throttled.update(dict.fromkeys(self._clocks.throttle_reasons()))
        default = self._clocks.default_mhz or (None if self._stamps is None else self._nominal_mhz)
        seen = clock if exact_mhz is None else exact_mhz
        slow = seen is not None and default is not None and seen < SLOWEST_CLOCK * default
        cycles = None if exact_mhz is None or gpu_ns is None else cycles_of(gpu_ns, exact_mhz)
        return Sample(gpu_ns, host_ns, clock, slow, times, cycles, exact_mhz)

    def _clock_of(self, gpu_ns: int | None, times: int) -> float | None:
        """The SM clock around the window that just ran; on the CPU driver that of its model. None: not known."""
        if gpu_ns is None or self.cycles_reason:
            return None
        return self._nominal_mhz if self._stamps is None else self._stamps.clock_mhz(gpu_ns * times)

    def finishes(self, limit_s: float) -> bool:
        """Whether everything in the window's streams ends within `limit_s`. Raises EngineError when a call fails."""
        self._session.use_main_context()
        self._close()
        deadline_s = time.monotonic() + limit_s
        while (code := self._driver.function("cuEventQuery")(self._end)) == _NOT_READY:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        if code:
            raise DriverFailure("cuEventQuery", code, self._driver.error_name(code))
        return True

    @property
    def commands(self) -> int:
        """How many commands one run of the window queues, at most."""
        return sum(item.commands for item in self._session.window)

    def _prepare_stamps(self, emulated: bool) -> str:
        """Reason why there are no cycles; "" when there are."""
        if self.event_reason:
            return "no GPU time"
        if emulated:
            return "" if self._nominal_mhz else "the CPU driver does not say the clock of its model"
        self._session.use_main_context()
        stamps = ClockStamps(
            self._driver, self._session.device, self._live(self._main), self._session.synchronize
        )
        if not stamps.reason:
            self._stamps = stamps
        return stamps.reason

    def _prepare_hold(self) -> str:
        """Allocate the flag and try a wait that is already fulfilled. Returns the reason why it cannot be used."""
        try:
            hold = Hold(self._driver)
            hold.wait(self._live(self._main))
            self._session.synchronize()
        except (DriverFailure, EngineError) as error:
            return f"the driver cannot hold a stream ({error.what})"
        self._hold = hold
        return ""

    def _live(self, stream: int) -> int:
        return self._session.executor.handles.live("CUstream", stream)

    def _open(self) -> None:
        """Start event on the main stream; the window's other streams wait for it."""
        record, wait = self._driver.function("cuEventRecord"), self._driver.function("cuStreamWaitEvent")
        if self._stamps is not None:
            self._stamps.before(self._live(self._main))
        record(self._start, self._live(self._main))
        for stream in self._streams[1:]:
            wait(self._live(stream), self._start, 0)

    def _close(self) -> None:
        """End event on the main stream, after all of the window's streams."""
        record, wait = self._driver.function("cuEventRecord"), self._driver.function("cuStreamWaitEvent")
        main = self._live(self._main)
        for stream, join in zip(self._streams[1:], self._joins[1:], strict=True):
            record(join, self._live(stream))
            wait(main, join, 0)
        record(self._end, main)

    def _why_no_events(self) -> str:
        session = self._session
        if not any(is_launch(item) or _copies(item) for item in session.window):
            return "the window starts no work on the device"
        handles = session.executor.handles
        if session.main_context and handles.find("CUcontext", session.main_context) is None:
            return "the window creates its own context, so no event can be recorded before it"
        if any(handles.find("CUstream", stream) is None for stream in self._streams):
            return "the window creates its own streams, so no event can be recorded on them before it"
        if len({item.context for item in session.window if is_launch(item)}) > 1:
            return "the window launches in several contexts, which one pair of events cannot bracket"
        return ""

    def _prepare_flush(self, emulated: bool) -> tuple[str, int, int]:
        if emulated:
            return "the cost model of the CPU driver has no cache", 0, 0
        size = 2 * query_int(self._driver, "cuDeviceGetAttribute", ATTRIBUTE_L2_BYTES, self._session.device)
        if size <= 0:
            return "the device has no L2 cache", 0, 0
        try:
            return "", query(self._driver, "cuMemAlloc_v2", size), size
        except EngineError as error:
            return f"no memory for it ({error.what})", 0, 0

    def _why_no_hold(self, emulated: bool) -> str:
        """Reason not to hold; "" when the stream can be held."""
        if self.event_reason:
            return "no events, so there is nothing to shield"
        if emulated:
            return "the modelled clock does not run while the host works"
        window = self._session.window
        # The other streams wait for the start event, which is behind the hold: all of them are held.
        stamps = 0 if self._stamps is None else STAMP_COMMANDS
        if self.commands + 2 * len(self._streams) + stamps > MAXIMUM_HELD_CALLS:
            return f"the window queues more than {MAXIMUM_HELD_CALLS} calls"
        waiting = next((item for item in window if may_wait(item.call.function)), None)
        if waiting is not None:
            return f"{waiting.call.function} inside the window waits for the device"
        return ""


class HotSampler:
    """Measures the window with the caches as its last run left them. Implements `timing.sampler.Measurable`.

    batch: runs between one pair of events, without a restore. restore_each: why it is restored before each run, which
    nothing flushes afterwards; "" where it need not be.
    """

    def __init__(self, sampler: WindowSampler, *, restore_each: str, run_ns: float, single: bool) -> None:
        """run_ns: what one run takes on the device, about. single: no batches, as for a clock without a resolution."""
        self._sampler = sampler
        self.restore_each = restore_each
        self.batch = 1 if restore_each or single else _batch(run_ns, sampler.commands)

    def sample(self) -> Sample:
        """One batch. Raises EngineError when a call fails."""
        if self.restore_each:
            self._sampler.make_ready(flush=False)
        return self._sampler.run(self.batch)


def _batch(run_ns: float, commands: int) -> int:
    """How many runs take BATCH_NS, as far as they can be queued behind a held stream."""
    wanted = math.ceil(BATCH_NS / max(run_ns, 1.0))
    return max(1, min(wanted, MAXIMUM_HELD_CALLS // max(commands, 1)))


def _streams_of(session: Session) -> list[int]:
    """Captured streams that the window uses, that of the first launch first; the default stream if there is none."""
    streams = {session.main_stream: None}
    for item in session.window:
        for stream in launch_streams(item):
            streams[stream] = None
    return list(streams)


def _copies(item: Prepared) -> bool:
    return item.call.function.startswith(("cuMemcpy", "cuMemset"))


def may_wait(symbol: str) -> bool:
    """Whether a call may not return before the work in front of it is done, so that holding would deadlock."""
    function = by_symbol()[symbol]
    if function.keep == Keep.ALWAYS:
        return True  # creating and destroying objects may synchronise
    launches = function.effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
    queues = launches or symbol in ("cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent")
    device_only = symbol.startswith(("cuMemsetD", "cuMemcpyDtoDAsync")) and "Async" in symbol
    return not (queues or device_only)
