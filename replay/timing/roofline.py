"""How near kernels come to what the device can do: an instruction roofline (Ding and Williams, "An Instruction Roofline
Model for GPUs", 2019), of PTX instructions of warps and 32-byte sectors of global memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from replay.records import dataclass
from replay.results.run.timing import KernelCounters
from replay.results.schema import RunResult
from replay.timing.bounds import counted
from replay.timing.clocks import memory_rate
from replay.timing.statistics import median

SECTOR_BYTES = 32
_SCHEDULERS = 4  # of a multiprocessor, each of which starts an instruction of a warp in a cycle
# What the CPU driver's cost model gives each multiprocessor (docs/cpu-driver.md): modelled, of no GPU.
_MODELLED_BYTES_PER_NS = 25.0


@dataclass(frozen=True)
class RooflinePoint:
    """One kernel. intensity: instructions of warps for each sector. rate: such instructions in a nanosecond."""

    kernel: str
    intensity: float
    rate: float


@dataclass(frozen=True)
class Roofline:
    """instructions: of warps that the device can start in a nanosecond. sectors: that its memory can move in one; 0.0
    where its bandwidth is not known. clock_mhz: that the samples saw. modelled: limits and times are those of the CPU
    driver's cost model."""

    instructions: float
    sectors: float
    clock_mhz: float
    modelled: bool
    points: list[RooflinePoint] = field(default_factory=list)

    def roof(self, intensity: float) -> float:
        """The most that is possible at an intensity."""
        return min(self.instructions, self.sectors * intensity) if self.sectors else self.instructions


def roofline(result: RunResult, kernels: Sequence[KernelCounters]) -> Roofline | None:
    """kernels: counted in this result, or in a replay of the same window on the CPU driver. Limits are those at the
    clock that the samples saw. None where there is no clock, or no kernel with a time."""
    clock_mhz = sampled_clock(result)
    if clock_mhz is None or not result.device.multiprocessors:
        return None
    modelled = result.driver.emulated
    points = list(_points(result, kernels, modelled))
    instructions = _SCHEDULERS * result.device.multiprocessors * clock_mhz / 1000
    return (
        Roofline(instructions, _bandwidth(result) / SECTOR_BYTES, clock_mhz, modelled, points)
        if points
        else None
    )


def sampled_clock(result: RunResult) -> float | None:
    """The median of the SM clock beside the samples, in MHz: stamped, else as NVML said."""
    for timing in result.timings:
        if clocks := timing.effective_clock_mhz or timing.sm_clock_mhz:
            return float(median([float(clock) for clock in clocks]))
    return None


def _points(result: RunResult, kernels: Sequence[KernelCounters], modelled: bool) -> Iterable[RooflinePoint]:
    for kernel in kernels:
        time_ns = kernel.modelled_ns if modelled else _measured(result, kernel.kernel, len(kernels) == 1)
        sectors = counted(kernel.counters, "global", "sectors")
        instructions = kernel.counters.get("warp_instructions", 0)
        if time_ns and instructions:
            yield RooflinePoint(kernel.kernel, instructions / max(sectors, 1), instructions / time_ns)


def _measured(result: RunResult, kernel: str, is_only: bool) -> float:
    """With cold caches, else hot; of the whole window where it has one launch."""
    for name in ("cold_ns", "hot_ns"):
        times = [getattr(item, name) for item in result.launch_times if item.kernel == kernel]
        if times and all(time is not None for time in times):
            return float(sum(times))
    timing = result.timing or result.hot
    alone = is_only and result.window.launches == 1 and timing is not None and timing.gpu is not None
    return timing.gpu.median_ns if alone and timing is not None and timing.gpu is not None else 0.0


def _bandwidth(result: RunResult) -> float:
    """Bytes in a nanosecond; 0.0 where it is not known."""
    device = result.device
    if result.driver.emulated:
        return _MODELLED_BYTES_PER_NS * device.multiprocessors
    clock = device.clocks.get("memory_clock_mhz")
    return memory_rate(clock, device.memory_bus_bits or 0) if isinstance(clock, int) else 0.0
