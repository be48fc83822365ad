"""Rounds of several candidates next to each other, until it is known which is best. Knows neither snapshots nor Triton.

In each round every candidate that is still in question is observed once, in an order drawn by lot. After the rounds at
which `compare` may form a verdict, each is judged by its rule against the one that was fastest so far: what is SLOWER
leaves. A false winner among equal candidates would have to beat every other one of them by that rule.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.bisect.stages import SkippedError
from replay.compare.rounds import MAXIMUM_REPEATS, Observation, Round, RoundLimits, is_exact, resolution
from replay.compare.verdict import LOOKS, Judgement, Verdict, estimate, give_up, is_look, judge
from replay.text import number

_lots = random.SystemRandom()
REFERENCE = 0  # the candidate that stays to the end: as captured


@dataclass
class Contest:
    """What was observed. times: of each candidate, round by round from the first; ended: candidates that have none any
    more, with FAILED, WRONG or UNSURE (outputs that cannot be told) and why. judged: of each other candidate, beside
    `best`, the verdict about it; what left is SLOWER."""

    observed: dict[int, list[Observation]] = field(default_factory=dict)
    places: dict[int, list[int]] = field(default_factory=dict)  # in the order of each round
    ended: dict[int, tuple[str, str]] = field(default_factory=dict)
    judged: dict[int, Judgement] = field(default_factory=dict)
    best: int | None = None
    rounds: int = 0
    spoiled: list[str] = field(default_factory=list)

    def pairs(self, a: int, b: int) -> list[Round]:
        """Both, in the rounds in which both took part."""
        found = zip(self.observed.get(a, ()), self.observed.get(b, ()), strict=False)
        places = zip(self.places.get(a, ()), self.places.get(b, ()), strict=False)
        return [Round(one, other, q < p) for (one, other), (p, q) in zip(found, places, strict=True)]


def hold(
    observe: Callable[[int], Observation],
    candidates: Sequence[int],
    limits: RoundLimits,
    *,
    say: Callable[[str], None] = lambda text: None,
    now_s: Callable[[], float] = time.monotonic,
    shuffle: Callable[[list[int]], None] = _lots.shuffle,
) -> Contest:
    """Observe the candidates until all but the best are SLOWER or SAME, or a limit is reached.

    What `observe` raises as SkippedError ends that candidate. Those with wrong outputs end at once: their time is none.
    """
    found = Contest()
    alive = list(candidates)
    begin_s = now_s()
    maximum = limits.exactly or LOOKS[-1]
    why = ""
    while found.rounds < maximum and alive:
        if limits.budget_s is not None and found.rounds and now_s() - begin_s >= limits.budget_s:
            why = f"its budget of {limits.budget_s:.3g} s is over after {number(found.rounds, 'round')}"
            break
        say(f"round {found.rounds + 1} of {number(len(alive), 'configuration')}")
        alive = _round(observe, alive, found, shuffle)
        found.rounds += 1
        exact = all(is_exact(found.pairs(alive[0], at)) for at in alive) if alive else True
        last = found.rounds == maximum
        if not (last if limits.exactly else is_look(found.rounds, exact=exact)):
            continue
        alive = _look(found, alive, limits)
        if len(alive) < 2 or all(at in found.judged for at in alive if at != found.best):
            return found
    _end(found, alive, limits, why or f"undecided after {number(found.rounds, 'round')}")
    return found


def _round(
    observe: Callable[[int], Observation],
    alive: list[int],
    found: Contest,
    shuffle: Callable[[list[int]], None],
) -> list[int]:
    """One observation of each. Returns those that go on."""
    for attempt in range(MAXIMUM_REPEATS + 1):
        order = list(alive)
        shuffle(order)
        seen: dict[int, Observation] = {}
        for at in order:
            try:
                seen[at] = observe(at)
            except SkippedError as error:
                found.ended[at] = "FAILED", str(error)
                continue
            if seen[at].wrong or seen[at].doubt:
                found.ended[at] = ("WRONG", seen[at].wrong) if seen[at].wrong else ("UNSURE", seen[at].doubt)
        alive = [at for at in alive if at not in found.ended]
        reason = next((seen[at].spoiled for at in alive if seen[at].spoiled), "")
        if not reason or attempt == MAXIMUM_REPEATS:
            break
        found.spoiled.append(reason)
    for at in alive:
        found.observed.setdefault(at, []).append(seen[at])
        found.places.setdefault(at, []).append(order.index(at))
    return alive


def _look(found: Contest, alive: list[int], limits: RoundLimits) -> list[int]:
    """Judge all beside the fastest. Returns those that go on."""
    if not alive:
        return []
    found.best = best = min(
        alive, key=lambda at: math.fsum(math.log(item.time_ns) for item in found.observed[at])
    )
    for at in alive:
        found.judged.pop(at, None)
    for at in alive:
        if at != best and (judgement := _judged(found, best, at, limits)) is not None:
            found.judged[at] = judgement
    beaten = {at for at in alive if at in found.judged and found.judged[at].verdict is Verdict.SLOWER}
    return [at for at in alive if at not in beaten or at == REFERENCE]


def _judged(found: Contest, best: int, at: int, limits: RoundLimits) -> Judgement | None:
    pairs = found.pairs(best, at)
    cycles = [item.cycles_difference for item in pairs]
    judgement = judge(
        [item.difference for item in pairs],
        limits.minimum_effect,
        [value for value in cycles if value is not None],
        resolution(pairs),
    )
    if judgement is not None and judgement.verdict is Verdict.SLOWER and judgement.reason:
        # Of the clock alone: not the configuration's doing.
        return Judgement(Verdict.SAME, judgement.reason, judgement.estimate, judgement.smallest_effect)
    return None if judgement is not None and judgement.verdict is Verdict.FASTER else judgement


def _end(found: Contest, alive: list[int], limits: RoundLimits, why: str) -> None:
    """Whatever is not decided by now stays so."""
    if found.best not in alive:
        _look(found, alive, limits)
    for at in alive:
        if at == found.best or at in found.judged or found.best is None:
            continue
        pairs = found.pairs(found.best, at)
        differences = [item.difference for item in pairs]
        found.judged[at] = give_up(differences, limits.minimum_effect, why, resolution(pairs))


def ratio_of(found: Contest, a: int, b: int) -> tuple[float, float, float] | None:
    """Time of b over that of a with its interval, of the rounds that both were in; None of fewer than two."""
    differences = [item.difference for item in found.pairs(a, b)]
    if len(differences) < 2:
        return None
    seen = estimate(differences)
    return seen.ratio, seen.low, seen.high
