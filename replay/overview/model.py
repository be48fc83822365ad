"""What a page shows of one window. Plain values, no larger than their limits say, whatever the snapshot holds."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from replay.images.model import KernelInfo
from replay.inspection.requirements import Requirements
from replay.outputs.elements import Region
from replay.snapshot.contents import SnapshotInfo
from replay.snapshot.schema import Image, Kernel, Note, Range, Summary, Window


@dataclass(frozen=True)
class CallKind:
    """What calls have in common. sort: launch, copy, fill, order (events, waits of streams), wait (of the host) or
    other. stream: as the application named it, None for a call that is of no stream. text: geometry of a launch, the
    call as people read it otherwise."""

    function: str
    sort: str
    thread: int
    stream: int | None
    kernel: str = ""
    text: str = ""


@dataclass
class Timeline:
    """The calls of the window in their order, as columns. which: of `kinds`. gpu_ns: -1 where a launch was not timed.
    arrows: (from, to) places of calls, of which the second waits for what was before the first. total: calls in the
    window, of which the first are here. timed: whether the application's clock is known."""

    kinds: list[CallKind] = field(default_factory=list)
    which: array[int] = field(default_factory=lambda: array("I"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    begin_ns: array[int] = field(default_factory=lambda: array("q"))
    end_ns: array[int] = field(default_factory=lambda: array("q"))
    gpu_ns: array[int] = field(default_factory=lambda: array("q"))
    arrows: list[tuple[int, int]] = field(default_factory=list)
    arrows_left_out: int = 0
    total: int = 0

    @property
    def timed(self) -> bool:
        return len(self.begin_ns) > 1 and 0 < self.begin_ns[0] < self.begin_ns[-1]


@dataclass(frozen=True)
class Use:
    """What a kernel, or a call that copies or fills, does with an allocation. how: reads, writes, "reads and writes",
    or "is given" where its PTX does not tell. times: launches or calls."""

    name: str
    how: str
    times: int


@dataclass(frozen=True)
class Sample:
    """Contents at one moment, as far as they were looked at. moment: before or after the window. element: type of the
    elements; known: whether anything said so, and not only their being bytes. pieces: how many of how many were read;
    fewer: of large memory. bins: of elements from low to high, below and above: those outside. cells: the mean of each
    of `rows` x `columns` stretches on a scale of 1 to 255 from cell_low to cell_high, 0 where there is no number.
    changed: for each cell, how much of it the window changed, 0 to 255; empty when only one moment is known."""

    moment: str
    element: str
    known: bool
    origin: str
    pieces: tuple[int, int]
    read_bytes: int
    count: int
    zeros: int
    nans: int
    infinities: int
    least: float
    greatest: float
    mean: float
    low: float
    high: float
    below: int
    above: int
    bins: list[int]
    rows: int
    columns: int
    row_offsets: list[int]
    cells: bytes
    cell_low: float
    cell_high: float
    changed: bytes = b""


@dataclass
class Allocation:
    """One piece of memory. points_to, pointed_by: (id of a range, how many words), the most first. sample: None where
    its contents were not looked at; `why_not` says why."""

    range: Range
    changed_bytes: int | None
    regions: list[Region] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    points_to: list[tuple[int, int]] = field(default_factory=list)
    pointed_by: list[tuple[int, int]] = field(default_factory=list)
    sample: Sample | None = None
    why_not: str = ""


@dataclass
class MemoryMap:
    """allocations: the largest, by address; left_out, left_out_bytes: the others. words: pointers between them."""

    allocations: list[Allocation] = field(default_factory=list)
    left_out: int = 0
    left_out_bytes: int = 0
    words: int = 0
    notes: list[str] = field(default_factory=list)


MAXIMUM_LINES = 600  # of a listing
LONGEST_LINE = 200


@dataclass(frozen=True)
class CodeLine:
    """A line of PTX or machine code. place: "saxpy.cu:12" where it comes from other source than the line before."""

    text: str
    place: str = ""


@dataclass(frozen=True)
class Code:
    """A listing. left_out: lines beyond its limit. why_not: why there is none."""

    what: str
    lines: list[CodeLine] = field(default_factory=list)
    left_out: int = 0
    why_not: str = ""


@dataclass(frozen=True)
class KernelCode:
    """A kernel of the window. info: as its image has it. launches: in the window; gpu_ns: of those that were timed
    together, None for none; timed: how many these are. codes: IR where it was kept, PTX and machine code."""

    kernel: Kernel
    info: KernelInfo | None
    codes: list[Code]
    gpu_ns: int | None = None
    timed: int = 0


@dataclass
class Branch:
    """A Python frame with what it called, or a kernel. place: file and line in full. weight: GPU time in nanoseconds of
    its launches where `timed` of the root says so, else how many they are. branches: by name and place."""

    name: str
    place: str
    launches: int = 0
    weight: float = 0
    timed: bool = False
    branches: dict[tuple[str, str], Branch] = field(default_factory=dict)


@dataclass(frozen=True)
class Overview:
    """One window of a snapshot. window: None of a file with one. kernels_left_out: beyond the limit. origins: None
    where no frames were kept."""

    info: SnapshotInfo
    window: Window | None
    summary: Summary | None
    needs: Requirements | None
    why_no_needs: str
    notes: list[Note]
    kernels: list[KernelCode]
    kernels_left_out: int
    images: list[tuple[Image, str]]
    memory: MemoryMap
    timeline: Timeline
    origins: Branch | None = None
