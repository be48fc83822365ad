"""Statistics of samples beside their median."""

from __future__ import annotations

import random

import numpy
import pytest

from replay.timing.estimates import LEAST_SAMPLES, MAXIMUM_SAMPLES, estimates, fences


def normal(count, seed, mean=1000.0, deviation=10.0):
    lots = random.Random(seed)
    return [lots.gauss(mean, deviation) for _ in range(count)]


def test_figures_are_those_of_their_definitions():
    values = normal(50, 1)
    found = estimates(values)
    middle = numpy.median(values)
    assert found.median.value == pytest.approx(middle)
    assert found.mean.value == pytest.approx(numpy.mean(values))
    assert found.deviation.value == pytest.approx(numpy.std(values, ddof=1))
    assert found.scaled_deviation.value == pytest.approx(1.4826 * numpy.median(numpy.abs(values - middle)))
    slope = numpy.polyfit(range(50), values, 1)[0]
    assert found.drift.value == pytest.approx(49 * slope / middle)
    assert found.explained == pytest.approx(numpy.corrcoef(range(50), values)[0, 1] ** 2)
    assert found == estimates(values), "drawn by the same lots each time"


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    trials, held = 300, {"mean": 0, "deviation": 0, "drift": 0}
    truth = {"mean": 1000.0, "deviation": 10.0, "drift": 0.0}
    for seed in range(trials):
        found = estimates(normal(100, seed))
        for name in held:
            known = getattr(found, name)
            held[name] += known.low <= truth[name] <= known.high
    assert all(0.89 <= count / trials <= 0.99 for count in held.values()), held


def test_a_drift_is_seen():
    values = [1000 + 0.5 * at + value for at, value in enumerate(normal(200, 3, 0.0, 5.0))]
    found = estimates(values)
    assert 0.05 < found.drift.low < found.drift.value < found.drift.high < 0.15
    assert found.explained > 0.9


@pytest.mark.parametrize(
    "values", [[], [5.0], [7.0] * 100, [1.0, 2.0] * (LEAST_SAMPLES // 2 - 1), [1e200, 1.0] * 9]
)
def test_of_too_few_or_equal_or_absurd_samples_there_are_none(values):
    assert estimates(values) is None


def test_of_many_samples_there_are_figures_without_lots():
    found = estimates(normal(MAXIMUM_SAMPLES + 1, 4))
    assert found.mean.low is None
    assert found.median.low is not None
    assert found.drift.low is not None


def test_each_sample_beyond_a_fence_is_in_one_class():
    values = [*range(100), -130.0, -60.0, 160.0, 170.0, 400.0]
    found = fences(values)
    assert {name: count for name, (_, count) in found.items()} == {
        "low severe": 0, "low mild": 2, "high mild": 2, "high severe": 1,
    }  # fmt: skip
    low, high = numpy.percentile(values, (25, 75))
    assert found["high severe"][0] == pytest.approx(high + 3 * (high - low))
    assert found["low mild"][0] == pytest.approx(low - 1.5 * (high - low))
    assert {count for _, count in fences([5.0]).values()} == {0}
