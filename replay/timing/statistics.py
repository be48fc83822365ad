"""Figures made of samples. Pure functions over numbers; times in nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from replay.results.run.timing import TimeSummary

# pyperf's and hyperfine's limit for a modified z-score (Iglewicz and Hoaglin give 3.5 as 0.6745 x; this is 10 MADs
# away)
OUTLIER_SCORE = 14.826
MAD_TO_SIGMA = 1.4826


def summarize(samples_ns: Sequence[float]) -> TimeSummary:
    """The summary of at least one sample, quartiles interpolated linearly. Raises ValueError for none."""
    if not samples_ns:
        raise ValueError("no samples")
    ordered = sorted(samples_ns)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / (count - 1) if count > 1 else 0.0
    return TimeSummary(
        count=count,
        median_ns=float(quantile(ordered, 0.5)),
        mean_ns=mean,
        minimum_ns=float(ordered[0]),
        maximum_ns=float(ordered[-1]),
        lower_quartile_ns=float(quantile(ordered, 0.25)),
        upper_quartile_ns=float(quantile(ordered, 0.75)),
        noise=math.sqrt(variance) / mean if mean > 0 else 0.0,
    )


def median(values: Iterable[float]) -> float:
    """Of at least one value. The standard library's module would be imported for this alone, with fractions, decimals
    and random numbers, in each command and each worker."""
    ordered = sorted(values)
    high = len(ordered) // 2
    return ordered[high] if len(ordered) % 2 else (ordered[high - 1] + ordered[high]) / 2


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """A quantile of sorted values, interpolated linearly (type 7)."""
    position = (len(ordered) - 1) * fraction
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def outliers(samples: Sequence[float]) -> list[int]:
    """Positions of samples whose distance from the median exceeds OUTLIER_SCORE in units of the robust sigma."""
    if len(samples) < 3:
        return []
    middle = quantile(sorted(samples), 0.5)
    deviation = quantile(sorted(abs(value - middle) for value in samples), 0.5) * MAD_TO_SIGMA
    if deviation == 0:
        return []
    return [at for at, value in enumerate(samples) if abs(value - middle) / deviation > OUTLIER_SCORE]


def samples_for(noise: float, wanted: float) -> int:
    """How many samples bring the standard error of the mean down to `wanted` (both relative to the mean)."""
    return max(2, math.ceil((noise / wanted) ** 2)) if wanted > 0 else 2
