"""What a bisection knows so far: what `--state` keeps, and what the result says of its candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.bisect.candidates import Candidate
from replay.bisect.commits import Commit
from replay.compare.verdict import estimate
from replay.results.bisection import BisectedCandidate, SearchRound
from replay.results.comparison import ComparedKernel

MAXIMUM_COURSE = 1000


@dataclass
class Progress:
    """What is known so far. Everything that `--state` needs, in plain values."""

    count: int
    groups: list[int] = field(default_factory=list)
    identities: list[str] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)
    # Of the skipped, what their compilers said; of commands the end
    logs: dict[int, str] = field(default_factory=dict)
    rounds: int = 0
    observations: dict[int, list[float]] = field(default_factory=dict)
    searches: dict[str, dict[str, Any]] = field(default_factory=dict)  # "low-high" -> state of a search
    # "low-high" -> [a_ns, b_ns, both are exact]
    pairs: dict[str, list[list[float]]] = field(default_factory=dict)
    exact: bool = False
    # Of each round between the ends, the fields of a SearchRound
    course: list[list[float]] = field(default_factory=list)

    def add_round(self, *values: float) -> None:
        """Of the first MAXIMUM_COURSE rounds."""
        if len(self.course) < MAXIMUM_COURSE:
            self.course.append([*values])

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        of_candidates = ("skipped", "logs", "observations")
        return vars(self) | {
            name: {str(key): value for key, value in getattr(self, name).items()} for name in of_candidates
        }

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Progress:
        """What `plain` gave. Raises ValueError, KeyError or TypeError when it is something else."""
        value = {"course": [], **value}  # what an earlier version wrote has none
        known = {name: value[name] for name in cls.__dataclass_fields__}
        for name in ("skipped", "logs"):
            known[name] = {int(key): str(text) for key, text in known[name].items()}
        known["observations"] = {
            int(key): [float(number) for number in numbers] for key, numbers in known["observations"].items()
        }
        known["course"] = [[float(number) for number in one] for one in known["course"]]
        return cls(**known)


def candidates_of(
    progress: Progress,
    candidates: Sequence[Candidate],
    posterior: list[float],
    made_of: dict[int, list[ComparedKernel]],
    commits: list[Commit] | None = None,
    times_ns: dict[int, float] | None = None,
) -> list[BisectedCandidate]:
    """The candidates as the result has them. made_of: kernels of those that were built. times_ns: of those that were
    timed, the last ones."""
    times_ns = times_ns or {}
    return [
        BisectedCandidate(
            label=candidate.label,
            variant=candidate.variant,
            group=progress.groups[at] if at < len(progress.groups) else at,
            skipped=progress.skipped.get(at, ""),
            identity=progress.identities[at] if at < len(progress.identities) else "",
            observations=progress.observations.get(at, []),
            probability=posterior[at] if posterior else 0.0,
            log=progress.logs.get(at, ""),
            kernels=made_of.get(at, []),
            subject=commits[at].subject if commits else "",
            date=commits[at].date if commits else "",
            time_ns=times_ns.get(at),
            **(_ratio(progress.observations.get(at, [])) if times_ns else {}),
        )
        for at, candidate in enumerate(candidates)
    ]


def _ratio(observations: list[float]) -> dict[str, float]:
    """Of a candidate's time to that of the good end; with an interval where one can be known."""
    if not observations:
        return {}
    if len(observations) < 2:
        return {"ratio": math.exp(observations[0])}
    found = estimate(observations, 0.05)
    return {"ratio": found.ratio, "low": found.low, "high": found.high}


def course_of(progress: Progress) -> list[SearchRound]:
    """The rounds as the result has them."""
    return [
        SearchRound(int(good), int(bad), int(at), seen, int(first), probability, int(low), int(high))
        for good, bad, at, seen, first, probability, low, high in progress.course
    ]
