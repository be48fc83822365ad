"""Whether B is slower than A, from rounds. Pure functions over numbers; docs/compare.md has the rule and its figures.

A *round* is A and B next to each other, each in a fresh process, in an order drawn by lot; it yields one difference,
ln(median of B / median of A). Samples inside a process are no independent evidence: processes differ from one another
by more than the samples inside one, and a device drifts, which only neighbours share.

Each look at the rounds spends a part of the 1 % of comparisons of equal sides that may be called different; all looks
of PROBABILITIES together spend 0.96 %, and no assumption about the noise is needed for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from replay.compare.interval import RANKS_FROM, bounds, probability_of_signs
from replay.timing.student import tail_probability, two_sided_quantile

# Rounds after which to look, and the two-sided probability that the interval of that look misses the truth
PROBABILITIES = {8: 2 / 256, 14: 0.00062, 20: 0.0006, 28: 0.0006}
LOOKS = tuple(PROBABILITIES)
# Likewise, of fewer rounds, as a fixed number, a budget or a folder of results may leave
EARLY_PROBABILITY = 0.0005
MINIMUM_EFFECT = 0.01
EXACT_ROUNDS = 2  # of a deterministic clock
FALSE_DISCOVERY_RATE = 0.05
_LARGEST_LOGARITHM = 300.0  # of two rounds that differ much; floats end at 709
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
    """A ratio B / A with its interval. rounds: how many; deviation: standard deviation of the differences of rounds,
    of their logarithms."""

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


def probability_after(rounds: int) -> float:
    """The probability that the interval after that many rounds misses the truth: that of the last look."""
    last = max((look for look in LOOKS if look <= rounds), default=0)
    return PROBABILITIES.get(last, EARLY_PROBABILITY)


def estimate(differences: Sequence[float], probability: float | None = None) -> Estimate:
    """The ratio with an interval that misses the truth with `probability`, by default that of the look. Takes at least
    2 differences."""
    import numpy

    count = len(differences)
    if count < 2:
        raise ValueError("an interval needs at least 2 rounds")
    values = numpy.asarray(differences, dtype=float)
    found = bounds(values, probability_after(count) if probability is None else probability)
    ratio, low, high = (
        math.exp(min(max(float(value), -_LARGEST_LOGARITHM), _LARGEST_LOGARITHM)) for value in found
    )
    return Estimate(ratio, low, high, count, float(values.std(ddof=1)))


def smallest_effect(found: Estimate, minimum_effect: float) -> float:
    """The slow-down that as many rounds with the same noise would have shown four times out of five."""
    half = max(math.log(found.high / found.ratio), math.log(found.ratio / found.low))
    power = _POWER_SIGMAS * found.deviation / math.sqrt(found.rounds)
    return math.expm1(max(half, math.log1p(minimum_effect)) + power)


def judge(
    differences: Sequence[float],
    minimum_effect: float = MINIMUM_EFFECT,
    cycles: Sequence[float] | None = None,
    resolution: float = 0.0,
) -> Judgement | None:
    """The verdict that the rounds so far allow; None: take more.

    minimum_effect: as a fraction; smaller changes are SAME. cycles: the same differences in SM cycles, where they are
    known: a change that is one of time and not of cycles comes from the clock. resolution: of the clock, as a fraction
    of the times; infinite when all that is known is that it is too coarse.
    """
    if len(differences) < 2:
        return None
    found = judge_estimate(estimate(differences), minimum_effect, resolution)
    if found is None or found.verdict is Verdict.SAME or cycles is None or len(cycles) != len(differences):
        return found
    in_cycles = judge(cycles, minimum_effect)
    if in_cycles is not None and in_cycles.verdict is Verdict.SAME:
        return replace(found, reason="clock: the same number of SM cycles")
    return found


def judge_estimate(
    found: Estimate, minimum_effect: float = MINIMUM_EFFECT, resolution: float = 0.0
) -> Judgement | None:
    """The verdict that an interval allows; None: none. resolution: as of `judge`; times that a clock rounds to the
    same may differ by as much, so that nothing is SAME within less."""
    threshold = math.log1p(minimum_effect)
    mean, low, high = math.log(found.ratio), math.log(found.low), math.log(found.high)
    reach = smallest_effect(found, minimum_effect)
    if -threshold < low - resolution and high + resolution < threshold:
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


def give_up(
    differences: Sequence[float], minimum_effect: float, why: str, resolution: float = 0.0
) -> Judgement:
    """UNSURE, with what these rounds could have seen. why: what ended the rounds. resolution: as of `judge`."""
    if len(differences) < 2:
        return Judgement(Verdict.UNSURE, f"{why}; an interval needs at least 2 rounds", None)
    found = estimate(differences)
    if math.isinf(resolution):
        return Judgement(
            Verdict.UNSURE, f"{why}; all times are equal, so that the clock is too coarse", found
        )
    reach = smallest_effect(found, minimum_effect + resolution)
    coarse = f", with a clock in steps of {resolution * 100:.2g} %" if resolution else ""
    return Judgement(
        Verdict.UNSURE,
        f"{why}; the smallest slow-down that they would have shown{coarse} is {reach * 100:.2g} %",
        found,
        reach,
    )


def is_look(rounds: int, *, exact: bool = False) -> bool:
    """Whether a verdict may be formed after so many rounds. exact: the clock is deterministic and shows no noise."""
    return rounds in LOOKS or (exact and rounds >= EXACT_ROUNDS)


def probability_of_chance(differences: Sequence[float]) -> float:
    """Two-sided probability of so large a difference where there is none, for the looks that were allowed: by signed
    ranks or by Student's t, whichever speaks more clearly, twice as either may."""
    import numpy

    values = numpy.asarray(differences, dtype=float)
    count = len(values)
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if deviation <= abs(mean) * 1e-12:  # the clock is exact, but for the last digit
        return 1.0 if mean == 0 else 0.0
    looks = [look for look in LOOKS if look <= count]
    student = max(1, len(looks)) * tail_probability(mean / deviation * math.sqrt(count), count - 1)
    if count < RANKS_FROM:
        return min(1.0, student)
    spent = math.fsum(PROBABILITIES[look] for look in looks[:-1])
    return min(1.0, 2 * student, 2 * (spent + probability_of_signs(values)))


def survivors(probabilities: Sequence[float], rate: float = FALSE_DISCOVERY_RATE) -> list[bool]:
    """Which of several findings survive when at most `rate` of the survivors may be chance (Benjamini-Hochberg)."""
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    last = max(
        (rank for rank, at in enumerate(order, 1) if probabilities[at] <= rate * rank / len(order)), default=0
    )
    survive = [False] * len(order)
    for at in order[:last]:
        survive[at] = True
    return survive


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
