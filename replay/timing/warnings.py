"""What makes a measured time less trustworthy, each with a code and an advice. Pure functions over plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from replay.records import dataclass
from replay.results.run.timing import Warning_
from replay.timing.sampler import Measurement
from replay.timing.statistics import outliers, samples_for, summarize
from replay.timing.stopping import RIGOROUS, StoppingParameters

SHORT_KERNEL_NS = 10_000  # events resolve about 0.5 us
FIRST_RUN_SLOW = 2.0  # x the median
SHORT_LAUNCH_NS = (
    20_000  # a host may take as long to queue the next one, whatever the device has done meanwhile
)
CLOCK_SPREAD = 0.01  # between the highest and the lowest SM clock, over the lowest


@dataclass(frozen=True)
class DeviceConditions:
    """The device while it was measured: reasons why it was slowed down, and what NVML said (`clocks.Clocks.state`)."""

    throttled: Sequence[str] = ()
    state: Mapping[str, int | str] = field(default_factory=dict)


def warnings(
    measurement: Measurement,
    parameters: StoppingParameters,
    device: DeviceConditions,
    *,
    modelled: bool,
    batch: int = 1,
    not_held: str = "",
    launches: int = 1,
    interruptions: int = 0,
) -> list[Warning_]:
    """Everything there is to say about one measurement with GPU times, worst first.

    modelled: times of the CPU driver, of which only the injected noise can be said. batch: runs in a sample. not_held:
    why the stream was not held while the window was queued; "" when it was. launches: of one run of the window.
    interruptions: how often memory was put there between the events, which the application did not do.
    """
    times = [sample.gpu_ns for sample in measurement.samples if sample.gpu_ns is not None]
    if not times:
        return []
    found = [] if modelled else _of_the_device(measurement, device)
    if interruptions:
        text = "once" if interruptions == 1 else f"{interruptions} times"
        found.append(Warning_("interrupted", f"the time holds what only a replay does: {text} it put memory there, "
                              "which the application had allocated or its host code had written",
                              "the times of single launches do not hold it"))  # fmt: skip
    found += _of_the_noise(times, parameters, modelled)
    summary = summarize(times)
    first = measurement.first.gpu_ns if measurement.first else None
    if not modelled and first is not None and first > FIRST_RUN_SLOW * summary.median_ns:
        found.append(Warning_("first-run-slow", f"the first run took {first / summary.median_ns:.1f} x the median",
                              "it is not counted; loading or compiling happened then"))  # fmt: skip
    if not modelled and summary.median_ns * batch < SHORT_KERNEL_NS:
        found.append(Warning_("short-kernel", f"the window takes only {summary.median_ns / 1000:.1f} us",
                              "events resolve about 0.5 us: capture a window of more launches, or look at the hot "
                              "time where its samples are batches"))  # fmt: skip
    if not modelled and not_held and summary.median_ns < SHORT_LAUNCH_NS * max(launches, 1):
        found.append(Warning_("not-held", "the stream was not held while the window was queued, so the time may hold "
                              "gaps in which the device waited for the host",
                              "capture only the launches (--kernel), or look with a profiler"))  # fmt: skip
    if measurement.stop and measurement.stop.code == "timeout":
        longest = parameters.maximum_wall_ns >= RIGOROUS.maximum_wall_ns
        found.append(Warning_("timeout", measurement.stop.text,
                              "use --samples N" if longest else "use --rigorous, or --samples N"))  # fmt: skip
    return found


def _of_the_device(measurement: Measurement, device: DeviceConditions) -> list[Warning_]:
    found = []
    if device.throttled or measurement.discarded:
        reasons = (
            ", ".join(device.throttled) or f"{measurement.discarded} samples with a low clock were discarded"
        )
        found.append(Warning_("throttled", f"the device was slowed down: {reasons}",
                              "let it cool down, or lower and lock the clocks"))  # fmt: skip
    others = device.state.get("other_processes", 0)
    if isinstance(others, int) and others > 0:
        found.append(Warning_("shared-gpu", f"other processes use this device: {others}",
                              "end them, or measure on a device that nobody else uses"))  # fmt: skip
    clocks = [sample.sm_clock_mhz for sample in measurement.samples if sample.sm_clock_mhz]
    if clocks and max(clocks) > (1 + CLOCK_SPREAD) * min(clocks):
        found.append(Warning_("clocks-unlocked", f"the SM clock moved between {min(clocks)} and {max(clocks)} MHz",
                              f"lock it: nvidia-smi -lgc {min(clocks)}"))  # fmt: skip
    return found


def _of_the_noise(times: Sequence[int], parameters: StoppingParameters, modelled: bool) -> list[Warning_]:
    found = []
    summary = summarize(times)
    if strays := outliers(times):
        found.append(Warning_("outliers", f"{len(strays)} of {summary.count} samples are far from the rest",
                              "look for other work on the device or machine; the median hardly changes"))  # fmt: skip
    if summary.noise <= parameters.maximum_noise:
        return found
    needed = samples_for(summary.noise, parameters.maximum_noise)
    found.append(Warning_("noisy", f"the samples scatter by {100 * summary.noise:.2f} %",
                          "REPLAY_EMULATOR_NOISE is set" if modelled else
                          "lock the clocks, and see that nothing else uses the device"))  # fmt: skip
    if needed > summary.count:
        found.append(Warning_("too-few", f"{summary.count} samples leave the mean uncertain by "
                              f"{100 * summary.noise / summary.count**0.5:.2f} %; wanted "
                              f"{100 * parameters.maximum_noise:.2f} %",
                              f"about {needed} samples are needed: --samples {needed}"))  # fmt: skip
    return found
