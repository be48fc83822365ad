"""The rule of `compare` under noise of many kinds, by the models of benchmarks/verdicts.py, which takes ten times more.

Limits are such that a rule at its target passes in 9,999 of 10,000 draws; the draws are fixed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy
import pytest

from replay.check.gate import effect_beyond
from replay.compare.rounds import Observation, RoundLimits, take_rounds
from replay.compare.stored import judge_by_spread
from replay.history.spread import spread_of

PATH = Path(__file__).parents[3] / "benchmarks" / "noise_models.py"
SPECIFICATION = importlib.util.spec_from_file_location("noise_models", PATH)
models = importlib.util.module_from_spec(SPECIFICATION)
__import__("sys").modules["noise_models"] = models  # dataclasses look their module up
SPECIFICATION.loader.exec_module(models)

COUNT = 2000
FALSE_ALARMS = 39  # of 2,000 at 1 %
WRONG_SIGNS = 10  # of 2,000 at 0.1 %
HARD = [
    models.normal(0.9),
    models.normal(2),
    models.normal(3),
    models.student(2, 2),
    models.levels((0, 2), (0.5, 0.5), 0.1),
    models.levels((0, 5), (0.8, 0.2)),
    models.levels((0, 10), (0.5, 0.5), 0.1),
    models.levels((0, 2, 5), (1 / 3, 1 / 3, 1 / 3)),
    models.rhythm(4, 2),
    models.correlated(0.3, 1.5),
    models.coarse(1, 3),
    models.second_is_slower(5, 0.2),
]


def generator(seed=1):
    return numpy.random.default_rng(seed)


@pytest.mark.parametrize("model", HARD, ids=lambda model: model.name)
def test_equal_sides_are_called_different_in_less_than_one_percent(model):
    found = models.compare_all(model, 0.0, COUNT, generator()).shares
    assert (found["SLOWER"] + found["FASTER"]) * COUNT <= FALSE_ALARMS


@pytest.mark.parametrize("model", HARD, ids=lambda model: model.name)
def test_a_slow_down_is_never_called_a_speed_up_or_nothing(model):
    for effect in (0.01, 0.03):
        assert models.compare_all(model, effect, COUNT, generator(2)).shares["FASTER"] * COUNT <= WRONG_SIGNS
    assert models.compare_all(model, 0.02, COUNT, generator(3)).shares["SAME"] * COUNT <= FALSE_ALARMS


@pytest.mark.parametrize("effect", [0.02, 1 / 1.02 - 1])
def test_two_percent_are_found_in_ten_rounds(effect):
    found = models.compare_all(models.normal(0.9), effect, COUNT, generator(4))
    assert found.shares["SLOWER" if effect > 0 else "FASTER"] >= 0.99
    assert found.rounds <= 10


def test_equal_sides_of_little_noise_are_the_same():
    assert models.compare_all(models.normal(0.6), 0.0, COUNT, generator(5)).shares["SAME"] >= 0.99


@pytest.mark.parametrize(
    "model",
    [models.normal(1.5), models.coarse(1, 0.9), models.levels((0, 2), (0.7, 0.3))],
    ids=lambda x: x.name,
)
def test_many_comparisons_at_once_say_what_one_at_a_time_says(model):
    a, b = models.sides(model, 0.01, 40, generator(6))
    verdicts, rounds = models.judge_all(a, b, coarse_clock=model.step > 0)
    for left, right, verdict, count in zip(a, b, verdicts, rounds, strict=True):
        times = [iter(left), iter(right)]
        taken = take_rounds(
            lambda: Observation(1e6 * float(next(times[0]))),  # noqa: B023
            lambda: Observation(1e6 * float(next(times[1]))),  # noqa: B023
            RoundLimits(),
        )
        assert taken.judgement.verdict.value == models.VERDICTS[verdict]
        assert len(taken.rounds) == count


def dated(times):
    return [
        (f"2026-{1 + n // 28:02}-{1 + n % 28:02}T03:00:00+00:00", float(time)) for n, time in enumerate(times)
    ]


DAYS = [
    models.normal(0.9),
    models.normal(3),
    models.student(2, 0.9),
    models.levels((0, 5), (0.5, 0.5), 0.1),
    models.levels((0, 5), (0.85, 0.15), 0.1),
    models.levels((0, 10), (0.2, 0.8), 0.1),
    models.spikes(0.1),
]


@pytest.mark.parametrize("model", DAYS, ids=lambda model: model.name)
@pytest.mark.parametrize("count", [2, 4])
def test_results_of_days_of_one_level_are_hardly_ever_called_different(model, count):
    """A history of 12 days and as many results a side: 300 of each, of which 11 and more come once in 3,000 at 1 %."""
    days = numpy.exp(model.noise(generator(7), 300, 12 + 2 * count))
    alarms = 0
    for row in days:
        spread = spread_of(dated(row[:12]))
        judged, _ = judge_by_spread(row[12 : 12 + count], row[12 + count :], 0.01, spread, own=False)
        alarms += judged.verdict.value in ("SLOWER", "FASTER")
    assert alarms <= 10


def test_two_results_a_side_find_what_the_days_do_not_bring():
    days = numpy.exp(models.normal(0.6).noise(generator(8), 100, 16))
    days[:, 14:] *= 1.05
    found = sum(
        judge_by_spread(row[12:14], row[14:], 0.01, spread_of(dated(row[:12])), own=False)[0].verdict.value
        == "SLOWER"
        for row in days
    )
    assert found >= 95


@pytest.mark.parametrize("model", DAYS, ids=lambda model: model.name)
@pytest.mark.parametrize("count", [1, 6, 12])
def test_a_gate_over_days_of_one_level_raises_hardly_any_alarm(model, count):
    """The newest of `count` days is the baseline; three replays of today must agree."""
    days = numpy.exp(model.noise(generator(9), 150, count + 3))
    alarms = 0
    for row in days:
        effect, _ = effect_beyond(spread_of(dated(row[:count])))
        alarms += bool((row[count:] / row[count - 1] >= 1 + effect).all())
    assert alarms <= 6
