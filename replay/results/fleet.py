"""What a fleet is asked for, what each unit of it gave, and a night as a whole. docs/fleet.md describes every field.

Fields are only added, with defaults.
"""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass
from replay.results.comparison import ComparedRow

PLAN_FORMAT = "replay.fleet.plan/1"
UNIT_FORMAT = "replay.fleet.unit/1"
FORMAT = "replay.fleet/1"
# What matters most comes first
VERDICTS = ("WRONG", "SLOWER", "QUARANTINED", "FAILED", "UNSUPPORTED", "UNSURE", "FASTER", "OPEN", "SAME")


@dataclass(frozen=True)
class FleetProblem:
    """Something that was left out. where: in the corpus, the matrix or the folder of results. why: the reason."""

    where: str
    why: str


@dataclass(frozen=True)
class FleetUnit:
    """A unit of work: one window of one snapshot, with both sides of one comparison, on one kind of device. id: of what
    is asked, equal in every night. snapshot: its path in the corpus. identity: of its content. comparison: name of the
    entry of the matrix. a, b: variants. rounds: exactly so many; None: as the matrix says. owner: place of its owner
    among those of the matrix, from 0; -1 for none, and in plans of older versions."""

    id: str
    snapshot: str
    identity: str
    window: int | None
    kernels: list[str]
    kind: str
    comparison: str
    a: str
    b: str
    rounds: int | None = None
    owner: int = -1

    @property
    def kernel(self) -> str:
        """For people."""
        return ", ".join(self.kernels) or "no kernel"


@dataclass(frozen=True)
class FleetPlan:
    """What a night is to do. corpus: the folder. units: of work. confirm: whether another device repeats what changed.
    canary: the snapshot that every device is watched with, "" none. commits: of the repositories that the matrix names.
    problems: what was left out. search: it is a wave of a search, of which no results are kept."""

    format: str
    tool_version: str
    created_utc: str
    corpus: str
    confirm: bool
    units: list[FleetUnit]
    canary: str = ""
    commits: dict[str, str] = field(default_factory=dict)
    problems: list[FleetProblem] = field(default_factory=list)
    search: bool = False


@dataclass(frozen=True)
class FleetMeasured:
    """What one device found for one unit. unit: its id. node, device: which one. row: A and B, side by side; a verdict
    UNSUPPORTED is that of a device that cannot replay it. canary_ratio: of the canary beside it to the history of this
    device; None when there is none. canary_limit: a change of the canary that counts. warnings: about the times.
    created_utc: when it was done, by the clock of its node. wall_s: how long it took."""

    format: str
    tool_version: str
    created_utc: str
    unit: str
    node: str
    device: str
    row: ComparedRow
    canary_ratio: float | None = None
    canary_limit: float | None = None
    warnings: list[str] = field(default_factory=list)
    wall_s: float = 0.0


@dataclass(frozen=True)
class FleetAttempt:
    """A unit that a device began. unit: its id. node, device: which one. reason: why it did not end, "" when nothing
    was left to say so."""

    unit: str
    node: str
    device: str
    created_utc: str
    reason: str = ""


@dataclass(frozen=True)
class FleetCause:
    """What a search found for a step. unit: its id. text: in one line."""

    unit: str
    created_utc: str
    text: str


@dataclass(frozen=True)
class FleetDevice:
    """A device that worked in a night. node: its machine. device: UUID, or kind and number. name: that its driver
    gives. state: free, excluded or drained. reason: of that. units: how many it did. canary_ratio: of its last canary
    to its history, None when unknown; canary_limit: the change that counts. noise: half of the width of the intervals
    of its units, as a fraction (median); None without any. clock_s: how far the clock of the node is ahead of that of
    the file server, in seconds, where it is more than a minute."""

    node: str
    device: str
    kind: str
    name: str = ""
    state: str = "free"
    reason: str = ""
    units: int = 0
    canary_ratio: float | None = None
    canary_limit: float | None = None
    noise: float | None = None
    clock_s: float | None = None


@dataclass(frozen=True)
class FleetCase:
    """A unit with its verdict in the night. unit: its id. comparison: name of the entry of the matrix. attempts: that
    did not end. verdict: FASTER, SLOWER, SAME, UNSURE, WRONG, UNSUPPORTED, QUARANTINED (it was begun as often as
    allowed) or OPEN. device, node: that measured it; confirmed_by: that found the same after it, "" none. alert: it is
    for somebody to look at: WRONG, SLOWER or QUARANTINED, and nobody has quarantined its kernel. quarantined: why not.
    single: what one device alone says, where that was taken back. cause: what a search found."""

    unit: str
    snapshot: str
    window: int | None
    kernel: str
    kind: str
    comparison: str
    verdict: str
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    a_ns: float | None = None
    b_ns: float | None = None
    a: str = ""
    b: str = ""
    source: str = ""
    device: str = ""
    node: str = ""
    confirmed_by: str = ""
    attempts: int = 0
    alert: bool = False
    quarantined: str = ""
    single: str = ""
    team: str = ""
    link: str = ""
    driver_version: int = 0
    warnings: list[str] = field(default_factory=list)
    cause: str = ""

    @property
    def place(self) -> int:
        """Of its verdict in VERDICTS; one of a newer replay comes after all others."""
        return VERDICTS.index(self.verdict) if self.verdict in VERDICTS else len(VERDICTS)

    @property
    def window_name(self) -> str:
        """For people."""
        return self.snapshot + ("" if self.window is None else f" window {self.window}")


@dataclass(frozen=True)
class Fleet:
    """A night. night: its name. units: how many were asked for. done: of them. running: that are being done. stuck:
    that were begun as often as is allowed. per_hour: how fast, over the last ones; left_s: until the end at that rate;
    both None when not known. cases: the units. devices: all that worked. changes: what is not as in the night before:
    commits, drivers. corpus: the folder of the snapshots."""

    format: str
    tool_version: str
    created_utc: str
    night: str
    units: int
    done: int
    running: int
    stuck: int
    per_hour: float | None = None
    left_s: float | None = None
    cases: list[FleetCase] = field(default_factory=list)
    devices: list[FleetDevice] = field(default_factory=list)
    problems: list[FleetProblem] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    corpus: str = ""

    @property
    def alerts(self) -> list[FleetCase]:
        """What somebody should look at."""
        return [case for case in self.cases if case.alert]
