"""One sample of the window, cold or hot: restore, flush, hold, run between two events, release. See `timing/METHOD.md`.

Holding the stream and flushing are not yet seen on a GPU (GT-STREAM-HOLD, GT-CACHE-FLUSH).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Literal

from replay.api.functions import by_symbol
from replay.api.vocabulary import LOADED_TYPES, Effect, Keep
from replay.engine.driver import DriverFailure
from replay.engine.execution.lanes import is_launch
from replay.engine.measuring.bracket import OF_NO_CALL, Bracket
from replay.engine.measuring.hold import LIMIT_S, Hold
from replay.engine.measuring.leftovers import Leftovers
from replay.engine.measuring.stamps import AFTER, BEFORE, ClockStamps, nominal_clock_mhz
from replay.engine.measuring.stamps import COMMANDS as STAMP_COMMANDS
from replay.engine.session import ATTRIBUTE_L2_BYTES, Session, Submittable
from replay.errors import EngineError
from replay.timing.clocks import SLOWEST_CLOCK, Clocks
from replay.timing.sampler import Sample
from replay.timing.stamps import cycles_of
from replay.timing.statistics import median

# Commands that may wait in a held stream. The launch queue of a stream takes 1,024; a launch that finds it full
# waits for the stream, which waits for us.
MAXIMUM_HELD_CALLS = 512
BATCH_NS = 1_000_000  # of hot runs between two events, which resolve about 0.5 us

POLL_S = 0.001

_NOT_READY = 600  # CUDA_ERROR_NOT_READY

# The driver may load code when it is first launched, and wait for the device to become idle then.
_WITH_CODE = LOADED_TYPES | {"CUcontext", "CUgreenCtx"}  # C types


class WindowSampler:
    """Measures a session's window. Implements `timing.sampler.Measurable`.

    Which of events, hold and flush can be used is decided once; the reasons against are in `*_reason`, empty when
    used.
    """

    def __init__(self, session: Session, clocks: Clocks, *, emulated: bool) -> None:
        self._session = session
        self._driver = session.driver
        self._clocks = clocks
        self.modelled = emulated  # the times are those of a cost model
        self._hold: Hold | None = None
        self._hold_next = self._is_held = False
        self._stamps: ClockStamps | None = None
        session.restore()
        session.synchronize()
        session.use_main_context()
        self.bracket = Bracket(session, self._before_start, self._after_end)
        self.event_reason = self.bracket.reason
        if not self.event_reason and not self.bracket.plain:
            self.event_reason = self.bracket.reason = self._try_events()
        self._window = None if self.event_reason else self.bracket.around()
        self._nominal_mhz = nominal_clock_mhz(self._driver, session.device)
        self.cycles_reason = self._prepare_stamps(emulated)
        self.cycles_source: Literal["stamped", "modelled", ""] = ""
        if not self.cycles_reason:
            self.cycles_source = "modelled" if self._stamps is None else "stamped"
        self._flush: list[tuple[int, int, int]] = []  # captured context, address, bytes
        self.flush_reason = self._prepare_flush(emulated)
        self._restore_ns: list[int] = []
        self._leftovers = self._prepare_leftovers(emulated)
        self.hold_reason = self._why_no_hold(emulated)
        if not self.hold_reason:
            self.hold_reason = self._prepare_hold()
        self.throttled: dict[str, None] = {}  # reasons why the device was slowed down, after any sample

    def sample(self) -> Sample:
        """Restore, flush and run the window once. Raises EngineError when a call fails."""
        self.make_ready()
        return self.run()

    @property
    def restore_ns(self) -> float | None:
        """Median host time of bringing back what the window starts from, until it is there; None: it never was."""
        return median(self._restore_ns) if self._restore_ns else None

    def make_ready(self, *, flush: bool = True) -> None:
        """Bring back what the window starts from, with cold caches if `flush`. The devices are idle afterwards."""
        begin_ns = time.perf_counter_ns()
        self._session.restore()
        self._session.synchronize()
        self._restore_ns.append(time.perf_counter_ns() - begin_ns)
        self._session.disturb()
        if self._leftovers is not None:
            self._leftovers.clear()
            self._session.synchronize()
        if flush and self._flush:
            for context, address, size in self._flush:
                self._session.translation.contexts.be_in(context)
                self._driver.cuMemsetD8Async(address, 0, size, 0)
            self._session.use_main_context()
            self._session.synchronize()

    def run(
        self, times: int = 1, *, window: Sequence[Submittable] | None = None, hold: bool | None = None
    ) -> Sample:
        """Run the window so many times, one right after the other; times are those of one.

        window: calls to run in its place, from `bracket.around`. hold: whether to hold the stream; None: where it is
        possible.
        """
        session = self._session
        if self._stamps is not None:
            self._stamps.begin()
        if not self.event_reason:
            self.bracket.prepare(times)
        self._hold_next = self._hold is not None and hold is not False
        begin_ns = time.perf_counter_ns()
        try:
            for _ in range(times):
                session.run_window(self._window if window is None else window)
        finally:
            self._hold_next = False
            self._release()
        session.use_main_context()
        session.synchronize()
        if self._hold is not None and self._hold.has_expired:
            self._hold = None
            self.hold_reason = f"queueing the window after it took longer than {LIMIT_S:g} s"
            self.make_ready()
            return self.run(times, window=window, hold=False)
        host_ns = round((time.perf_counter_ns() - begin_ns) / times)
        gpu_ns = None if self.event_reason else round(self.bracket.elapsed_ns() / times)
        clock = self._clocks.sm_mhz()
        exact_mhz = self._clock_of(gpu_ns, times)
        slowed = tuple(self._clocks.throttle_reasons())
        self.throttled.update(dict.fromkeys(slowed))
        default = self._clocks.default_mhz or (None if self._stamps is None else self._nominal_mhz)
        seen = clock if exact_mhz is None else exact_mhz
        slow = seen is not None and default is not None and seen < SLOWEST_CLOCK * default
        cycles = None if exact_mhz is None or gpu_ns is None else cycles_of(gpu_ns, exact_mhz)
        power_mw = self._clocks.power_mw()
        return Sample(gpu_ns, host_ns, clock, slow, times, cycles, exact_mhz, power_mw, slowed)

    def stamp(self, number: int, stream: int) -> None:
        """Queue a stamp of the clock between two launches, in a live stream of the context of the first work."""
        if self._stamps is not None:
            self._stamps.stamp(number, stream)

    def clock_between(self, first: int, last: int, time_ns: int) -> float | None:
        """The SM clock between two stamps of the last run, which `time_ns` of work lie between."""
        if self.cycles_reason:
            return None
        return self._nominal_mhz if self._stamps is None else self._stamps.clock_mhz(time_ns, first, last)

    def _before_start(self, stream: int) -> None:
        if self._hold is not None and self._hold_next:
            self._is_held = True
            self._hold.close(stream)
        self.stamp(BEFORE, stream)

    def _after_end(self, stream: int) -> None:
        self.stamp(AFTER, stream)
        self._release()

    def _release(self) -> None:
        """Let go of the streams that are held: all work is queued, or something failed."""
        if self._hold is not None and self._is_held:
            self._hold.open()
        self._is_held = False

    def _clock_of(self, gpu_ns: int | None, times: int) -> float | None:
        """The SM clock around the window that just ran; on the CPU driver that of its model. None: not known."""
        return None if gpu_ns is None else self.clock_between(BEFORE, AFTER, gpu_ns * times)

    def finishes(self, limit_s: float) -> bool:
        """Whether everything in the window's streams ends within `limit_s`. Raises EngineError when a call fails."""
        end = self.bracket.record_end()
        deadline_s = time.monotonic() + limit_s
        while (code := self._driver.cuEventQuery.code(end)) == _NOT_READY:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        self._driver.cuEventQuery.check(code)
        return True

    @property
    def launches(self) -> int:
        """How many launches one run of the window makes; a graph is one."""
        return sum(count for item, _, _, count in self._session.window.kinds() if is_launch(item))

    @property
    def commands(self) -> int:
        """How many commands one run of the window queues, at most."""
        return sum(item.commands * count for item, _, _, count in self._session.window.kinds())

    @property
    def interruptions(self) -> int:
        """Calls from the first work to the last at which a replay puts memory there: where it appears, and where the
        application's host code wrote it."""
        program = self._session.program
        places = {*program.births, *program.changes, *program.seen}
        return sum(item.call.number in places for item, *_ in self.bracket.between())

    @property
    def waits_outside(self) -> str:
        """The call before the first work or after the last that may wait for the device; "" where there is none."""
        outside = (item for item, *_ in self.bracket.outside())
        return next((item.call.function for item in outside if may_wait(item.call.function)), "")

    def _try_events(self) -> str:
        """Run the window once between its events. Returns the reason why they cannot be used."""
        window = self.bracket.around()
        self.bracket.prepare(1)
        try:
            self._session.run_window(window)
            self._session.use_main_context()
            self._session.synchronize()
            self.bracket.elapsed_ns()
        except DriverFailure as failure:
            if failure.where is not None and failure.where != OF_NO_CALL:
                raise
            return f"no pair of events can be put around the window: {failure.what}"
        finally:
            self._session.restore()
            self._session.synchronize()
        return ""

    def _prepare_stamps(self, emulated: bool) -> str:
        """Reason why there are no cycles; "" when there are."""
        if self.event_reason:
            return "no GPU time"
        if emulated:
            return "" if self._nominal_mhz else "the CPU driver does not say the clock of its model"
        if self.bracket.makes(self.bracket.main.context):
            return "the window makes its own context, in which no kernel can be ready to stamp the clock"
        if len({self._device_of(context) for context in self._permanent_contexts()}) > 1:
            return "the window works on several devices, each with a clock of its own"
        stamps = ClockStamps(
            self._driver,
            self._session.device,
            lambda: self._session.translation.contexts.be_in(self.bracket.main.context),
            self._session.synchronize,
        )
        if not stamps.reason:
            self._stamps = stamps
        self._session.use_main_context()
        return stamps.reason

    def _permanent_contexts(self) -> list[int]:
        """Captured contexts of the window that are there before it."""
        return [one for one in self.bracket.contexts if not self.bracket.makes(one)]

    def _device_of(self, context: int) -> int:
        self._session.translation.contexts.be_in(context)
        return int(self._driver.cuCtxGetDevice())

    def _prepare_hold(self) -> str:
        """Allocate the flag and try a wait that is already fulfilled. Returns the reason why it cannot be used."""
        try:
            self._session.translation.contexts.be_in(self.bracket.main.context)
            hold = Hold(self._driver)
            hold.wait(0)
            self._driver.cuStreamSynchronize(0)
            self._session.use_main_context()
        except (DriverFailure, EngineError) as error:
            return f"the driver cannot hold a stream ({error.what})"
        self._hold = hold
        return ""

    def _prepare_leftovers(self, emulated: bool) -> Leftovers | None:
        """None where a run leaves none: the kernels are the captured ones, and the CPU driver keeps nothing."""
        if emulated or not self._session.program.varied:
            return None
        self._session.use_main_context()
        return Leftovers(self._driver, self._session.device)

    def _prepare_flush(self, emulated: bool) -> str:
        """A buffer on each device that the window works on. Returns the reason why caches are not flushed."""
        if emulated:
            return "the cost model of the CPU driver has no cache"
        devices: set[int] = set()
        contexts = ([] if self.event_reason else self._permanent_contexts()) or [self._session.main_context]
        for context in contexts:
            if context and self._session.translation.handles.find("CUcontext", context) is None:
                context = 0
            device = self._device_of(context)
            size = 2 * self._driver.cuDeviceGetAttribute(ATTRIBUTE_L2_BYTES, device)
            if device in devices or size <= 0:
                continue
            devices.add(device)
            try:
                self._flush.append((context, self._driver.cuMemAlloc_v2(size), size))
            except EngineError as error:
                self._flush.clear()
                self._session.use_main_context()
                return f"no memory for it ({error.what})"
        self._session.use_main_context()
        return "" if self._flush else "the device has no L2 cache"

    def _why_no_hold(self, emulated: bool) -> str:
        """Reason not to hold; "" when the stream can be held."""
        if self.event_reason:
            return "no events, so there is nothing to shield"
        if emulated:
            return "the modelled clock does not run while the host works"
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            return "CUDA_LAUNCH_BLOCKING is set: each launch waits for the device"
        # The other streams wait for the start event, which waits for the hold: all of them are held.
        stamps = 0 if self._stamps is None else STAMP_COMMANDS
        if self.commands + 2 * len(self.bracket.lanes) + stamps > MAXIMUM_HELD_CALLS:
            return f"the window queues more than {MAXIMUM_HELD_CALLS} calls"
        loading = next(
            (
                i
                for i, *_ in self._session.window.kinds()
                if by_symbol()[i.call.function].creates in _WITH_CODE
            ),
            None,
        )
        if loading is not None:
            return f"{loading.call.function} inside the window brings code that its first launch may have to wait for"
        waiting = next((item for item, *_ in self.bracket.between() if may_wait(item.call.function)), None)
        if waiting is not None:
            return f"{waiting.call.function} inside the window waits for the device"
        if self.interruptions:
            return "memory is put there inside the window, while the device is idle"
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
        # A run that follows another one would wait, in the calls around its work, for a stream that is still held.
        alone = single or bool(restore_each) or (not sampler.hold_reason and bool(sampler.waits_outside))
        self.batch = 1 if alone else _batch(run_ns, sampler.commands)

    def sample(self) -> Sample:
        """One batch. Raises EngineError when a call fails."""
        if self.restore_each:
            self._sampler.make_ready(flush=False)
        return self._sampler.run(self.batch)


def _batch(run_ns: float, commands: int) -> int:
    """How many runs take BATCH_NS, as far as they can be queued into a held stream."""
    wanted = math.ceil(BATCH_NS / max(run_ns, 1.0))
    return max(1, min(wanted, MAXIMUM_HELD_CALLS // max(commands, 1)))


def may_wait(symbol: str) -> bool:
    """Whether a call may not return before the work in front of it is done, so that holding would deadlock."""
    function = by_symbol()[symbol]
    if function.keep == Keep.ALWAYS:
        return True  # creating and destroying objects may synchronise
    return not (function.queues or function.effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH))
