"""What the comparison of two sides holds: `replay.comparison/1`. docs/compare.md describes every field.

Field names carry their units. Fields are only added, with defaults.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass
from replay.results.run.timing import WindowCounters
from replay.results.run.variant import CompiledKernel, KeptImage

FORMAT = "replay.comparison/1"


@dataclass(frozen=True)
class ComparedKernel(CompiledKernel):
    """A kernel of a side. image: digest of the image of its module. launched_from, defined_at: of the captured kernel,
    as `run` has them."""

    image: str = ""
    launched_from: str = field(default="", compare=False)
    defined_at: str = field(default="", compare=False)


@dataclass(frozen=True)
class ComparedLaunch:
    """One launch of a window of several: medians over the rounds of its time, between two events around it."""

    call: int
    kernel: str
    a_ns: float
    b_ns: float


@dataclass(frozen=True)
class ComparedSide:
    """One side of one row. variant: what was changed from the snapshot, "" nothing. time_ns: median over
    the rounds of the medians of their samples; None when nothing was measured. cycles: the same in SM cycles, None
    where they are not known. counters: of one replay on the CPU driver; None where nothing was counted.
    folder: in which the snapshot was, as it was named; "" where that is not known."""

    snapshot: str
    window: int | None
    variant: str
    identity: str = ""
    device: str = ""
    driver: str = ""
    driver_version: int = 0
    time_ns: float | None = None
    outputs: str = ""
    kernels: list[ComparedKernel] = field(default_factory=list)
    cycles: float | None = None
    counters: WindowCounters | None = None
    folder: str = ""


@dataclass(frozen=True)
class ComparedRound:
    """One round: medians of two neighbouring fresh processes. cycles: of the SM clock; power_w: that the device drew in
    watts, as NVML said beside the samples; both None where they are not known. quartiles_ns: lower and upper one of the
    samples, empty where they are not known."""

    a_ns: float
    b_ns: float
    b_first: bool
    a_cycles: float | None = None
    b_cycles: float | None = None
    a_power_w: float | None = None
    b_power_w: float | None = None
    a_quartiles_ns: list[float] = field(default_factory=list)
    b_quartiles_ns: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ComparedRow:
    """One kernel, or one window of several. ratio: B / A, with the interval low .. high; None when there is none.

    verdict: FASTER, SLOWER, SAME, UNSURE, WRONG, or FAILED when a side could not be replayed. single: what the rounds
    of this row alone say, when that was taken back because too many of the rows would be chance. spoiled: rounds that
    were repeated, and why. launches: of a window of several, the largest change first. chance: the probability of so
    large a difference where both sides are equal (a p-value), all looks at the rounds counted; None when it cannot be
    told.
    """

    kernel: str
    a: ComparedSide
    b: ComparedSide
    verdict: str
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    smallest_effect: float | None = None
    time: Literal["GPU time", "host time"] = "GPU time"
    source: Literal["measured", "modelled"] = "measured"
    single: str = ""
    rounds: list[ComparedRound] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)
    launches: list[ComparedLaunch] = field(default_factory=list)
    chance: float | None = None


@dataclass(frozen=True)
class Mean:
    """The geometric mean of the ratios of all rows that have one."""

    ratio: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class Comparison:
    """All rows. total_*_ns: sums over the rows that have a time on both sides. unmatched: what only one side has.
    replays_s: the part of wall_s that the replays took.
    kept: images that variants put in, and those whose place they took.
    """

    format: str
    tool_version: str
    created_utc: str
    minimum_effect: float
    rows: list[ComparedRow]
    total_a_ns: float | None = None
    total_b_ns: float | None = None
    mean: Mean | None = None
    unmatched: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    replays_s: float = 0.0
    kept: list[KeptImage] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
