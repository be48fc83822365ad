"""What a bisection found, and the state that lets an interrupted one go on: `replay.bisection/1`.

docs/bisect.md describes every field. Fields are only added, with defaults.
"""

from __future__ import annotations

import math
from dataclasses import field

from replay.errors import FormatError
from replay.records import dataclass
from replay.results.comparison import ComparedKernel

FORMAT = "replay.bisection/1"


@dataclass(frozen=True)
class BisectedCandidate:
    """One candidate. group: position of the first candidate with the same machine code, its own when there is none
    before it. skipped: why it could not be observed, "" when it could or was not asked; log: what the compiler said
    then, or the end of what the command of exec said last. subject: of the commit that the candidate names, "" when it
    is none; date: of that commit, as 2026-11-27. probability: that it is the first bad one. kernels: what they are made
    of, where it was built. ratio: of its time to that of the good end, with its interval of 95 % where there are two
    rounds at least; time_ns: median of the last replay of it. None where it was not timed."""

    label: str
    variant: str
    group: int
    skipped: str = ""
    identity: str = ""
    observations: list[float] = field(default_factory=list)
    probability: float = 0.0
    log: str = ""
    kernels: list[ComparedKernel] = field(default_factory=list)
    subject: str = ""
    date: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    time_ns: float | None = None


@dataclass(frozen=True)
class SearchRound:
    """One round of a search, and what was known after it. good, bad: the ends of the search. candidate: the one that
    was observed; observation: what was seen, as in BisectedCandidate. first_bad: the likeliest one, with its
    probability. low, high: from which candidate to which the first bad one is with a probability of 95 %."""

    good: int
    bad: int
    candidate: int
    observation: float
    first_bad: int
    probability: float
    low: int
    high: int


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
    there are no steps, and the candidates are merged by their machine code. stopped: why no more rounds were taken.
    course: the rounds between the ends, in order. command: the words that were typed after `replay`."""

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
    command: list[str] = field(default_factory=list)
    stopped: str = ""
    course: list[SearchRound] = field(default_factory=list)


def require_consistent(result: Bisection) -> None:
    """Of one that a stranger may have written. Raises FormatError where a position or a probability is none."""
    count = len(result.candidates)
    positions = [item.group for item in result.candidates]
    positions += [at for step in result.steps for at in (step.last_good, step.first_bad, *step.between)]
    positions += [
        at
        for one in result.course
        for at in (one.good, one.bad, one.candidate, one.first_bad, one.low, one.high)
    ]
    if not all(0 <= at < count for at in positions):
        raise FormatError(f"names candidates that it does not have: there are {count}")
    probabilities = [
        *(item.probability for item in result.candidates),
        *(step.probability for step in result.steps),
        *(one.probability for one in result.course),
    ]
    if not all(0 <= one <= 1 for one in probabilities):
        raise FormatError("has a probability that is not between 0 and 1")
    times = [
        value
        for item in result.candidates
        for value in (item.ratio, item.low, item.high, item.time_ns)
        if value is not None
    ]
    if not all(0 < value < math.inf for value in times):
        raise FormatError("has a time that is none")
