"""Rounds of two sides next to each other, until a verdict can be formed. Knows neither snapshots nor processes.

The order alternates (AB, BA, AB, ...), so that a drift of the device favours neither side.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replay.compare.verdict import (
    LOOKS,
    MINIMUM_EFFECT,
    Judgement,
    Verdict,
    give_up,
    is_look,
    judge,
)

MAXIMUM_REPEATS = 2  # of one round that was spoiled


@dataclass(frozen=True)
class Observation:
    """One side of one round: the replay of a fresh process.

    time_ns: median of its samples. cycles: the same in SM cycles, None when the clock is not known. exact: the clock is
    deterministic and its samples are all equal. spoiled: why the time does not count, "" when it does. wrong: what is
    wrong with the outputs, "" when they are right. power_w: that the device drew, None when it is not known.
    quartiles_ns: lower and upper one of the samples.
    """

    time_ns: float
    cycles: float | None = None
    exact: bool = False
    spoiled: str = ""
    wrong: str = ""
    power_w: float | None = None
    quartiles_ns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Round:
    """Two neighbours. b_first: the order in which they ran."""

    a: Observation
    b: Observation
    b_first: bool

    @property
    def difference(self) -> float:
        """ln(B / A) of the times."""
        return math.log(self.b.time_ns / self.a.time_ns)

    @property
    def wrong(self) -> str:
        """What is wrong with the outputs, "" when they are right. A time with wrong outputs is no time."""
        texts = [f"{name}: {side.wrong}" for name, side in (("A", self.a), ("B", self.b)) if side.wrong]
        if self.b.wrong and not self.a.wrong and self.b.time_ns < self.a.time_ns:
            texts.append(
                f"faster ({math.expm1(self.difference) * 100:+.2f} %), but wrong, which does not count"
            )
        return "; ".join(texts)

    @property
    def cycles_difference(self) -> float | None:
        """ln(B / A) of the cycles, where both are known."""
        if not self.a.cycles or not self.b.cycles:
            return None
        return math.log(self.b.cycles / self.a.cycles)


@dataclass(frozen=True)
class RoundLimits:
    """When to end. exactly: so many rounds and one look after the last; None: looks after 6, 8, 11, 15, 20 and 28.
    budget_s: of wall time, after which no round begins."""

    minimum_effect: float = MINIMUM_EFFECT
    exactly: int | None = None
    budget_s: float | None = None


@dataclass
class Rounds:
    """All rounds of one comparison. spoiled: why rounds were thrown away, one text for each."""

    rounds: list[Round] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)
    judgement: Judgement = field(default_factory=lambda: Judgement(Verdict.UNSURE, "no rounds", None))


def take_rounds(
    a: Callable[[], Observation],
    b: Callable[[], Observation],
    limits: RoundLimits,
    *,
    progress: Callable[[Rounds], None] = lambda rounds: None,
    now_s: Callable[[], float] = time.monotonic,
) -> Rounds:
    """Take rounds until the verdict is clear or a limit is reached. Wrong outputs end it at once.

    Whatever a side raises passes through: a side that cannot run is no slow side.
    """
    taken = Rounds()
    begin_s = now_s()
    maximum = limits.exactly or LOOKS[-1]
    while len(taken.rounds) < maximum:
        if limits.budget_s is not None and taken.rounds and now_s() - begin_s >= limits.budget_s:
            return _ended(taken, limits, f"the budget of {limits.budget_s:g} s is over after {_count(taken)}")
        taken.rounds.append(_round(a, b, len(taken.rounds) % 2 == 1, taken.spoiled))
        progress(taken)
        last = taken.rounds[-1]
        if wrong := last.wrong:
            taken.judgement = Judgement(Verdict.WRONG, wrong, None)
            return taken
        exact = is_exact(taken.rounds)
        look = len(taken.rounds) == maximum if limits.exactly else is_look(len(taken.rounds), exact=exact)
        if look and (found := _judge(taken, limits)) is not None:
            taken.judgement = found
            return taken
    return _ended(taken, limits, f"undecided after {_count(taken)}")


def is_exact(rounds: Sequence[Round]) -> bool:
    """Whether the clock is deterministic: it says so of each process, and all processes of a side took as long."""
    sides = [[item.a for item in rounds], [item.b for item in rounds]]
    return all(side.exact for items in sides for side in items) and all(
        len({side.time_ns for side in items}) <= 1 for items in sides
    )


def _judge(taken: Rounds, limits: RoundLimits) -> Judgement | None:
    cycles = [item.cycles_difference for item in taken.rounds]
    return judge(
        [item.difference for item in taken.rounds],
        limits.minimum_effect,
        [value for value in cycles if value is not None],
    )


def _ended(taken: Rounds, limits: RoundLimits, why: str) -> Rounds:
    taken.judgement = give_up([item.difference for item in taken.rounds], limits.minimum_effect, why)
    return taken


def _count(taken: Rounds) -> str:
    count = len(taken.rounds)
    return f"{count} round" + ("s" if count != 1 else "")


def _round(
    a: Callable[[], Observation], b: Callable[[], Observation], b_first: bool, spoiled: list[str]
) -> Round:
    for attempt in range(MAXIMUM_REPEATS + 1):
        if b_first:
            second = b()
            first = a()
        else:
            first = a()
            second = b()
        reason = first.spoiled or second.spoiled
        if not reason or attempt == MAXIMUM_REPEATS:
            break
        spoiled.append(reason)
    return Round(first, second, b_first)
