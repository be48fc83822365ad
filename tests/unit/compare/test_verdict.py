"""The rule that says whether B is slower, against its promises and against figures of other programs."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from replay.compare.rounds import Observation, RoundLimits, take_rounds
from replay.compare.verdict import (
    LOOKS,
    Estimate,
    Verdict,
    clip,
    estimate,
    geometric_mean,
    give_up,
    judge,
    probability_of_chance,
    survivors,
)
from replay.timing.student import log_density, tail_probability, two_sided_quantile

# scipy 1.17.1: stats.t.isf(probability / 2, degrees)
QUANTILES = [
    (0.05, 1, 12.706204736174705),
    (0.05, 5, 2.5705818356363155),
    (0.004, 5, 5.030244405082081),
    (0.004, 27, 3.1465053151455264),
    (0.01, 1000, 2.580754698065951),
    (1e-09, 3, 1301.6371672916928),
    (0.5, 2.5, 0.7850136829922992),
]


@pytest.mark.parametrize(("probability", "degrees", "expected"), QUANTILES)
def test_quantiles_are_those_of_the_distribution(probability, degrees, expected):
    assert two_sided_quantile(probability, degrees) == pytest.approx(expected, rel=1e-10)
    assert tail_probability(expected, degrees) == pytest.approx(probability, rel=1e-10)


def test_tails_of_one_and_two_degrees_have_closed_forms():
    for t in (0.01, 0.5, 1.0, 3.0, 40.0):
        assert tail_probability(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, rel=1e-9)
        assert tail_probability(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)
        assert log_density(t, 1) == pytest.approx(-math.log(math.pi * (1 + t * t)), rel=1e-9)


def test_a_probability_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        two_sided_quantile(0, 5)


def verdicts(effect: float, *, deviation: float = 0.009, runs: int = 400, seed: int = 1) -> Counter[Verdict]:
    generator = random.Random(seed)

    def side(ratio: float) -> Observation:
        noise = generator.gauss(0, deviation / math.sqrt(2))
        if generator.random() < 0.03:
            noise += generator.uniform(0.02, 0.1)
        return Observation(1e6 * ratio * math.exp(noise))

    found = [
        take_rounds(lambda: side(1), lambda: side(1 + effect), RoundLimits()).judgement.verdict
        for _ in range(runs)
    ]
    return Counter(found)


def test_equal_sides_are_hardly_ever_called_different():
    found = verdicts(0.0)
    assert found[Verdict.SLOWER] + found[Verdict.FASTER] <= 4
    assert found[Verdict.SAME] >= 300


@pytest.mark.parametrize("effect", [0.02, -0.02])
def test_two_percent_are_found(effect):
    found = verdicts(effect)
    assert found[Verdict.SLOWER if effect > 0 else Verdict.FASTER] >= 396


def sides(*pairs: tuple[Observation, Observation]):
    left, right = iter([a for a, _ in pairs]), iter([b for _, b in pairs])
    return lambda: next(left), lambda: next(right)


def test_deterministic_clocks_need_two_rounds():
    a, b = sides(*[(Observation(1000, exact=True), Observation(1030, exact=True))] * 2)
    taken = take_rounds(a, b, RoundLimits())
    assert taken.judgement.verdict is Verdict.SLOWER
    assert taken.judgement.estimate.ratio == pytest.approx(1.03)
    assert len(taken.rounds) == 2


def test_a_clock_whose_processes_differ_is_no_exact_one():
    """Each process may be deterministic, and still have a factor of its own."""
    pairs = [(Observation(1000 + n % 3, exact=True), Observation(1030, exact=True)) for n in range(28)]
    taken = take_rounds(*sides(*pairs), RoundLimits())
    assert len(taken.rounds) >= 6


def test_the_order_alternates():
    order = []

    def side(name):
        order.append(name)
        return Observation(1000.0)

    take_rounds(lambda: side("a"), lambda: side("b"), RoundLimits(exactly=4))
    assert "".join(order) == "abbaabba"


def test_faster_but_wrong_is_wrong_and_ends_at_once():
    a, b = sides((Observation(1000), Observation(500, wrong="outputs differ")))
    taken = take_rounds(a, b, RoundLimits())
    assert taken.judgement.verdict is Verdict.WRONG
    assert "B: outputs differ" in taken.judgement.reason


def test_a_change_of_the_clock_is_called_so():
    generator = random.Random(3)

    def side(ratio):
        noise = math.exp(generator.gauss(0, 0.002))
        return Observation(1000 * ratio * noise, cycles=1500 * noise)

    taken = take_rounds(lambda: side(1), lambda: side(1.05), RoundLimits())
    assert taken.judgement.verdict is Verdict.SLOWER
    assert taken.judgement.reason.startswith("clock")


def test_spoiled_rounds_are_repeated_twice_and_counted():
    bad, good = Observation(2000, spoiled="hardware-slowdown"), Observation(1000)
    a, b = sides((bad, good), (bad, good), (bad, good), (good, good))
    taken = take_rounds(a, b, RoundLimits(exactly=2))
    assert taken.spoiled == ["hardware-slowdown"] * 2
    assert [item.a.time_ns for item in taken.rounds] == [2000, 1000]


def test_a_budget_ends_it_with_what_could_have_been_seen():
    clock = iter(range(0, 1000, 10))
    generator = random.Random(4)
    taken = take_rounds(
        lambda: Observation(1000 * math.exp(generator.gauss(0, 0.05))),
        lambda: Observation(1000 * math.exp(generator.gauss(0, 0.05))),
        RoundLimits(budget_s=45),
        now_s=lambda: next(clock),
    )
    assert taken.judgement.verdict is Verdict.UNSURE
    assert "budget of 45 s" in taken.judgement.reason
    assert taken.judgement.smallest_effect > 0.05


def test_one_round_allows_no_interval():
    found = give_up([0.1], 0.01, "1 round")
    assert found.verdict is Verdict.UNSURE
    assert found.estimate is None
    assert judge([0.1]) is None


def test_one_disturbed_round_does_not_decide():
    assert clip([0.01, 0.011, 0.009, 0.01, 5.0])[-1] < 0.02
    assert clip([0.0, 0.0, 0.0, 0.01]) == [0.0, 0.0, 0.0, 0.01]  # a coarse clock: no spread is known


def test_a_coarse_clock_is_not_taken_for_an_exact_one():
    """Most rounds equal by quantisation: the odd one still widens the interval."""
    found = estimate([0.012, 0.012, 0.012, 0.012, 0.0, 0.0])
    assert found.low < 1.0 < found.high


def test_of_many_kernels_chance_findings_fall():
    """By hand: 0.04 <= 0.05 * 4 / 5 stands and takes the smaller ones along; 0.2 falls."""
    assert survivors([0.04, 0.001, 0.03, 0.2, 0.002]) == [True, True, True, False, True]
    assert survivors([0.04, 0.9, 0.9, 0.9, 0.9]) == [False] * 5
    assert probability_of_chance([0.0, 0.0, 0.0]) == 1.0
    assert probability_of_chance([0.1, 0.1, 0.1]) < 1e-9
    generator = random.Random(5)
    by_chance = [probability_of_chance([generator.gauss(0, 1) for _ in range(LOOKS[-1])]) for _ in range(300)]
    assert sum(value < 0.05 for value in by_chance) <= 15


def test_geometric_mean_of_exact_ratios_is_exact():
    found = geometric_mean([Estimate(2.0, 2.0, 2.0, 6, 0.0), Estimate(0.5, 0.5, 0.5, 6, 0.0)])
    assert (found.ratio, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))


def test_geometric_mean_covers_the_truth():
    generator = random.Random(6)
    covered = 0
    for _ in range(200):
        kernels = [estimate([generator.gauss(0.01, 0.009) for _ in range(6)]) for _ in range(5)]
        found = geometric_mean(kernels)
        covered += found.low <= math.exp(0.01) <= found.high
    assert covered >= 180
