"""Rounds of two sides next to each other, until a verdict can be formed. Knows neither snapshots nor processes.

The order in each round is drawn by lot: which of two neighbours is called A is chance, so that no drift, no rhythm and
no memory of the device can look like a difference more often than lots fall so.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from replay.compare.verdict import (
    LOOKS,
    MINIMUM_EFFECT,
    Judgement,
    Verdict,
    give_up,
    is_look,
    judge,
)
from replay.text import number

MAXIMUM_REPEATS = 2  # of one round that was spoiled
# Of rounds, in turns; half of each block have each order, and most looks are at the end of one
_BLOCKS = (6, 8)
_lots = random.SystemRandom()


@dataclass(frozen=True)
class Observation:
    """One side of one round: the replay of a fresh process.

    time_ns: median of its samples. cycles: the same in SM cycles, None when the clock is not known. exact: the clock is
    deterministic and its samples are all equal. spoiled: why the time does not count, "" when it does. wrong: what is
    wrong with the outputs, "" when they are right. doubt: why outputs that differ are no evidence, "" when none do.
    power_w: that the device drew, None when it is not known.
    quartiles_ns: lower and upper one of the samples. step_ns: of the clock, as samples that are equal show it; 0 when
    none are.
    """

    time_ns: float
    cycles: float | None = None
    exact: bool = False
    spoiled: str = ""
    wrong: str = ""
    doubt: str = ""
    power_w: float | None = None
    quartiles_ns: tuple[float, ...] = ()
    step_ns: float = 0.0


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
    def doubt(self) -> str:
        """Why outputs that differ are no evidence, "" where none differ or it is."""
        if self.a.doubt == self.b.doubt:
            return self.a.doubt and f"A and B: {self.a.doubt}"
        return "; ".join(
            f"{name}: {side.doubt}" for name, side in (("A", self.a), ("B", self.b)) if side.doubt
        )

    @property
    def cycles_difference(self) -> float | None:
        """ln(B / A) of the cycles, where both are known."""
        if not self.a.cycles or not self.b.cycles:
            return None
        return math.log(self.b.cycles / self.a.cycles)


@dataclass(frozen=True)
class RoundLimits:
    """When to end. exactly: that many rounds and one look after the last; None: looks after 8, 14, 20 and 28.
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
    toss: Callable[[], bool] = lambda: _lots.random() < 0.5,
) -> Rounds:
    """Take rounds until the verdict is clear or a limit is reached. Wrong outputs end it at once. toss: whether B
    comes first in a round; lots, not turns.

    Whatever a side raises passes through: a side that cannot run is no slow side.
    """
    taken = Rounds()
    begin_s = now_s()
    maximum = limits.exactly or LOOKS[-1]
    order = _orders(toss)
    while len(taken.rounds) < maximum:
        if limits.budget_s is not None and taken.rounds and now_s() - begin_s >= limits.budget_s:
            return _ended(
                taken, limits, f"its budget of {limits.budget_s:.3g} s is over after {_count(taken)}"
            )
        taken.rounds.append(_round(a, b, next(order), taken.spoiled))
        progress(taken)
        last = taken.rounds[-1]
        if wrong := last.wrong:
            taken.judgement = Judgement(Verdict.WRONG, wrong, None)
            return taken
        if doubt := last.doubt:
            taken.judgement = Judgement(Verdict.UNSURE, doubt, None)
            return taken
        exact = is_exact(taken.rounds)
        look = len(taken.rounds) == maximum if limits.exactly else is_look(len(taken.rounds), exact=exact)
        if look and (found := _judge(taken, limits)) is not None:
            taken.judgement = found
            return taken
    return _ended(taken, limits, f"undecided after {_count(taken)}")


def _orders(toss: Callable[[], bool]) -> Iterator[bool]:
    """Whether B comes first. The first rounds, until a verdict may be formed, are neither all alike nor in turns: then
    being second, or a rhythm of four processes, could pass for a difference."""
    while True:
        first = [toss() for _ in range(LOOKS[0])]
        if len(set(first)) > 1 and len(set(first[::2]) | {not value for value in first[1::2]}) > 1:
            break
    yield from first
    while True:
        yield toss()


def is_exact(rounds: Sequence[Round]) -> bool:
    """Whether the clock is deterministic: it says so of each process, and all processes of a side took as long."""
    sides = [[item.a for item in rounds], [item.b for item in rounds]]
    return all(side.exact for items in sides for side in items) and all(
        len({side.time_ns for side in items}) <= 1 for items in sides
    )


def resolution(rounds: Sequence[Round]) -> float:
    """Of the clock, as a fraction of the times: 0 when it is finer than their noise or exact, infinite when every time
    is the same and nothing shows how far the next one would be."""
    if is_exact(rounds):
        return 0.0
    sides = [side for item in rounds for side in (item.a, item.b)]
    times = sorted({side.time_ns for side in sides})
    if len(times) == len(sides):
        return 0.0
    steps = [high - low for low, high in pairwise(times)]
    steps += [side.step_ns for side in sides if side.step_ns > 0]
    return min(steps, default=math.inf) / times[0]


def _judge(taken: Rounds, limits: RoundLimits) -> Judgement | None:
    cycles = [item.cycles_difference for item in taken.rounds]
    return judge(
        [item.difference for item in taken.rounds],
        limits.minimum_effect,
        [value for value in cycles if value is not None],
        resolution(taken.rounds),
    )


def _ended(taken: Rounds, limits: RoundLimits, why: str) -> Rounds:
    taken.judgement = give_up(
        [item.difference for item in taken.rounds], limits.minimum_effect, why, resolution(taken.rounds)
    )
    return taken


def _count(taken: Rounds) -> str:
    return number(len(taken.rounds), "round")


def _round(
    a: Callable[[], Observation], b: Callable[[], Observation], b_first: bool, spoiled: list[str]
) -> Round:
    for attempt in range(MAXIMUM_REPEATS + 1):
        if b_first:
            second, first = b(), a()
        else:
            first, second = a(), b()
        reason = first.spoiled or second.spoiled
        if not reason or attempt == MAXIMUM_REPEATS:
            break
        spoiled.append(reason)
    return Round(first, second, b_first)
