"""What a bisection found, and the state that lets an interrupted one go on: `replay.bisection/1`.

docs/bisect.md describes every field. Fields are only added, with defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.results.comparison import ComparedKernel

FORMAT = "replay.bisection/1"


@dataclass(frozen=True)
class BisectedCandidate:
    """One candidate. group: position of the first candidate with the same machine code, its own when there is none
    before it. skipped: why it could not be observed, "" when it could or was not asked; log: what the compiler or the
    command said then. probability: that it is the first bad one. kernels: what they are made of, where it was built."""

    label: str
    variant: str
    group: int
    skipped: str = ""
    identity: str = ""
    observations: list[float] = field(default_factory=list)
    probability: float = 0.0
    log: str = ""
    kernels: list[ComparedKernel] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One change. last_good, first_bad: positions of candidates. between: those in the middle that could not be
    observed. ratio: first bad / last good, with its interval, of times. share: of the change between the ends."""

    last_good: int
    first_bad: int
    probability: float
    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    share: float | None = None
    between: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Bisection:
    """The whole search. rounds: taken in all, those at the ends and of the verification included. device, driver,
    driver_version: of the first candidate that was replayed; "" and 0 with exec. ended: why nothing was searched; then
    there are no steps, and the candidates are merged by their machine code."""

    format: str
    tool_version: str
    created_utc: str
    snapshot: str
    over: str
    symptom: str
    candidates: list[BisectedCandidate]
    steps: list[Step]
    rounds: int
    source: str = ""
    ratio: float | None = None
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    device: str = ""
    driver: str = ""
    driver_version: int = 0
    ended: str = ""
