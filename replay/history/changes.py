"""Change points of a series: where its level changed. Pure functions over numbers.

Recursive best split: the place whose two sides differ most, accepted when hardly any shuffling of the same values gives
as large a difference, then the same for both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

LEAST_SIDE = 4  # values on each side of a change
PERMUTATIONS = 1000
CHANCE = 0.005  # of shufflings that may be as large
MINIMUM_EFFECT = 0.01
_CLIP_SIGMAS = 3.0
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class ChangePoint:
    """The value at `position` is the first of a new level. ratio: of the medians of the two levels."""

    position: int
    ratio: float


def change_points(times: Sequence[float], minimum_effect: float = MINIMUM_EFFECT) -> list[ChangePoint]:
    """Of a series of positive times, oldest first. Deterministic: the shuffling has a fixed seed."""
    import numpy

    if len(times) < 2 * LEAST_SIDE:
        return []
    logs = numpy.log(numpy.asarray(times, dtype=float))
    generator = numpy.random.default_rng(20261121)
    found: list[int] = []
    pending = [(0, len(times))]
    while pending:
        begin, end = pending.pop()
        split = _best_split(logs[begin:end], minimum_effect, generator)
        if split is not None:
            found.append(begin + split)
            pending += [(begin, begin + split), (begin + split, end)]
    edges = [0, *sorted(found), len(times)]
    levels = [float(numpy.median(logs[begin:end])) for begin, end in zip(edges, edges[1:], strict=False)]
    return [ChangePoint(edges[n], float(numpy.exp(levels[n] - levels[n - 1]))) for n in range(1, len(levels))]


def _best_split(logs: numpy.ndarray, minimum_effect: float, generator: numpy.random.Generator) -> int | None:
    import numpy

    count = len(logs)
    if count < 2 * LEAST_SIDE:
        return None
    # Deviations from the running level would be better for several steps at once; the recursion deals with those.
    middle = numpy.median(logs)
    sigma = numpy.median(numpy.abs(numpy.diff(logs))) * _MAD_TO_SIGMA / numpy.sqrt(2)
    spread = numpy.median(numpy.abs(logs - middle)) * _MAD_TO_SIGMA
    reach = _CLIP_SIGMAS * max(float(sigma), float(spread))
    clipped = numpy.clip(logs, middle - reach, middle + reach) if reach > 0 else logs
    at, score = _strongest(clipped[numpy.newaxis, :])
    split = int(at[0])
    if abs(float(numpy.median(logs[split:]) - numpy.median(logs[:split]))) < numpy.log1p(minimum_effect):
        return None
    shuffled = generator.permuted(numpy.tile(clipped, (PERMUTATIONS, 1)), axis=1)
    _, scores = _strongest(shuffled)
    if float(numpy.mean(scores >= score[0])) > CHANCE:
        return None
    return split


def _strongest(rows: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Of each row the split with the largest difference of means over its standard error (equal variances)."""
    import numpy

    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = numpy.cumsum(centred, axis=1)[:, LEAST_SIDE - 1 : count - LEAST_SIDE]
    left = numpy.arange(LEAST_SIDE, count - LEAST_SIDE + 1, dtype=float)
    scores = numpy.abs(sums) / numpy.sqrt(left * (count - left) / count)
    best = scores.argmax(axis=1)
    return best + LEAST_SIDE, scores[numpy.arange(len(rows)), best]
