"""How far results of one series lie from each other when nothing changed: what a comparison of different days needs.

Results that follow one another within an hour share the state of the device and count as one *occasion*; the spread is
that of occasions around their level, levels being what lies between change points.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

from replay.history.changes import change_points
from replay.timing.statistics import quantile

SAME_OCCASION_S = 3600.0
LEAST_DEGREES = 5  # of freedom; with fewer the spread itself is not known


@dataclass(frozen=True)
class Spread:
    """deviation: standard deviation of the logarithm of the time of one occasion. degrees: of freedom of it. reach:
    from the fastest occasion to the slowest, each against its level. Nothing is clipped: a rare level is part of it."""

    deviation: float
    degrees: int
    occasions: int
    reach: float = 0.0

    def chance_of_a_rare_level(self, times: int, others: int | None = None) -> float:
        """The most likely it can be, whatever share of the days it has, that so many times of one side are all of a
        level that none of the others showed. others: by default the occasions."""
        seen = self.occasions if others is None else others
        share = times / (times + seen)
        return 2 * share**times * (1 - share) ** seen


def occasions(results: Sequence[tuple[str, float]]) -> list[float]:
    """Medians of the times of each occasion, oldest first. results: (created_utc, time), in any order."""
    found: list[list[float]] = []
    before: float | None = None
    for when_s, time_ns in sorted((_seconds(created), time_ns) for created, time_ns in results):
        if before is None or when_s - before > SAME_OCCASION_S:
            found.append([])
        found[-1].append(time_ns)
        before = when_s
    return [quantile(sorted(times), 0.5) for times in found]


def spread_of(*series: Sequence[tuple[str, float]]) -> Spread | None:
    """Pooled over one or several series of results; None when there are too few occasions."""
    residuals: list[float] = []
    degrees = count = 0
    for results in series:
        times = occasions(results)
        edges = [0, *(change.position for change in change_points(times)), len(times)]
        for begin, end in zip(edges, edges[1:], strict=False):
            level = [math.log(value) for value in times[begin:end]]
            if not level:
                continue
            mean = math.fsum(level) / len(level)
            residuals += [value - mean for value in level]
            degrees += len(level) - 1
            count += len(level)
    if degrees < LEAST_DEGREES:
        return None
    deviation = math.sqrt(math.fsum(value**2 for value in residuals) / degrees)
    return Spread(deviation, degrees, count, max(residuals) - min(residuals))


def _seconds(created_utc: str) -> float:
    """Of a time as results have it; all those that cannot be read are one occasion."""
    try:
        return datetime.datetime.fromisoformat(created_utc).timestamp()
    except ValueError:
        return 0.0
