"""How near kernels come to what the device can do: an instruction roofline (Ding and Williams, "An Instruction Roofline
Model for GPUs", 2019), of PTX instructions of warps and 32-byte sectors of global memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from replay.records import dataclass
from replay.results.run.timing import KernelCounters
from replay.results.schema import RunResult
from replay.timing.bounds import counted, total_of
from replay.timing.clocks import memory_rate
from replay.timing.statistics import median

SECTOR_BYTES = 32
_SCHEDULERS = 4  # of a multiprocessor, each of which starts an instruction of a warp in a cycle
# What the CPU driver's cost model gives each multiprocessor (docs/cpu-driver.md): modelled, of no GPU.
_MODELLED_BYTES_PER_NS = 25.0


@dataclass(frozen=True)
class RooflinePoint:
    """One kernel. intensity: instructions of warps for each sector. rate: such instructions in a nanosecond. time_ns:
    of all its launches in one replay."""

    kernel: str
    intensity: float
    rate: float
    time_ns: float = 0.0


@dataclass(frozen=True)
class Attained:
    """What a kernel attains of one limit of the device. unit: of both, in a nanosecond, of the whole device; "" where
    only their quotient means something."""

    name: str
    unit: str
    rate: float
    limit: float

    @property
    def share(self) -> float:
        return self.rate / self.limit


@dataclass(frozen=True)
class Roofline:
    """instructions: of warps that the device can start in a nanosecond. sectors: that its memory can move in one; 0.0
    where its bandwidth is not known. passes: over the banks of shared memory. clock_mhz: that the samples saw.
    modelled: limits and times are those of the CPU driver's cost model."""

    instructions: float
    sectors: float
    passes: float
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
    cycles = result.device.multiprocessors * clock_mhz / 1000  # in a nanosecond, of all multiprocessors
    sectors = _bandwidth(result) / SECTOR_BYTES
    return Roofline(_SCHEDULERS * cycles, sectors, cycles, clock_mhz, modelled, points) if points else None


def attained(found: Roofline, kernel: KernelCounters) -> list[Attained]:
    """How near a kernel comes to each limit, the nearest first; what it does not use is left out."""
    point = next((point for point in found.points if point.kernel == kernel.kernel), None)
    if point is None or not point.time_ns:
        return []
    passes = counted(kernel.counters, "shared", "wavefronts") + kernel.counters.get(
        "descriptor_wavefronts", 0
    )
    each = (
        (
            "starting instructions",
            "instructions",
            kernel.counters.get("warp_instructions", 0),
            found.instructions,
        ),
        ("global memory", "sectors", counted(kernel.counters, "global", "sectors"), found.sectors),
        ("shared memory", "passes", passes, found.passes),
    )
    uses = [
        Attained(name, unit, count / point.time_ns, limit)
        for name, unit, count, limit in each
        if count and limit
    ]
    if found.modelled and (products := kernel.parts_ns.get("matrix", 0.0)):
        # How many a cycle can finish is the model's, of the multiprocessor that has most blocks.
        uses.append(Attained("products of matrices", "", products, total_of(kernel.parts_ns)))
    return sorted(uses, key=lambda item: -item.share)


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
            yield RooflinePoint(
                kernel.kernel, instructions / max(sectors, 1), instructions / time_ns, time_ns
            )


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
