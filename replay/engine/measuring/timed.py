"""Everything that `replay run` times in one session: the window with cold and with hot caches, and each launch in it.

The order matters: that memory is restored as it should be is known before anything is timed, and the one step that may
never end, running the window from what it left, comes last.
"""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any

from replay.engine.challenge.challenges import Challenges
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.restoring import StillRunning, check_restore, same_outputs_again
from replay.engine.checking.verified import Verified
from replay.engine.measuring.launch_times import Caches, LaunchTimer
from replay.engine.measuring.measure import HotSampler, WindowSampler
from replay.engine.measuring.serialize import compare_orders, serial, why_not_serial
from replay.engine.messages import Messages
from replay.engine.session import Session
from replay.records import dataclass
from replay.results.run.timing import LaunchTime, Restore, Serialized, Timing
from replay.text import number
from replay.timing.clocks import Clocks
from replay.timing.sampler import Measurable, Measurement, Sample, measure
from replay.timing.statistics import median, summarize
from replay.timing.stopping import StoppingParameters
from replay.timing.warnings import DeviceConditions, warnings

SERIAL_SAMPLES = 30
# How long a window that is started again without a restore may take before it counts as not ending
AGAIN_LIMIT_S, AGAIN_LIMIT_RUNS = 2.0, 20


@dataclass
class Timed:
    """What was timed; None where it was not asked for. notes: what could not be."""

    restore: Restore | None = None
    serialized: Serialized | None = None
    cold: Timing | None = None
    hot: Timing | None = None
    launches: list[LaunchTime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    is_alive: bool = True  # False: the device is at work on something that does not end

    @property
    def can_go_on(self) -> bool:
        """Whether the window can be replayed again."""
        return self.is_alive and self.restore is not None and self.restore.verdict == "right"


def time_session(
    session: Session,
    comparing: Comparing,
    verified: Verified,
    clocks: Clocks,
    request: dict[str, Any],
    messages: Messages,
    challenges: Challenges,
) -> Timed:
    """Check that the window can be run again from equal memory, then time it as `request` asks.

    A restore that is wrong is in the result, and nothing is timed. Raises EngineError when a call fails.
    """
    timed = Timed()
    parameters = StoppingParameters(**request["timing"])
    caches, emulated = request.get("caches", "both"), request["emulated"]
    messages.stage("checking that memory is restored")
    timed.restore = check_restore(session, comparing, verified)
    if timed.restore.verdict == "wrong":
        timed.notes.append("not timed: what the window starts from cannot be brought back")
        return timed
    sampler = WindowSampler(session, clocks, emulated=emulated)

    def take(window: Measurable, hot: HotSampler | None) -> Timing:
        sampler.throttled.clear()
        messages.stage(f"timing the window with {'cold' if hot is None else 'hot'} caches")
        measurement = measure(
            challenges.watch(window, verified),
            parameters,
            modelled=emulated,
            now_ns=time.perf_counter_ns,
            sleep_s=time.sleep,
            progress=lambda count: messages.progress(number(count, "sample")),
        )
        return _timing(
            measurement, sampler, clocks, parameters, session.contents.copies.copied_bytes, emulated, hot
        )

    if caches != "hot":
        timed.cold = take(sampler, None)
    launches = _Launches(timed, session, sampler, messages)
    if timed.cold is not None:
        launches.take("cold", _passes(timed.cold, parameters, emulated))
    if request.get("serialize"):
        messages.stage("running the streams of the window one after another")
        timed.serialized = _time_serial(session, comparing, sampler, parameters, emulated)
    if caches != "cold":
        messages.stage("timing the window with hot caches")
        try:
            hot = _hot_sampler(timed.cold, session, sampler, emulated, challenges)
        except StillRunning:
            timed.is_alive = False
            timed.notes.append(
                "not timed with hot caches: started again without a restore, the window did not end, since it waits "
                "for something that only a restore sets back; --cold leaves this out"
            )
        else:
            timed.hot = take(hot, hot)
            launches.take("hot", _passes(timed.hot, parameters, emulated), restore=bool(hot.restore_each))
    timed.launches = launches.result()
    return timed


def _hot_sampler(
    cold: Timing | None, session: Session, sampler: WindowSampler, emulated: bool, challenges: Challenges
) -> HotSampler:
    """Raises StillRunning, and EngineError when a call fails."""
    if emulated:
        # Its model knows of no caches, and a kernel that does not end would take this process with it.
        return HotSampler(sampler, restore_each="the times are modelled", run_ns=0, single=True)
    if cold is not None:
        run_ns = cold.summary.median_ns
    else:
        first = sampler.sample()
        run_ns = float(first.host_ns if first.gpu_ns is None else first.gpu_ns)
    if sampler.event_reason:
        return HotSampler(sampler, restore_each=sampler.event_reason, run_ns=run_ns, single=True)
    if challenges.there:
        reason = "the variant is untrusted: outputs are filled with other bytes before each run"
        return HotSampler(sampler, restore_each=reason, run_ns=run_ns, single=True)
    limit_s = max(AGAIN_LIMIT_S, AGAIN_LIMIT_RUNS * run_ns / 1e9)
    reason = same_outputs_again(session, lambda: sampler.finishes(limit_s))
    hot = HotSampler(sampler, restore_each=reason, run_ns=run_ns, single=False)
    sampler.make_ready(flush=False)
    return hot


def _slowed(measurement: Measurement) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, sample in enumerate(measurement.samples):
        for reason in sample.slowed:
            found.setdefault(reason, []).append(place)
    return found


def _timing(
    measurement: Measurement,
    sampler: WindowSampler,
    clocks: Clocks,
    parameters: StoppingParameters,
    restored_bytes: int,
    emulated: bool,
    hot: HotSampler | None,
) -> Timing:
    gpu_times = [sample.gpu_ns for sample in measurement.samples if sample.gpu_ns is not None]
    host_times = [sample.host_ns for sample in measurement.samples]
    device = DeviceConditions(list(sampler.throttled), clocks.state())
    restored = hot is None or bool(hot.restore_each)
    return Timing(
        mode="cold" if hot is None else "hot",
        source="modelled" if emulated else "measured",
        gpu_time_ns=gpu_times,
        host_time_ns=host_times,
        gpu=summarize(gpu_times) if gpu_times else None,
        host=summarize(host_times),
        sm_clock_mhz=[s.sm_clock_mhz for s in measurement.samples if s.sm_clock_mhz is not None],
        power_mw=[s.power_mw for s in measurement.samples if s.power_mw is not None],
        slowed=_slowed(measurement),
        first_gpu_ns=measurement.first.gpu_ns if measurement.first else None,
        first_host_ns=measurement.first.host_ns if measurement.first else None,
        discarded=measurement.discarded,
        stop_code=measurement.stop.code if measurement.stop else "",
        stop_text=measurement.stop.text if measurement.stop else "",
        gpu_time_reason=sampler.event_reason,
        held=not sampler.hold_reason,
        held_reason=sampler.hold_reason,
        flushed=hot is None and not sampler.flush_reason,
        flushed_reason="the caches are to be hot" if hot is not None else sampler.flush_reason,
        restored_bytes=restored_bytes if restored else 0,
        warnings=warnings(
            measurement,
            parameters,
            device,
            modelled=emulated,
            batch=hot.batch if hot else 1,
            not_held=sampler.hold_reason,
            launches=sampler.launches,
            interruptions=sampler.interruptions,
        ),
        batch=hot.batch if hot else 1,
        restored_each=restored,
        cycles=[s.cycles for s in measurement.samples if s.cycles is not None],
        effective_clock_mhz=[
            round(s.effective_clock_mhz, 3) for s in measurement.samples if s.effective_clock_mhz is not None
        ],
        cycles_source=sampler.cycles_source,
        cycles_reason=sampler.cycles_reason,
        restore_ns=sampler.restore_ns if restored else None,
    )


def _passes(timing: Timing, parameters: StoppingParameters, emulated: bool) -> int:
    constant = emulated and len(set(timing.gpu_time_ns)) == 1 and parameters.fixed_samples is None
    return 1 if constant else (parameters.fixed_samples or parameters.launch_passes)


class _Launches:
    """Times each launch between two events, in passes of their own, so that the window's figures are undisturbed.

    A window that is one launch and nothing else has the times of that launch already.
    """

    def __init__(self, timed: Timed, session: Session, sampler: WindowSampler, messages: Messages) -> None:
        self._timed, self._sampler, self._messages = timed, sampler, messages
        self._timer = LaunchTimer(session, sampler)
        self._alone = len(session.window) == 1 and self._timer.launches == 1 and not sampler.event_reason

    def take(self, caches: Caches, passes: int, restore: bool = True) -> None:
        """So many passes, each after a restore or one right after the other."""
        if self._alone:
            timing = self._timed.cold if caches == "cold" else self._timed.hot
            self._timer.add(caches, timing.gpu_time_ns if timing else [], timing.cycles if timing else [])
            return
        self._messages.stage(f"timing each launch of the window with {caches} caches")
        for done in range(passes):
            self._messages.progress(number(done, "pass", "passes"))
            self._timer.run_once(
                caches, lambda: self._sampler.make_ready(flush=caches == "cold") if restore else None
            )

    def result(self) -> list[LaunchTime]:
        """In the order of the window; what could not be timed goes into the notes."""
        self._timed.notes += self._timer.notes
        return self._timer.result()


def _time_serial(
    session: Session,
    comparing: Comparing,
    sampler: WindowSampler,
    parameters: StoppingParameters,
    emulated: bool,
) -> Serialized:
    """As many cold samples with the work one after another as the window itself got, at most SERIAL_SAMPLES."""
    if reason := why_not_serial(session):
        return Serialized(reason=reason)
    window = serial(session, sampler.bracket)
    differing = compare_orders(session, comparing, sampler.bracket, window)
    count = parameters.fixed_samples or (parameters.modelled_samples if emulated else SERIAL_SAMPLES)
    times: dict[str, list[int]] = {"recorded": [], "serial": []}
    for _ in range(count):  # in turns, so that a drift of the clock meets both
        for order, calls in (("recorded", None), ("serial", window.calls)):
            sampler.make_ready()
            sample = sampler.run(window=calls)
            if sample.gpu_ns is not None:
                times[order].append(sample.gpu_ns)
    return Serialized(
        streams=window.streams,
        edges=window.edges,
        recorded_ns=float(median(times["recorded"])) if times["recorded"] else None,
        serial_ns=float(median(times["serial"])) if times["serial"] else None,
        serial_time_ns=times["serial"],
        differing=differing,
    )


__all__ = ["Sample", "Timed", "time_session"]
