"""Everything that `replay run` times in one session: the window with cold and with hot caches, and each launch in it.

The order matters: that memory is restored as it should be is known before anything is timed, and whether the window may
run again without a restore decides how hot samples are taken.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replay.engine.launch_times import LaunchTimer
from replay.engine.measure import HotSampler, WindowSampler
from replay.engine.restoring import check_restore, same_outputs_again
from replay.engine.session import Session, Verified
from replay.results import schema
from replay.timing.clocks import Clocks
from replay.timing.sampler import Measurable, Measurement, Sample, measure
from replay.timing.statistics import summarize
from replay.timing.stopping import StoppingParameters
from replay.timing.warnings import DeviceConditions, warnings

if TYPE_CHECKING:
    from replay.engine.worker import Messages


@dataclass
class Timed:
    """What was timed; None where it was not asked for. notes: what could not be."""

    restore: schema.Restore | None = None
    cold: schema.Timing | None = None
    hot: schema.Timing | None = None
    launches: list[schema.LaunchTime] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_restored(self) -> bool:
        """Whether the window could be replayed more than once."""
        return self.restore is not None and self.restore.verdict == "right"


def time_session(
    session: Session, verified: Verified, clocks: Clocks, request: dict[str, Any], messages: Messages
) -> Timed:
    """Check that the window can be run again from equal memory, then time it as `request` asks.

    A restore that is wrong is in the result, and nothing is timed. Raises EngineError when a call fails.
    """
    timed = Timed()
    parameters = StoppingParameters(**request["timing"])
    caches, emulated = request.get("caches", "both"), request["emulated"]
    messages.stage("checking that memory is restored")
    timed.restore = check_restore(session, verified)
    if timed.restore.verdict == "wrong":
        timed.notes.append("not timed: what the window starts from cannot be brought back")
        return timed
    restore_each = same_outputs_again(session) if caches != "cold" else ""
    sampler = WindowSampler(session, clocks, emulated=emulated)

    def take(window: Measurable, hot: HotSampler | None) -> schema.Timing:
        messages.stage(f"timing the window with {'cold' if hot is None else 'hot'} caches")
        measurement = measure(
            window,
            parameters,
            modelled=emulated,
            now_ns=time.perf_counter_ns,
            sleep_s=time.sleep,
            progress=lambda count: messages.progress(f"{count} samples"),
        )
        return _timing(measurement, sampler, clocks, parameters, session.contents.copied_bytes, emulated, hot)

    if caches != "hot":
        timed.cold = take(sampler, None)
    hot = None
    if caches != "cold":
        if timed.cold is not None:
            run_ns = (timed.cold.gpu or timed.cold.host).median_ns
        else:
            first = sampler.sample()
            run_ns = float(first.host_ns if first.gpu_ns is None else first.gpu_ns)
        hot = HotSampler(sampler, restore_each=restore_each, run_ns=run_ns, single=emulated)
        sampler.make_ready()
        timed.hot = take(hot, hot)
    _time_launches(timed, session, sampler, hot, parameters, emulated, messages)
    return timed


def _timing(
    measurement: Measurement,
    sampler: WindowSampler,
    clocks: Clocks,
    parameters: StoppingParameters,
    restored_bytes: int,
    emulated: bool,
    hot: HotSampler | None,
) -> schema.Timing:
    gpu_times = [sample.gpu_ns for sample in measurement.samples if sample.gpu_ns is not None]
    host_times = [sample.host_ns for sample in measurement.samples]
    device = DeviceConditions(clocks.throttle_reasons(), clocks.state())
    restored = hot is None or bool(hot.restore_each)
    return schema.Timing(
        mode="cold" if hot is None else "hot",
        source="modelled" if emulated else "measured",
        gpu_time_ns=gpu_times,
        host_time_ns=host_times,
        gpu=_summary(gpu_times) if gpu_times else None,
        host=_summary(host_times),
        sm_clock_mhz=[s.sm_clock_mhz for s in measurement.samples if s.sm_clock_mhz is not None],
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
        warnings=warnings(measurement, parameters, device, modelled=emulated, batch=hot.batch if hot else 1),
        batch=hot.batch if hot else 1,
        restored_each=restored,
    )


def _summary(samples: list[int]) -> schema.TimeSummary:
    summary = summarize(samples)
    return schema.TimeSummary(
        count=summary.count,
        median_ns=float(summary.median),
        mean_ns=float(summary.mean),
        minimum_ns=summary.minimum,
        maximum_ns=summary.maximum,
        lower_quartile_ns=float(summary.lower_quartile),
        upper_quartile_ns=float(summary.upper_quartile),
        noise=summary.noise,
    )


def _time_launches(
    timed: Timed,
    session: Session,
    sampler: WindowSampler,
    hot: HotSampler | None,
    parameters: StoppingParameters,
    emulated: bool,
    messages: Messages,
) -> None:
    """Each launch between two events, in passes of their own, so that the figures of the window are undisturbed."""
    messages.stage("timing each launch of the window")
    timer = LaunchTimer(session, sampler)
    if len(session.window) == 1 and timer.launches == 1 and not sampler.event_reason:
        # The window's events are those of its launch already.
        timed.launches = timer.result(
            timed.cold.gpu_time_ns if timed.cold else [], timed.hot.gpu_time_ns if timed.hot else []
        )
        return
    timed.notes += timer.notes

    def passes(timing: schema.Timing) -> int:
        constant = emulated and len(set(timing.gpu_time_ns)) == 1 and parameters.fixed_samples is None
        return 1 if constant else (parameters.fixed_samples or parameters.launch_passes)

    if timed.cold is not None:
        for number in range(passes(timed.cold)):
            messages.progress(f"{number} passes")
            sampler.make_ready()
            timer.run_once("cold")
    if timed.hot is not None and hot is not None:
        for number in range(passes(timed.hot)):
            messages.progress(f"{number} passes")
            if hot.restore_each:
                sampler.make_ready(flush=False)
            timer.run_once("hot")
    timed.launches = timer.result()


__all__ = ["Sample", "Timed", "time_session"]
