"""Whether B is slower than A, from rounds. Pure functions over numbers; docs/verdicts.md has the rule and its scores.

A *round* is A and B next to each other, each in a fresh process, in the order AB, BA, AB, ...; it yields one
difference, ln(median of B / median of A). Samples inside a process are no independent evidence: processes differ from
one another by more than the samples inside one, and a device drifts, which only neighbours share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from replay.timing.statistics import quantile
from replay.timing.student import tail_probability, two_sided_quantile

LOOKS = (6, 8, 11, 15, 20, 28)  # rounds after which to look; more looks would raise the rate of false alarms
PROBABILITY_PER_LOOK = 0.004  # two-sided, that the interval of one look misses the truth
MINIMUM_EFFECT = 0.01
EXACT_ROUNDS = 2  # of a deterministic clock
FALSE_DISCOVERY_RATE = 0.05
_CLIP_SIGMAS = 3.0
_MAD_TO_SIGMA = 1.4826
_POWER_SIGMAS = 0.8416  # of the normal distribution, for the effect that is found four times out of five


class Verdict(str, Enum):
    """What was found about B against A. WRONG: the outputs of a side are not those that were captured."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNSURE = "UNSURE"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Estimate:
    """A ratio B / A with its interval. rounds: how many; deviation: standard deviation of the clipped differences of
    rounds, of their logarithms."""

    ratio: float
    low: float
    high: float
    rounds: int
    deviation: float


@dataclass(frozen=True)
class Judgement:
    """A verdict and why. smallest_effect: that these rounds would have found four times out of five, as a fraction;
    None when there were too few rounds to know."""

    verdict: Verdict
    reason: str
    estimate: Estimate | None
    smallest_effect: float | None = None


def clip(differences: Sequence[float]) -> list[float]:
    """Differences at most 3 robust standard deviations from their median: one disturbed round must not decide."""
    middle = quantile(sorted(differences), 0.5)
    sigma = quantile(sorted(abs(value - middle) for value in differences), 0.5) * _MAD_TO_SIGMA
    if (
        sigma == 0
    ):  # more than half are equal, as a coarse clock makes them: that says nothing about the others
        return list(differences)
    reach = _CLIP_SIGMAS * sigma
    return [min(max(value, middle - reach), middle + reach) for value in differences]


def estimate(differences: Sequence[float], probability: float = PROBABILITY_PER_LOOK) -> Estimate:
    """The ratio with a t-interval that misses the truth with `probability`. Takes at least 2 differences."""
    count = len(differences)
    if count < 2:
        raise ValueError("an interval needs at least 2 rounds")
    clipped = clip(differences)
    mean = math.fsum(clipped) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in clipped) / (count - 1))
    half = two_sided_quantile(probability, count - 1) * deviation / math.sqrt(count)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count, deviation)


def smallest_effect(found: Estimate, minimum_effect: float) -> float:
    """The slow-down that as many rounds with the same noise would have shown four times out of five."""
    half = math.log(found.high) - math.log(found.ratio)
    power = _POWER_SIGMAS * found.deviation / math.sqrt(found.rounds)
    return math.expm1(max(half, math.log1p(minimum_effect)) + power)


def judge(
    differences: Sequence[float],
    minimum_effect: float = MINIMUM_EFFECT,
    cycles: Sequence[float] | None = None,
) -> Judgement | None:
    """The verdict that the rounds so far allow; None: take more.

    minimum_effect: as a fraction; smaller changes are SAME. cycles: the same differences in SM cycles, where they are
    known: a change that is one of time and not of cycles comes from the clock.
    """
    if len(differences) < 2:
        return None
    found = judge_estimate(estimate(differences), minimum_effect)
    if found is None or found.verdict is Verdict.SAME or cycles is None or len(cycles) != len(differences):
        return found
    in_cycles = judge(cycles, minimum_effect)
    if in_cycles is not None and in_cycles.verdict is Verdict.SAME:
        return replace(found, reason="clock: the same number of SM cycles")
    return found


def judge_estimate(found: Estimate, minimum_effect: float = MINIMUM_EFFECT) -> Judgement | None:
    """The verdict that an interval allows; None: none."""
    threshold = math.log1p(minimum_effect)
    mean, low, high = math.log(found.ratio), math.log(found.low), math.log(found.high)
    reach = smallest_effect(found, minimum_effect)
    if -threshold < low and high < threshold:
        what = "no difference" if low == high == 0 else f"within {minimum_effect * 100:.3g} %"
        return Judgement(Verdict.SAME, what, found, reach)
    if low > 0 and mean >= threshold:
        return Judgement(Verdict.SLOWER, "", found, reach)
    if high < 0 and mean <= -threshold:
        return Judgement(Verdict.FASTER, "", found, reach)
    return None


def from_spread(
    mean: float, spread: float, degrees: int, a: int, b: int, probability: float = 0.01
) -> Estimate:
    """The ratio of results that were taken at different times, when the spread between such times is known.

    mean: ln(B / A) of their means. spread: standard deviation of the logarithm of one result of another time, with so
    many degrees of freedom. a, b: of how many different times each side is the mean. One look, so that the interval
    misses the truth with `probability`.
    """
    error = spread * math.sqrt(1 / a + 1 / b)
    half = two_sided_quantile(probability, degrees) * error
    pairs = min(a, b)
    return Estimate(
        math.exp(mean), math.exp(mean - half), math.exp(mean + half), pairs, error * math.sqrt(pairs)
    )


def give_up(differences: Sequence[float], minimum_effect: float, why: str) -> Judgement:
    """UNSURE, with what these rounds could have seen. why: what ended the rounds."""
    if len(differences) < 2:
        return Judgement(Verdict.UNSURE, f"{why}; an interval needs at least 2 rounds", None)
    found = estimate(differences)
    reach = smallest_effect(found, minimum_effect)
    return Judgement(
        Verdict.UNSURE,
        f"{why}; the smallest slow-down that they would have shown is {reach * 100:.2g} %",
        found,
        reach,
    )


def is_look(rounds: int, *, exact: bool = False) -> bool:
    """Whether a verdict may be formed after so many rounds. exact: the clock is deterministic and shows no noise."""
    return rounds in LOOKS or (exact and rounds >= EXACT_ROUNDS)


def probability_of_chance(differences: Sequence[float]) -> float:
    """Two-sided probability of so large a mean difference where there is none, for the looks that were allowed."""
    clipped = clip(differences)
    count = len(clipped)
    mean = math.fsum(clipped) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in clipped) / (count - 1))
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    looks = max(1, sum(look <= count for look in LOOKS))
    return min(1.0, looks * tail_probability(mean / deviation * math.sqrt(count), count - 1))


def survivors(probabilities: Sequence[float], rate: float = FALSE_DISCOVERY_RATE) -> list[bool]:
    """Which of several findings stand when at most `rate` of those that stand may be chance (Benjamini-Hochberg)."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    last = max(
        (rank for rank, at in enumerate(order, 1) if probabilities[at] <= rate * rank / len(order)), default=0
    )
    stands = [False] * len(order)
    for at in order[:last]:
        stands[at] = True
    return stands


def geometric_mean(estimates: Sequence[Estimate], probability: float = 0.05) -> Estimate:
    """The mean ratio of several kernels, each counted once, with the interval that its rounds allow."""
    count = len(estimates)
    if count == 0:
        raise ValueError("no estimates")
    mean = math.fsum(math.log(item.ratio) for item in estimates) / count
    variances = [item.deviation**2 / item.rounds for item in estimates]
    total = math.fsum(variances)
    # Welch and Satterthwaite's degrees of freedom of a sum of variances that are themselves estimated.
    spread = math.fsum(value**2 / (item.rounds - 1) for value, item in zip(variances, estimates, strict=True))
    degrees = total**2 / spread if spread > 0 else 1000.0
    half = two_sided_quantile(probability, max(1.0, degrees)) * math.sqrt(total) / count
    rounds = min(item.rounds for item in estimates)
    return Estimate(
        math.exp(mean), math.exp(mean - half), math.exp(mean + half), rounds, math.sqrt(total) / count
    )
