"""The search for the first bad candidate under noise. Pure: fed with observations, asks for the next.

The candidates have an order; the first is known to be good, the last to be bad, and one change is somewhere between.
Every observation moves a probability over where it is. A single misleading observation never decides: what one round
may say is bounded, and the search goes on asking around the place until it is certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from replay.timing.student import log_density

CERTAIN = 0.99
MAXIMUM_ROUNDS = 200
LIKELY = 0.95
_DEGREES = 4  # of freedom: rounds have heavier tails than a normal distribution
_CERTAINTY = 50.0
_MAXIMUM_EVIDENCE = 4.0  # of one round, a natural logarithm of a ratio of probabilities


class Evidence(Protocol):
    """What one observation of a candidate says."""

    def of(self, observation: float) -> float:
        """ln(probability of it if the candidate is bad / if it is good)."""
        ...


@dataclass(frozen=True)
class StepEvidence:
    """Of times. step: ln(bad / good) between the ends; deviation: of one round's ln(candidate / good end). exact: the
    clock is deterministic, so that one round says it all."""

    step: float
    deviation: float
    exact: bool = False

    def of(self, observation: float) -> float:
        """observation: ln(candidate / good end) of one round."""
        if self.exact:
            return _CERTAINTY if observation > self.step / 2 else -_CERTAINTY
        scale = max(self.deviation, abs(self.step) * 1e-6)
        found = log_density((observation - self.step) / scale, _DEGREES)
        found -= log_density(observation / scale, _DEGREES)
        return min(max(found, -_MAXIMUM_EVIDENCE), _MAXIMUM_EVIDENCE)


@dataclass(frozen=True)
class FailureEvidence:
    """Of a symptom that a bad candidate shows with probability `bad` and a good one with probability `good`."""

    bad: float
    good: float

    def of(self, observation: float) -> float:
        """observation: 1 with the symptom, 0 without."""
        bad, good = (self.bad, self.good) if observation else (1 - self.bad, 1 - self.good)
        found = math.log(max(bad, 1e-6) / max(good, 1e-6))
        return min(max(found, -_MAXIMUM_EVIDENCE), _MAXIMUM_EVIDENCE)


@dataclass(frozen=True)
class Bracket:
    """Between which two candidates the change lies. skipped: candidates between them that could not be observed."""

    last_good: int
    first_bad: int
    probability: float

    @property
    def skipped(self) -> range:
        """Positions between both, any of which may be the first bad one."""
        return range(self.last_good + 1, self.first_bad)


@dataclass
class Search:
    """One search over candidates 0 .. count - 1, of which 0 is good and count - 1 is bad.

    weights: of "candidate k + 1 is the first bad one", natural logarithms, not normalised. Raises ValueError for fewer
    than two candidates.
    """

    count: int
    evidence: Evidence
    weights: list[float] = field(default_factory=list)
    excluded: set[int] = field(default_factory=set)
    rounds: int = 0

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ValueError("a search needs a good and a bad candidate")
        self.weights = self.weights or [0.0] * (self.count - 1)

    def observe(self, candidate: int, observation: float) -> None:
        """One round in which `candidate` was observed."""
        found = self.evidence.of(observation)
        for first_bad in range(1, candidate + 1):  # were one of these the first, the candidate would be bad
            self.weights[first_bad - 1] += found
        self.rounds += 1

    def exclude(self, candidate: int) -> None:
        """A candidate that cannot be observed."""
        self.excluded.add(candidate)

    def posterior(self) -> list[float]:
        """Probability of each candidate to be the first bad one; that of candidate 0 is 0."""
        highest = max(self.weights)
        raw = [math.exp(weight - highest) for weight in self.weights]
        total = math.fsum(raw)
        return [0.0, *(value / total for value in raw)]

    def best(self) -> Bracket:
        """The likeliest pair of neighbours among those that can be observed."""
        posterior = self.posterior()
        seen = [at for at in range(self.count) if at not in self.excluded or at in (0, self.count - 1)]
        return max(
            (
                Bracket(good, bad, math.fsum(posterior[good + 1 : bad + 1]))
                for good, bad in zip(seen, seen[1:], strict=False)
            ),
            key=lambda bracket: bracket.probability,
        )

    @property
    def finished(self) -> bool:
        """Whether nothing more has to be asked: certain, or out of rounds."""
        return self.best().probability >= CERTAIN or self.rounds >= MAXIMUM_ROUNDS or self._splitter() is None

    def next(self) -> int:
        """The candidate to observe: the one that splits the probability most evenly. Raises ValueError when none is
        left."""
        candidate = self._splitter()
        if candidate is None:
            raise ValueError("no candidate is left to ask")
        return candidate

    @property
    def why_finished(self) -> str:
        """In words, of a search that is."""
        best = self.best()
        if best.probability >= CERTAIN:
            return f"{100 * best.probability:.1f} % sure, and {100 * CERTAIN:.0f} % are enough"
        if self.rounds >= MAXIMUM_ROUNDS:
            return f"after {MAXIMUM_ROUNDS} rounds no more are taken, {100 * best.probability:.1f} % sure"
        return "no candidate is left to ask"

    def stretch(self) -> tuple[int, int]:
        """From which candidate to which the first bad one is, with a probability of LIKELY at least."""
        below, low, high = 0.0, None, self.count - 1
        for candidate, probability in enumerate(self.posterior()):
            below += probability
            if low is None and below > (1 - LIKELY) / 2:
                low = candidate
            if below >= 1 - (1 - LIKELY) / 2:
                high = candidate
                break
        return (high if low is None else low), high

    def _splitter(self) -> int | None:
        posterior = self.posterior()
        below, best, distance = 0.0, None, math.inf
        for candidate in range(1, self.count - 1):
            below += posterior[candidate]
            if candidate not in self.excluded and abs(below - 0.5) < distance:
                best, distance = candidate, abs(below - 0.5)
        return best

    def state(self) -> dict[str, Any]:
        """What `restored` needs, as plain values."""
        return {"weights": self.weights, "excluded": sorted(self.excluded), "rounds": self.rounds}

    @classmethod
    def restored(cls, count: int, evidence: Evidence, state: dict[str, Any]) -> Search:
        """The search in the state that `state` returned. Raises ValueError when it does not fit."""
        weights, excluded = (
            [float(value) for value in state["weights"]],
            {int(at) for at in state["excluded"]},
        )
        if len(weights) != count - 1 or not all(map(math.isfinite, weights)):
            raise ValueError(f"the state is of {len(weights) + 1} candidates, not {count}")
        return cls(count, evidence, weights, excluded, int(state["rounds"]))
