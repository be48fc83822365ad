"""What a bisection knows so far: what `--state` keeps, and what the result says of its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.bisect.candidates import Candidate
from replay.results.bisection import BisectedCandidate
from replay.results.comparison import ComparedKernel


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

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        of_candidates = ("skipped", "logs", "observations")
        return vars(self) | {
            name: {str(key): value for key, value in getattr(self, name).items()} for name in of_candidates
        }

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Progress:
        """What `plain` gave. Raises ValueError, KeyError or TypeError when it is something else."""
        known = {name: value[name] for name in cls.__dataclass_fields__}
        for name in ("skipped", "logs"):
            known[name] = {int(key): str(text) for key, text in known[name].items()}
        known["observations"] = {
            int(key): [float(number) for number in numbers] for key, numbers in known["observations"].items()
        }
        return cls(**known)


def candidates_of(
    progress: Progress,
    candidates: Sequence[Candidate],
    posterior: list[float],
    made_of: dict[int, list[ComparedKernel]],
    subjects: list[str] | None = None,
) -> list[BisectedCandidate]:
    """The candidates as the result has them. made_of: kernels of those that were built. subjects: of commits."""
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
            subject=subjects[at] if subjects else "",
        )
        for at, candidate in enumerate(candidates)
    ]
