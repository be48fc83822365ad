"""What the result of one replay holds: `replay.result/1`. docs/results.md describes every field.

The same map is the file (`store.py`) and, with a `schema` in front, the output of `replay run --json`. Field names
carry their units. Fields are only added, with defaults, so that results of older versions stay readable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FORMAT = "replay.result/1"


@dataclass(frozen=True)
class SnapshotFacts:
    """Which snapshot was replayed. identity: of its whole content, hex; equal for equal snapshots under any name.
    window: number of the one that was replayed, of several; None: there is one."""

    file: str
    size_bytes: int
    identity: str
    selection: str = ""
    state: str = "complete"
    window: int | None = None


@dataclass(frozen=True)
class DriverFacts:
    """The driver that executed it. version: 13000 for 13.0. emulated: the built-in CPU driver, whose times are
    modelled."""

    choice: str
    library: str
    version: int
    emulated: bool
    reason: str = ""


@dataclass(frozen=True)
class DeviceFacts:
    """The device that executed it. clocks: what NVML said, empty when unavailable; clocks_unavailable: why."""

    ordinal: int
    name: str
    compute_capability: str
    uuid: str = ""
    total_memory_bytes: int = 0
    multiprocessors: int = 0
    l2_cache_bytes: int = 0
    clocks: dict[str, int | str] = field(default_factory=dict)
    clocks_unavailable: str = ""


@dataclass(frozen=True)
class PlacedRange:
    """One captured range, and where it was in the replay. range: its id. live_address: 0 where nothing loaded it.

    how: same_address; relocated (`reason` says why); shifted (moved on purpose); loaded (a variable of a module, which
    is where the driver put the module); handle (a CUDA array, which has no address). memory: what it is in the replay.
    """

    range: int
    kind: str
    address: int
    size_bytes: int
    live_address: int
    how: Literal["same_address", "relocated", "shifted", "loaded", "handle"]
    memory: Literal["device", "managed", "host", "module", "array"]
    device: int = 0
    name: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """Where the captured memory was placed, counted in captured ranges and bytes.

    patched_globals: variables of modules at other addresses than captured, whose pointers were patched.
    moved: one line for each relocated stretch, with the reason. restarts: of the worker, to find free addresses.
    layouts: of the address space of each worker that was started, see docs/relocation.md. ranges: the first 10,000, by
    address; more_ranges: how many are not among them.
    """

    same_address_ranges: int
    same_address_bytes: int
    relocated_ranges: int = 0
    relocated_bytes: int = 0
    globals: int = 0
    patched_globals: int = 0
    restarts: int = 0
    moved: list[str] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    ranges: list[PlacedRange] = field(default_factory=list)
    more_ranges: int = 0


@dataclass(frozen=True)
class MovedWord:
    """An aligned word of the outputs that differs in a shifted replay: what the application left there, what was
    expected after pointers were patched, and what was found."""

    label: str
    range: int
    offset_bytes: int
    captured: int
    expected: int
    found: int


@dataclass(frozen=True)
class ShiftedReplay:
    """One replay with all memory moved on purpose.

    verdict: as of the outputs; failed: it ended in an error that the replay before did not have; not_done: it could
    not be tried. lowest_distance_bytes, highest_distance_bytes: how far ranges were moved. following_words: words of
    the outputs that hold addresses and were found to follow their memory. words: the first that differ. touched: the
    captured address that an error names, 0 unknown.
    """

    number: int
    verdict: Literal["match", "wrong", "nondeterministic", "not_compared", "failed", "not_done"]
    moved_ranges: int = 0
    unmoved_ranges: int = 0
    lowest_distance_bytes: int = 0
    highest_distance_bytes: int = 0
    compared_bytes: int = 0
    following_words: int = 0
    reason: str = ""
    touched: int = 0
    words: list[MovedWord] = field(default_factory=list)


@dataclass(frozen=True)
class SuspectWord:
    """A word of the snapshot that may be why moved memory gives other outputs.

    kind: missed (it points to captured memory, and the census lacks it) or false (the census has it, and it may be a
    number). place: the parameters of a call, captured memory, host memory that a call reads, or parameters of a node
    of a graph; of the last two there is no census, what looks like an address counts as one. site: the same for
    people; call or range: which, the other one 0; node: of the graph that the call describes, from 1, else 0.
    offset_bytes: inside it. form: word, unaligned, halves (its low half is at offset_bytes, its high half at
    high_offset_bytes). value: the captured address. target: the range it points
    to, for people. confirmed: a replay of moved memory with this word patched (missed) or left alone (false) gave the
    right outputs.
    """

    kind: Literal["missed", "false"]
    place: Literal["parameters", "memory", "host", "graph"]
    site: str
    call: int
    range: int
    offset_bytes: int
    value: int
    target: str
    form: Literal["word", "unaligned", "halves"] = "word"
    high_offset_bytes: int = 0
    confirmed: bool = False
    node: int = 0


@dataclass(frozen=True)
class Relocation:
    """Whether the snapshot gives the same outputs wherever its memory is, tried with `replay run --shift`.

    verdict: proven; failed (it does not); unsure (`reason` says why nothing can be said). tried: replays beyond the
    two, to confirm suspects.
    """

    verdict: Literal["proven", "failed", "unsure"]
    reason: str = ""
    replays: list[ShiftedReplay] = field(default_factory=list)
    suspects: list[SuspectWord] = field(default_factory=list)
    tried: int = 0


@dataclass(frozen=True)
class OutputMismatch:
    """One place where an output differs: offset in the buffer, captured address (0: host memory, arrays), bytes in hex.

    place: of an array, its element: "x 3, y 4, z 0, channel 1". Where the type is known, dtype, expected_value and
    actual_value give the element as a number, and element its index among those of the type; -1: unknown.
    """

    offset_bytes: int
    address: int
    expected: str
    actual: str
    place: str = ""
    element: int = -1
    dtype: str = ""
    expected_value: str = ""
    actual_value: str = ""


@dataclass(frozen=True)
class OutputElements:
    """How differing elements of one type differ, in one stretch of a buffer from offset_bytes on.

    source: "declared" (--dtype), "inferred from PTX" (origin says of which kernel and parameter), "array format".
    elements: how many differ. Distances are of those that are finite on both sides; special: pairs of which only one
    is NaN, or infinite; zeros: pairs of which 0 was expected, left out of maximum_relative. beyond_tolerance: elements
    outside of it.
    """

    dtype: str
    source: str
    origin: str
    offset_bytes: int
    elements: int
    maximum_ulp: int
    maximum_relative: float
    maximum_absolute: float
    special: int = 0
    beyond_tolerance: int = 0
    zeros: int = 0


@dataclass(frozen=True)
class OutputTolerance:
    """How far elements may be from the captured ones: any one of the limits suffices. source: "asked for"
    (--tolerance), or "op table": the replay ran on another kind of device, and the kernels have approximate operations
    (reasons). kernels: which those are, of the buffer concerned."""

    ulp: int
    relative: float
    absolute: float
    source: str
    reasons: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OutputDifference:
    """One buffer that differs. guess_*: how far the values are apart if they are floats; a guess from the bytes
    alone, of those whose type is not known. elements: of those whose type is known. tolerance: of this buffer, None
    where every bit must agree."""

    label: str
    address: int
    size_bytes: int
    compared_bytes: int
    differing_bytes: int
    mismatches: list[OutputMismatch] = field(default_factory=list)
    guess_dtype: str = ""
    guess_maximum_ulp: int = 0
    guess_maximum_relative: float = 0.0
    elements: list[OutputElements] = field(default_factory=list)
    within_tolerance: bool = False
    tolerance: OutputTolerance | None = None


@dataclass(frozen=True)
class Verification:
    """Outputs after the first replay against the captured ones, bit by bit.

    verdict: match; wrong; nondeterministic (two replays of the same input differ from each other); not_compared
    (nothing was captured to compare with, or the context was lost as in the application). unverified: why some
    memory was not compared. results: calls whose CUresult was another one than captured. tolerance: None when every bit
    had to agree. within_tolerance: the verdict is match although bits differ, since all of them are within it.
    varying: buffers that differ between two replays of the same input. saved: files with outputs (--save-outputs).
    differing_digest: of all output bytes that differ, and where; equal in two results whose outputs differ alike.
    """

    verdict: Literal["match", "wrong", "nondeterministic", "not_compared"]
    buffers: int
    compared_bytes: int
    differing_bytes: int = 0
    differences: list[OutputDifference] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    reason: str = ""
    replays: int = 1
    tolerance: OutputTolerance | None = None
    within_tolerance: bool = False
    varying: list[str] = field(default_factory=list)
    differing_digest: str = ""
    saved: list[str] = field(default_factory=list)


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


@dataclass(frozen=True)
class Restore:
    """What is brought back before each timed run, device to device, and whether that was right: checked once.

    verdict: right; wrong (problems says where; nothing was timed then). ranges, size_bytes: what is restored.
    written_elsewhere: buffers that the replay wrote where the capture saw no change, which are restored whole.
    """

    verdict: Literal["right", "wrong"]
    ranges: int
    size_bytes: int
    written_elsewhere: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


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

    cold_ns, hot_ns: median of the passes behind a restore and flush, and without a flush; None when there was no such
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
class Fidelity:
    """GPU time of the launches that were timed inside the application, there and in the replay: sums over the same
    ones.

    application_source, source: measured or modelled. deviation: of the application's time from the nearest of the
    replay's, 0.0 when it lies between hot and cold; None when the two cannot be compared (reason says why). reproduced:
    the deviation is at most 5 %. causes: what may lie behind it otherwise, likeliest first.
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


@dataclass(frozen=True)
class KernelCounters:
    """What the built-in CPU driver counted in all launches of one kernel. counters: names as in docs/cpu-driver.md."""

    kernel: str
    launches: int
    modelled_ns: int
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WindowCounters:
    """Counters of the first replay of the window: its sum, and kernel by kernel. failed: launches that did not end
    well, which count nothing."""

    total: KernelCounters
    kernels: list[KernelCounters] = field(default_factory=list)
    failed: int = 0


@dataclass(frozen=True)
class ApplicationFacts:
    """What was seen when the window ran inside the application. host_ns: from its first call to its last, None
    unknown. gpu_ns: of the launches that were timed there (timed_launches), each between two events."""

    device: str = ""
    driver_version: int = 0
    emulated: bool = False
    host_ns: int | None = None
    command: list[str] = field(default_factory=list)
    gpu_ns: int | None = None
    timed_launches: int = 0


@dataclass(frozen=True)
class WindowFacts:
    """What was replayed. skipped_calls: recorded, but part of placing memory or not executable (notes say why)."""

    calls: int
    launches: int
    kernels: list[str]
    skipped_calls: int = 0
    threads: int = 1
    streams: int = 0


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
class CompiledKernel:
    """What a kernel is made of. name: mangled. registers: of a thread. shared_bytes: static. local_bytes: stack frame
    of a thread. spill_store_bytes, spill_load_bytes: what ptxas said. code: digest of its machine code alone, hex,
    which two builds may have in common; "" for PTX and where it is not known. All others are None where they are not
    known, as registers of PTX."""

    name: str
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    code: str = ""


@dataclass(frozen=True)
class CapturedKernel(CompiledKernel):
    """A kernel of the snapshot. image: digest of the image of its module."""

    image: str = ""


@dataclass(frozen=True)
class VariantKernel(CompiledKernel):
    """A kernel of an image that a variant put in. same_code: its machine code is that of the captured image; None: not
    known. replaces: mangled name of the captured kernel that it stands for, "" in results that do not say."""

    same_code: bool | None = None
    replaces: str = ""


@dataclass(frozen=True)
class VariantImage:
    """An image that a variant put in the place of a captured one. replaces, digest: of the two, hex. kind: ptx, cubin
    or fatbin. source: file name, or the captured image. compiler: what made it of the source, "" if it was taken as it
    is. target: the architecture it is for. beside: the captured module stays, and only the kernels named here come from
    this one. same: it has the same bytes as the captured image."""

    replaces: str
    digest: str
    kind: str
    size_bytes: int
    source: str
    compiler: str = ""
    target: str = ""
    beside: bool = False
    same: bool = False
    kernels: list[VariantKernel] = field(default_factory=list)


@dataclass(frozen=True)
class VariantFacts:
    """What was done otherwise than in the application. text: the variant as `replay run` can be given it again."""

    text: str
    images: list[VariantImage] = field(default_factory=list)
    jit: list[str] = field(default_factory=list)
    geometry: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunResult:
    """One replay of one snapshot. notes: what was done otherwise than in the application, or is missing from the
    capture. timing: cold; hot: without a flush; each None when it was not asked for or impossible (a note says why).
    nodes: with --expand-graphs. counters: with --counters, on the built-in CPU driver. relocation: with --shift.
    variant: what was chosen otherwise; None: as captured. kernels: what the captured ones are made of."""

    format: str
    tool_version: str
    created_utc: str
    snapshot: SnapshotFacts
    driver: DriverFacts
    device: DeviceFacts
    placement: Placement
    window: WindowFacts
    verification: Verification
    timing: Timing | None
    application: ApplicationFacts
    notes: list[str] = field(default_factory=list)
    best_effort: bool = False
    wall_s: float = 0.0
    counters: WindowCounters | None = None
    nodes: list[NodeTime] = field(default_factory=list)
    hot: Timing | None = None
    launch_times: list[LaunchTime] = field(default_factory=list)
    fidelity: Fidelity | None = None
    restore: Restore | None = None
    serialized: Serialized | None = None
    profile: Profile | None = None
    relocation: Relocation | None = None
    variant: VariantFacts | None = None
    kernels: list[CapturedKernel] = field(default_factory=list)


@dataclass(frozen=True)
class WindowResult:
    """What became of one window of several. number: of the window. result: null when there is none. failure: why."""

    number: int
    result: RunResult | None
    failure: str = ""
