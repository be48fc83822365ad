"""Takes samples of a window, cold or hot, until the stopping rule is content.

The window and the clock come from outside, so that tests need neither a device nor time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

from replay.records import dataclass
from replay.timing.stopping import Stop, StoppingParameters, StoppingRule

WARM_UP_NS = 25_000_000  # of GPU time, as Triton's do_bench and nvbench take it
DISCARD_PAUSE_S = 0.05  # for the clock to recover; doubled with each discarded sample in a row
MAXIMUM_PAUSE_S = 1.6
MAXIMUM_DISCARDED = 64


@dataclass(frozen=True)
class Sample:
    """One run of the window. gpu_ns: between the events, None where they could not be used. host_ns: from before
    the first call until the device was idle. sm_clock_mhz: what NVML says after it, None where unknown. slow_clock:
    the clock was too low to count. runs: how many the times are the mean of. cycles: of the SM clock in gpu_ns;
    effective_clock_mhz: which was that clock; None where no stamps were taken. power_mw: drawn after it, None where
    unknown. slowed: why the device was slowed down then."""

    gpu_ns: int | None
    host_ns: int
    sm_clock_mhz: int | None = None
    slow_clock: bool = False
    runs: int = 1
    cycles: int | None = None
    effective_clock_mhz: float | None = None
    power_mw: int | None = None
    slowed: tuple[str, ...] = ()


class Measurable(Protocol):
    """What is measured."""

    def sample(self) -> Sample:
        """Make the window ready, run and measure it."""
        ...


@dataclass
class Measurement:
    """All samples that count, and how the measurement went."""

    samples: list[Sample] = field(default_factory=list)
    first: Sample | None = None
    discarded: int = 0
    stop: Stop | None = None


def measure(
    window: Measurable,
    parameters: StoppingParameters,
    *,
    modelled: bool,
    now_ns: Callable[[], int],
    sleep_s: Callable[[float], None],
    progress: Callable[[int], None] = lambda count: None,
) -> Measurement:
    """Warm up, then sample until the rule stops. The first run is kept apart: it pays for loading and compiling.

    modelled: times come from a model that knows of no caches and clocks, so there is nothing to warm up.
    """
    result = Measurement()
    begin_ns = now_ns()
    warm_ns = 0
    while warm_ns < WARM_UP_NS and not modelled:
        sample = window.sample()
        result.first = result.first or sample
        warm_ns += max(sample.host_ns if sample.gpu_ns is None else sample.gpu_ns, 1) * sample.runs
        progress(0)
        if now_ns() - begin_ns > parameters.maximum_wall_ns / 4:
            break
    rule = StoppingRule(parameters, modelled)
    begin_ns = now_ns()
    in_a_row = 0
    while result.stop is None:
        sample = window.sample()
        if sample.slow_clock and result.discarded < MAXIMUM_DISCARDED:
            result.discarded += 1
            sleep_s(min(DISCARD_PAUSE_S * 2**in_a_row, MAXIMUM_PAUSE_S))
            in_a_row += 1
            continue
        in_a_row = 0
        result.samples.append(sample)
        progress(len(result.samples))
        if modelled and sample.gpu_ns is None:
            # How long the CPU driver takes says nothing about a device, so there is nothing to converge.
            if len(result.samples) >= (parameters.fixed_samples or parameters.modelled_samples):
                result.stop = Stop("no-gpu-time", "the modelled clock could not be read around the window")
            continue
        time_ns = sample.host_ns if sample.gpu_ns is None else sample.gpu_ns
        result.stop = rule.add(time_ns, now_ns() - begin_ns, sample.runs)
    return result
