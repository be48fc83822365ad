"""A search that asks about several candidates at once: wave after wave, each on as many devices as are free."""

from __future__ import annotations

import bisect
import itertools
import random
from dataclasses import dataclass

from replay.bisect.search import Search, StepEvidence

EACH = (1, 2, 4, 8)  # rounds of one candidate in a wave
_TELLS = 0.005  # of the probability, on the smaller side of a candidate; what splits off less is not asked
_STEPS = 20_000  # of simulation: searches times candidates
_MOST_SEARCHES = 100


def wave(search: Search, most: int) -> list[int]:
    """The candidates, at most so many, that together split the probability most evenly. Empty when none is left."""
    below = list(itertools.accumulate(search.posterior()))
    asked = [at for at in range(1, search.count - 1) if at not in search.excluded]
    shares = [below[at] for at in asked]
    found: dict[int, float] = {}
    for part in range(1, most + 1):
        place = bisect.bisect_left(shares, part / (most + 1))
        near = [at for at in (place - 1, place) if 0 <= at < len(asked)]
        if near:
            best = min(near, key=lambda at: abs(shares[at] - part / (most + 1)))
            found[asked[best]] = min(shares[best], 1 - shares[best])
    return sorted(at for at, share in found.items() if share > _TELLS or share == max(found.values()))


@dataclass(frozen=True)
class Expected:
    """By simulation. each: rounds of one candidate in a wave. waves, rounds: on average over the simulated searches.
    wall_s: of all waves."""

    each: int
    waves: float
    rounds: float
    wall_s: float


def expected(count: int, evidence: StepEvidence, at_once: int, round_s: float, start_s: float) -> Expected:
    """Of a search over `count` candidates, at_once of them at a time: with as many rounds of each as take the least
    time. round_s: of one round; start_s: of a wave besides. Noise is normal; the first bad one is anywhere."""
    outcomes = []
    for each in EACH[:1] if evidence.exact else EACH:
        waves, rounds = _simulated(count, evidence, at_once, each)
        outcomes.append(Expected(each, waves, rounds, waves * (start_s + each * round_s)))
    return min(outcomes, key=lambda outcome: outcome.wall_s)


def _simulated(count: int, evidence: StepEvidence, at_once: int, each: int) -> tuple[float, float]:
    lots = random.Random(count * 1000 + at_once * 10 + each)
    noise = 0.0 if evidence.exact else evidence.deviation
    searches = max(5, min(_MOST_SEARCHES, _STEPS // count))
    waves = rounds = 0
    for _ in range(searches):
        first_bad = lots.randrange(1, count)
        search = Search(count, evidence)
        while not search.finished:
            waves += 1
            for candidate in wave(search, at_once):
                for _ in range(each):
                    search.observe(candidate, evidence.step * (candidate >= first_bad) + lots.gauss(0, noise))
        rounds += search.rounds
    return waves / searches, rounds / searches
