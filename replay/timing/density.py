"""Where samples lie: an estimate of their density, and the interval of their median. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from replay.timing.statistics import quantile

POINTS = 120
_BINS = 2048  # samples are counted in so many steps of the range; a curve of POINTS points needs no more
_REACH = 4.0  # deviations after which a normal curve is nothing
_LARGEST = 1e150
_SEEN = 8.0  # distances of the quartiles, on each side of them


def density(samples: Sequence[float], low: float, high: float, points: int = POINTS) -> list[float]:
    """A kernel density estimate of samples at `points` places from `low` to `high`, both included, per unit of the
    samples. Normal kernels, with Silverman's bandwidth (0.9 times the smaller of deviation and quartile distance over
    1.34, times n to the power of -1/5). Empty where all samples are the same, or fewer than three.
    """
    width = bandwidth(samples)
    if not width or points < 2 or high <= low:
        return []
    step = (high - low) / (_BINS - 1)
    bins: dict[int, int] = {}
    for value in samples:
        place = round((value - low) / step)
        bins[place] = bins.get(place, 0) + 1
    factor = 1 / (len(samples) * width * math.sqrt(2 * math.pi))
    found = []
    for at in range(points):
        x = low + (high - low) * at / (points - 1)
        total = 0.0
        for place, count in bins.items():
            distance = (x - low - place * step) / width
            if -_REACH < distance < _REACH:
                total += count * math.exp(-distance * distance / 2)
        found.append(total * factor)
    return found


def bandwidth(samples: Sequence[float]) -> float:
    """Silverman's; 0.0 where all samples are the same, fewer than three, or too large to be squared."""
    if len(samples) < 3 or max(map(abs, samples)) > _LARGEST:
        return 0.0
    ordered = sorted(samples)
    mean = math.fsum(ordered) / len(ordered)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (len(ordered) - 1))
    quartiles = (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / 1.34
    spread = min(deviation, quartiles) if quartiles > 0 else deviation
    return float(0.9 * spread * len(ordered) ** -0.2)


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """An interval that holds the true median with at least this confidence, whatever the distribution: the order
    statistics that a binomial distribution gives (David and Nagaraja, "Order Statistics", 2003, 7.1). It assumes
    independent samples. None where there are too few of them for any.
    """
    count = len(samples)
    if count == 0:
        return None
    ordered = sorted(samples)
    # Of `count` fair coins: the chance of at most `below` heads, until both tails together are too likely.
    log_half = count * math.log(0.5)
    tail, below = 0.0, -1
    while below + 1 < count // 2:
        logarithm = math.lgamma(count + 1) - math.lgamma(below + 2) - math.lgamma(count - below)
        tail += math.exp(logarithm + log_half)
        if 2 * tail > 1 - confidence:
            break
        below += 1
    return None if below < 0 else (float(ordered[below]), float(ordered[count - 1 - below]))


def extent(samples: Sequence[float]) -> tuple[float, float]:
    """Where most samples lie: from the lowest to the highest, without those so far out that the others would be drawn
    as one line. Of at least one sample."""
    ordered = sorted(samples)
    low, high = (quantile(ordered, share) for share in (0.25, 0.75))
    room = max(_SEEN * (high - low), abs(high) * 0.002)
    return max(float(ordered[0]), low - room), min(float(ordered[-1]), high + room)
