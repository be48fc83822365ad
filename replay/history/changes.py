"""Change points of a series: where its level changed. Pure functions over numbers.

Recursive best split: the place whose two sides differ most, accepted when hardly any shuffling of the same values gives
as large a difference, or when the sides lie far apart beside how far they spread; then the same for both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replay.timing.statistics import MAD_TO_SIGMA

if TYPE_CHECKING:
    import numpy

LEAST_SIDE = 4  # values on each side of a change
LEAST_RESULTS = 2 * LEAST_SIDE
PERMUTATIONS = 1000
CHANCE = 0.001  # of shufflings that may be as large
MINIMUM_EFFECT = 0.01
_CLEAR = 8.0  # standard errors between two sides that need no shuffling
_LEAST_OF_THREE = 36  # values for three levels at once
_MOST_CORRELATED = 0.95
_CLIP_SIGMAS = 3.0


@dataclass(frozen=True)
class ChangePoint:
    """The value at `position` is the first of a new level. ratio: of the medians of the two levels."""

    position: int
    ratio: float


def change_points(times: Sequence[float], minimum_effect: float = MINIMUM_EFFECT) -> list[ChangePoint]:
    """Of a series of positive times, oldest first. Deterministic: the shuffling has a fixed seed."""
    import numpy

    if len(times) < LEAST_RESULTS:
        return []
    logs = numpy.log(numpy.asarray(times, dtype=float))
    generator = numpy.random.default_rng(20261121)
    found: list[int] = []
    pending = [(0, len(times))]
    while pending:
        begin, end = pending.pop()
        split = _first_split(logs, begin, end, minimum_effect, generator)
        if split is not None:
            found.append(split)
            pending += [(begin, split), (split, end)]
    edges = [0, *sorted(found), len(times)]
    levels = [float(numpy.median(logs[begin:end])) for begin, end in zip(edges, edges[1:], strict=False)]
    return [ChangePoint(edges[n], float(numpy.exp(levels[n] - levels[n - 1]))) for n in range(1, len(levels))]


def _first_split(
    logs: numpy.ndarray, begin: int, end: int, minimum_effect: float, generator: numpy.random.Generator
) -> int | None:
    """Of the whole stretch, else of two thirds of it: a level between two that are equal hides both its ends."""
    third = (end - begin) // 3 if end - begin >= _LEAST_OF_THREE else 0
    for low, high in dict.fromkeys([(begin, end), (begin, end - third), (begin + third, end)]):
        split = _best_split(logs[low:high], minimum_effect, generator)
        if split is not None:
            return low + split
    return None


def _best_split(logs: numpy.ndarray, minimum_effect: float, generator: numpy.random.Generator) -> int | None:
    import numpy

    count = len(logs)
    if count < LEAST_RESULTS:
        return None
    # Deviations from the running level would be better for several steps at once; the recursion deals with those.
    middle = numpy.median(logs)
    sigma = numpy.median(numpy.abs(numpy.diff(logs))) * MAD_TO_SIGMA / numpy.sqrt(2)
    spread = numpy.median(numpy.abs(logs - middle)) * MAD_TO_SIGMA
    reach = _CLIP_SIGMAS * max(float(sigma), float(spread))
    clipped = numpy.clip(logs, middle - reach, middle + reach) if reach > 0 else logs
    at, score = _strongest(clipped[numpy.newaxis, :])
    split = int(at[0])
    if abs(float(numpy.median(logs[split:]) - numpy.median(logs[:split]))) < numpy.log1p(minimum_effect):
        return None
    if _is_clear(logs, split):
        return split
    shuffled = generator.permuted(numpy.tile(clipped, (PERMUTATIONS, 1)), axis=1)
    _, scores = _strongest(shuffled)
    if float(numpy.mean(scores >= score[0] / _slowness(clipped, split))) > CHANCE:
        return None
    return split


def _is_clear(logs: numpy.ndarray, split: int) -> bool:
    """Whether the sides have no value in common and their means are far apart, whatever their number: of ten values a
    shuffling that parts them as well is too frequent for `CHANCE`."""
    import numpy

    left, right = logs[:split], logs[split:]
    if left.max() >= right.min() and right.max() >= left.min():
        return False
    squares = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())
    error = numpy.sqrt(squares / (len(logs) - 2) * (1 / len(left) + 1 / len(right)))
    return bool(abs(left.mean() - right.mean()) >= _CLEAR * _slowness(logs, split) * error)


def _slowness(values: numpy.ndarray, split: int) -> float:
    """How many times as far as independent values the means of these stray, as each resembles the one before: shuffling
    takes that away. 1 where they do not. Seen around both levels, so that a step does not pass for it."""
    import numpy

    rest = numpy.concatenate([values[:split] - values[:split].mean(), values[split:] - values[split:].mean()])
    whole = float((rest**2).sum())
    if whole == 0:
        return 1.0
    seen = float((rest[1:] * rest[:-1]).sum()) / whole
    # Around two means of so few values it comes out too small (Kendall).
    likely = min(max(seen + 4 * (1 + 3 * max(seen, 0.0)) / len(values), 0.0), _MOST_CORRELATED)
    return float(numpy.sqrt((1 + likely) / (1 - likely)))


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
