"""How long a window took: whole, launch by launch, and against the application."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass


@dataclass(frozen=True)
class TimeSummary:
    """Figures made of the raw samples, in nanoseconds. noise: standard deviation over the mean."""

    count: int
    median_ns: float
    mean_ns: float
    minimum_ns: float
    maximum_ns: float
    lower_quartile_ns: float
    upper_quartile_ns: float
    noise: float


@dataclass(frozen=True)
class Warning_:
    """Something that makes a time less trustworthy, and what to do about it."""

    code: str
    text: str
    advice: str


@dataclass(frozen=True)
class Timing:
    """How long the window took, whole.

    mode: cold (restored, and the L2 cache flushed, before each run) or hot (no flush). batch: runs between two events,
    whose mean is one sample. restored_each: memory was restored before each run; of hot runs only where the window
    changes what it reads. source: measured, or modelled (the CPU driver's cost model; never a measurement).
    gpu_time_ns, host_time_ns and sm_clock_mhz hold one value per kept sample; gpu_time_ns is empty when events could
    not be used (gpu_time_reason says why), sm_clock_mhz when clocks are unavailable. Host times include the driver's
    and this program's own work. held, flushed: whether the stream was held while the window was queued, and the L2
    cache flushed before each run. cycles: SM cycles of the window, a value for each kept sample; effective_clock_mhz:
    the clock they were counted at. cycles_source: stamped (on the device, around the window), modelled (the clock of
    the CPU driver's cost model), or "" where there are none, for cycles_reason. restore_ns: median host time
    of bringing back restored_bytes, until the device was idle again.
    """

    mode: Literal["cold", "hot"]
    source: Literal["measured", "modelled"]
    gpu_time_ns: list[int]
    host_time_ns: list[int]
    gpu: TimeSummary | None
    host: TimeSummary
    sm_clock_mhz: list[int] = field(default_factory=list)
    first_gpu_ns: int | None = None
    first_host_ns: int | None = None
    discarded: int = 0
    stop_code: str = ""
    stop_text: str = ""
    gpu_time_reason: str = ""
    held: bool = False
    held_reason: str = ""
    flushed: bool = False
    flushed_reason: str = ""
    restored_bytes: int = 0
    warnings: list[Warning_] = field(default_factory=list)
    batch: int = 1
    restored_each: bool = True
    cycles: list[int] = field(default_factory=list)
    effective_clock_mhz: list[float] = field(default_factory=list)
    cycles_source: Literal["stamped", "modelled", ""] = ""
    cycles_reason: str = ""
    restore_ns: float | None = None

    @property
    def summary(self) -> TimeSummary:
        """Of the time on the GPU where events told it, else of that on the host."""
        return self.gpu or self.host

    @property
    def samples_ns(self) -> list[int]:
        """What `summary` is of."""
        return self.gpu_time_ns or self.host_time_ns

    @property
    def kind(self) -> str:
        """Which time that is: "measured GPU time", "modelled GPU time", "host time"."""
        return "host time" if self.gpu is None else f"{self.source} GPU time"


@dataclass(frozen=True)
class Restore:
    """What is brought back before each timed run, and whether that was right: checked once.

    verdict: right; wrong (problems says where; nothing was timed then). ranges, size_bytes: what is restored, device to
    device. on_host_bytes: how much memory of the device is restored from copies on the host, since the device has no
    room for them. own_variables: variables of modules among it that no captured memory holds, such as those that a
    variant brings.
    written_elsewhere: buffers that the replay wrote where the capture saw no change, which are restored whole.
    """

    verdict: Literal["right", "wrong"]
    ranges: int
    size_bytes: int
    written_elsewhere: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    on_host_bytes: int = 0
    own_variables: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Serialized:
    """The window with its work one after another (--serialize), beside the window as recorded. reason: why that was not
    done; then the rest says nothing.

    streams: with work in them; edges: changes of the stream. recorded_ns, serial_ns: medians of the GPU time with cold
    caches, None without GPU time. differing: buffers that do not hold the same after both.
    """

    streams: int = 0
    edges: int = 0
    recorded_ns: float | None = None
    serial_ns: float | None = None
    serial_time_ns: list[int] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True)
class Profile:
    """One replay for a profiler (--profile). nvtx_ranges: names of the ranges it could see, in order; nvtx_unavailable:
    why there were none."""

    nvtx_ranges: list[str] = field(default_factory=list)
    nvtx_unavailable: str = ""


@dataclass(frozen=True)
class LaunchTime:
    """One launch of the window, timed between two events around it, in passes of their own. call: its number; function:
    the driver function; kernel: mangled, "" for a graph or where it is not known; stream: as captured.

    cold_ns, hot_ns: median of the passes after a restore and flush, and without a flush; None when there was no such
    pass or the launch could not be timed. application_ns: inside the application; None when it was not timed there.

    cold_cycles, hot_cycles: medians of the SM cycles that passed in those times; cycles_source: how they are known;
    cycles_reason: why they are not, "" also where the launch was not timed.
    """

    call: int
    function: str
    kernel: str
    stream: int = 0
    cold_ns: float | None = None
    hot_ns: float | None = None
    application_ns: int | None = None
    cold_time_ns: list[int] = field(default_factory=list)
    hot_time_ns: list[int] = field(default_factory=list)
    cold_cycles: float | None = None
    hot_cycles: float | None = None
    cycles_source: Literal["stamped", "modelled", ""] = ""
    cycles_reason: str = ""


@dataclass(frozen=True)
class NodeTime:
    """GPU time of the work of one node of a graph, launched on its own. call: the launch of the graph; number: the
    node's, in the order in which the nodes were launched, from 1. name: of the kernel, mangled; "" for other kinds."""

    call: int
    number: int
    kind: str
    name: str
    gpu_ns: int


@dataclass(frozen=True)
class Fidelity:
    """GPU time of the launches that were timed inside the application, there and in the replay: sums over the same
    ones.

    application_source, source: measured or modelled. deviation: of the application's time from the nearest of the
    replay's, 0.0 when it lies between hot and cold; None when the two cannot be compared (reason says why). reproduced:
    the deviation is at most 5 %. causes: possible causes otherwise, likeliest first. of_variant: a variant was
    replayed, so the deviation is that of the captured kernel from the variant, and nothing has to be reproduced.
    """

    launches: int
    application_ns: int
    application_source: Literal["measured", "modelled"]
    source: Literal["measured", "modelled"]
    cold_ns: float | None = None
    hot_ns: float | None = None
    deviation: float | None = None
    reproduced: bool | None = None
    reason: str = ""
    causes: list[str] = field(default_factory=list)
    of_variant: bool = False


@dataclass(frozen=True)
class AccessCounters:
    """What one load, store or atomic operation of a kernel's PTX cost. text: which of the texts of its module;
    ptx_line: in it. instruction: as it stands there, its first 160 characters. file, line: in the source, "" and 0
    where the PTX does not say; without folders. Figures as in docs/cpu-driver.md."""

    kind: Literal["load", "store", "atomic"]
    instruction: str
    file: str
    text: int
    ptx_line: int
    line: int
    global_requests: int = 0
    global_bytes: int = 0
    global_sectors: int = 0
    global_least_sectors: int = 0
    shared_requests: int = 0
    shared_bytes: int = 0
    shared_wavefronts: int = 0
    shared_bank_conflicts: int = 0


@dataclass(frozen=True)
class KernelCounters:
    """What the built-in CPU driver counted in all launches of one kernel. counters: names as in docs/cpu-driver.md.
    parts_ns: what its modelled time is made of, by the names there; empty in older results. accesses: the dearest
    first, of the first launches (launches_by_access of them)."""

    kernel: str
    launches: int
    modelled_ns: int
    counters: dict[str, int] = field(default_factory=dict)
    parts_ns: dict[str, float] = field(default_factory=dict)
    accesses: list[AccessCounters] = field(default_factory=list)
    launches_by_access: int = 0


@dataclass(frozen=True)
class WindowCounters:
    """Counters of the first replay of the window: its sum, and kernel by kernel. failed: launches that did not end
    well, which count nothing."""

    total: KernelCounters
    kernels: list[KernelCounters] = field(default_factory=list)
    failed: int = 0
