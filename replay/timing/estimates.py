"""What samples say beyond their median: moments and their intervals, fences, and drift. Times in nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replay.records import dataclass
from replay.timing.density import median_interval
from replay.timing.statistics import MAD_TO_SIGMA, median, quantile
from replay.timing.student import two_sided_quantile

if TYPE_CHECKING:
    import numpy

LEAST_SAMPLES = 8
MAXIMUM_SAMPLES = 4096  # of which intervals are drawn by lot: more take too long, and need none
_DRAWS = 2000
_TOGETHER = 1 << 20  # values that are drawn at once
MILD, SEVERE = 1.5, 3.0  # distances of the quartiles (Tukey, "Exploratory Data Analysis", 1977)


@dataclass(frozen=True)
class Estimated:
    """A figure and its 95 % interval; low and high are None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Estimates:
    """Of the samples of one series. scaled_deviation: the median distance from the median, times 1.4826, which is the
    standard deviation where noise is normal. drift: by how much a straight line through the samples in their order
    rises from the first to the last, over their median. explained: the share of their variance which that line is."""

    median: Estimated
    mean: Estimated
    deviation: Estimated
    scaled_deviation: Estimated
    drift: Estimated
    explained: float


def estimates(samples: Sequence[float]) -> Estimates | None:
    """None of fewer than LEAST_SAMPLES, or of samples that are all equal. Intervals hold for independent samples: those
    of the mean and of both deviations are percentiles of samples drawn again by lot, always the same lots."""
    if len(samples) < LEAST_SAMPLES or min(samples) == max(samples):
        return None
    import numpy

    values = numpy.asarray(samples, "f8")
    if not float(abs(values).max()) < 1e150:  # it is squared
        return None
    known = _figures(values[numpy.newaxis, :])
    ends: list[tuple[float | None, float | None]] = [(None, None)] * len(known)
    if len(values) <= MAXIMUM_SAMPLES:
        lots = numpy.random.default_rng(0)
        rows = max(1, _TOGETHER // len(values))
        drawn = [
            _figures(values[lots.integers(0, len(values), (min(rows, _DRAWS - at), len(values)))])
            for at in range(0, _DRAWS, rows)
        ]
        every = [numpy.concatenate(figure) for figure in zip(*drawn, strict=True)]
        found = [numpy.percentile(figure, (2.5, 97.5)) for figure in every]
        ends = [(float(low), float(high)) for low, high in found]
    mean, deviation, scaled = (
        Estimated(float(figure[0]), *pair) for figure, pair in zip(known, ends, strict=True)
    )
    interval = median_interval(samples) or (None, None)
    drift, explained = _drift(samples)
    return Estimates(Estimated(median(samples), *interval), mean, deviation, scaled, drift, explained)


def _figures(rows: numpy.ndarray) -> tuple[numpy.ndarray, ...]:
    """Mean, standard deviation and scaled deviation of each row."""
    import numpy

    middle = numpy.median(rows, axis=1, keepdims=True)
    return (
        rows.mean(axis=1),
        rows.std(axis=1, ddof=1),
        MAD_TO_SIGMA * numpy.median(numpy.abs(rows - middle), axis=1),
    )


def _drift(samples: Sequence[float]) -> tuple[Estimated, float]:
    """Least squares over the place in the order, with Student's interval."""
    count = len(samples)
    center, mean = (count - 1) / 2, math.fsum(samples) / count
    across = count * (count * count - 1) / 12
    slope = math.fsum((at - center) * (value - mean) for at, value in enumerate(samples)) / across
    whole = math.fsum((value - mean) ** 2 for value in samples)
    left = math.fsum((value - mean - slope * (at - center)) ** 2 for at, value in enumerate(samples))
    half = two_sided_quantile(0.05, count - 2) * math.sqrt(left / (count - 2) / across)
    scale = (count - 1) / median(samples)
    return (
        Estimated(slope * scale, (slope - half) * scale, (slope + half) * scale),
        max(0.0, 1 - left / whole),
    )


def fences(samples: Sequence[float]) -> dict[str, tuple[float, int]]:
    """Of each of Tukey's classes its fence, and how many samples lie beyond it and within the next one. Of at least one
    sample."""
    ordered = sorted(samples)
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    width = high - low
    found = {
        "low severe": (low - SEVERE * width, 0),
        "low mild": (low - MILD * width, 0),
        "high mild": (high + MILD * width, 0),
        "high severe": (high + SEVERE * width, 0),
    }
    for value in ordered:
        for name in ("low severe", "low mild", "high severe", "high mild"):
            fence, count = found[name]
            if value < fence if name.startswith("low") else value > fence:
                found[name] = (fence, count + 1)
                break
    return found
