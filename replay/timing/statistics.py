"""Figures made of samples. Pure functions over numbers; times in nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# pyperf's and hyperfine's limit for a modified z-score (Iglewicz and Hoaglin give 3.5 as 0.6745 x; this is 10 MADs
# away)
OUTLIER_SCORE = 14.826
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Summary:
    """What a list of samples says. Quartiles interpolate linearly. noise: standard deviation over the mean."""

    count: int
    median: float
    mean: float
    minimum: float
    maximum: float
    lower_quartile: float
    upper_quartile: float
    noise: float

    @property
    def interquartile_range(self) -> float:
        """Upper minus lower quartile."""
        return self.upper_quartile - self.lower_quartile


def summarize(samples: Sequence[float]) -> Summary:
    """The summary of at least one sample. Raises ValueError for none."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / (count - 1) if count > 1 else 0.0
    return Summary(
        count=count,
        median=quantile(ordered, 0.5),
        mean=mean,
        minimum=float(ordered[0]),
        maximum=float(ordered[-1]),
        lower_quartile=quantile(ordered, 0.25),
        upper_quartile=quantile(ordered, 0.75),
        noise=math.sqrt(variance) / mean if mean > 0 else 0.0,
    )


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
    deviation = quantile(sorted(abs(value - middle) for value in samples), 0.5) * _MAD_TO_SIGMA
    if deviation == 0:
        return []
    return [at for at, value in enumerate(samples) if abs(value - middle) / deviation > OUTLIER_SCORE]


def samples_for(noise: float, wanted: float) -> int:
    """How many samples bring the standard error of the mean down to `wanted` (both relative to the mean)."""
    return max(2, math.ceil((noise / wanted) ** 2)) if wanted > 0 else 2
