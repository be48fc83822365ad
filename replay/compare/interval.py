"""The interval of a location that equal sides hardly ever miss, whatever the noise. Pure functions over arrays.

From 8 values on it is that of the signed ranks (Wilcoxon; Hodges and Lehmann for its middle): where lots draw which of
two neighbours is A, each difference is as likely to be above the truth as below it, by the same amount, and nothing
else is assumed. With fewer values signs are no evidence, so it is Student's, of all values as they are.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

from replay.timing.student import two_sided_quantile

if TYPE_CHECKING:
    import numpy

RANKS_FROM = 8  # values; 8 signs are all equal by chance in 2 of 256
# Where only the outermost values bound the interval, it is wider by this part of their distance on each side: with
# noise of any usual shape that makes a miss half as likely or less.
_MARGIN = 1 / 9


def bounds(
    differences: numpy.ndarray, probability: float
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Middle, low and high of each row. differences: rows of n >= 2 values. probability: two-sided, that the interval
    misses the truth. Raises ValueError where n values cannot be so certain."""
    import numpy

    count = differences.shape[-1]
    if count < RANKS_FROM:
        mean = differences.mean(axis=-1)
        error = differences.std(axis=-1, ddof=1) / math.sqrt(count)
        half = two_sided_quantile(probability, count - 1) * error
        return mean, mean - half, mean + half
    left, right = _pairs(count)
    averages = (differences[..., left] + differences[..., right]) / 2
    last = averages.shape[-1] - 1
    outside = averages_outside(count, probability)
    below, above = last // 2, (last + 1) // 2
    averages = numpy.partition(averages, sorted({outside, below, above, last - outside}), axis=-1)
    middle = (averages[..., below] + averages[..., above]) / 2
    low, high = averages[..., outside], averages[..., last - outside]
    margin = (high - low) * (_MARGIN if outside == 0 else 0.0)
    return middle, low - margin, high + margin


def probability_of_signs(differences: numpy.ndarray) -> float:
    """Two-sided probability of such signed ranks of one row where every sign is a toss. Zeros speak against it."""
    left, right = _pairs(len(differences))
    averages = differences[left] + differences[right]
    against = min(int((averages <= 0).sum()), int((averages >= 0).sum()))
    ways = _ways(len(differences))
    return float(min(1.0, 2 * sum(ways[: against + 1]) / sum(ways)))


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    import numpy

    return numpy.triu_indices(count)


@lru_cache(maxsize=256)
def averages_outside(count: int, probability: float) -> int:
    """How many of the averages of two values lie outside of the interval on each side."""
    ways = _ways(count)
    allowed = probability * sum(ways) / 2
    outside = sum(total <= allowed for total in itertools.accumulate(ways))
    if outside == 0:
        raise ValueError(f"{count} values allow no interval that misses in {probability:g}")
    return outside - 1


@lru_cache(maxsize=64)
def _ways(count: int) -> tuple[int, ...]:
    """In how many ways the ranks 1 .. count with a positive sign add up to 0, 1, 2, ..."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    return tuple(ways)
