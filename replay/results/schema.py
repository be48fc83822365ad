"""What the result of one replay holds: `replay.result/1`. docs/results.md describes every field.

The same map is the file (`store.py`) and, with a `schema` in front, the output of `replay run --json`. Field names
carry their units. Fields are only added, with defaults, so that results of older versions stay readable.
"""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass
from replay.results.run.origin import ApplicationFacts, DeviceFacts, DriverFacts, SnapshotFacts, WindowFacts
from replay.results.run.placement import (
    Placement,
    Relocation,
)
from replay.results.run.timing import (
    Fidelity,
    LaunchTime,
    NodeTime,
    Profile,
    Restore,
    Serialized,
    Timing,
    WindowCounters,
)
from replay.results.run.trust import Trust
from replay.results.run.variant import (
    CapturedKernel,
    VariantFacts,
)
from replay.results.run.verification import (
    Verification,
)

FORMAT = "replay.result/1"


@dataclass(frozen=True)
class RunResult:
    """One replay of one snapshot. notes: what was done differently from the application, or is missing from the
    capture. timing: cold; hot: without a flush; each None when it was not asked for or impossible (a note says why).
    nodes: with --expand-graphs. counters: with --counters, on the built-in CPU driver. relocation: with --shift.
    variant: what was changed; None: as captured. kernels: what the captured ones are made of. command: the
    words that were typed after `replay`, without those that say what to do with the result. trust: with --untrusted or
    --vary-inputs."""

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
    command: list[str] = field(default_factory=list)
    trust: Trust | None = None

    @property
    def timings(self) -> list[Timing]:
        """With cold caches, then with hot ones, as far as they were taken."""
        return [timing for timing in (self.timing, self.hot) if timing is not None]


@dataclass(frozen=True)
class WindowResult:
    """What became of one window of several. number: of the window. result: null when there is none. failure: why."""

    number: int
    result: RunResult | None
    failure: str = ""
