"""The least time that a window can take: its outputs have to reach memory, its inputs to come from there, and its
instructions to be issued."""

from __future__ import annotations

from replay.engine.driver import Driver
from replay.records import dataclass
from replay.timing import clocks

# CUdevice_attribute
_CLOCK_KHZ, _MULTIPROCESSORS, _MEMORY_CLOCK_KHZ, _BUS_BITS, _L2_BYTES = 13, 16, 36, 37, 38
_ISSUED = 4  # instructions of warps in a clock, by each multiprocessor: CUDA C++ Programming Guide, since 7.0
# Instructions of PTX that may become one of the machine: a product and a sum, an address and its load.
_FUSED = 2
MODELLED_LAUNCH_NS = 2000.0  # docs/cpu-driver.md, "Modelled time"
SLACK = (
    0.95  # of a bound; clocks have a step, and some devices run their memory above the clock that they tell
)


@dataclass(frozen=True)
class Bound:
    """certain_ns: of what has to be written, with which no run is faster. likely_ns: with what the captured kernels
    read; a kernel that needs less of it may be faster."""

    certain_ns: float
    likely_ns: float


def memory_rate(driver: Driver, device: int) -> float:
    """Bytes in a nanosecond, at most; 0.0 where the driver does not say."""
    clock = driver.cuDeviceGetAttribute(_MEMORY_CLOCK_KHZ, device)
    bits = driver.cuDeviceGetAttribute(_BUS_BITS, device)
    return clocks.memory_rate(clock / 1000, bits)


def bound_of(
    read_bytes: int, written_bytes: int, rate: float, cache_bytes: int, *, cold: bool, launches: int = 0
) -> Bound:
    """rate: of the memory. cache_bytes: what may stay in the L2 cache when the window ends and, with hot caches, be
    there when it begins. launches: of the window, in a model in which each takes a time of its own."""
    least = MODELLED_LAUNCH_NS if launches else 0.0  # several may overlap
    written = max(written_bytes - cache_bytes, 0)
    read = read_bytes if cold else max(read_bytes - cache_bytes, 0)
    if rate <= 0:
        return Bound(least, least)
    return Bound(max(written / rate, least), max((read + written) / rate, least))


def issue_ns(driver: Driver, device: int, instructions: int) -> float:
    """The least time in which a device issues what so many instructions of PTX, of warps, become; 0.0 where the driver
    does not say how fast it is."""
    clock = driver.cuDeviceGetAttribute(_CLOCK_KHZ, device)
    multiprocessors = driver.cuDeviceGetAttribute(_MULTIPROCESSORS, device)
    rate = _ISSUED * max(multiprocessors, 0) * max(clock, 0) * 1e3 / 1e9
    return instructions / _FUSED / rate if rate else 0.0


def cache_bytes(driver: Driver, device: int, *, emulated: bool) -> int:
    """Of the L2 cache; the model of the CPU driver has none."""
    return 0 if emulated else max(int(driver.cuDeviceGetAttribute(_L2_BYTES, device)), 0)
