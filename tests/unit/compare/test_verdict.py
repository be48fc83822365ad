"""The rule that says whether B is slower, against its promises and against figures of other programs."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from replay.compare.interval import averages_outside, bounds, probability_of_signs
from replay.compare.rounds import Observation, Round, RoundLimits, resolution, take_rounds
from replay.compare.verdict import (
    LOOKS,
    PROBABILITIES,
    Estimate,
    Verdict,
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
    assert len(taken.rounds) >= LOOKS[0]


def order_of(tosses, rounds):
    order = []

    def side(name):
        order.append(name)
        return Observation(1000.0 + len(order))

    take_rounds(lambda: side("a"), lambda: side("b"), RoundLimits(exactly=rounds), toss=tosses)
    return "".join(order)[::2]


def test_the_order_comes_by_lot():
    generator = random.Random(1)
    assert len({order_of(lambda: generator.random() < 0.5, 28) for _ in range(20)}) == 20


def test_lots_that_would_let_an_order_pass_for_a_difference_are_drawn_again():
    alike, turns, chosen = [True] * 8, [True, False] * 4, [True, True, False, True, False, False, True, False]
    for first in (alike, [not value for value in alike], turns, [not value for value in turns]):
        lots = iter([*first, *chosen, False])
        assert order_of(lambda: next(lots), 9) == "bbabaabaa"  # noqa: B023


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
    found = estimate([0.012] * 13 + [5.0])
    assert found.ratio == pytest.approx(math.exp(0.012))
    assert found.low > 1


def test_a_narrow_middle_does_not_hide_tails():
    """As processes of two levels make it: clipped around the median these were SLOWER."""
    assert judge([0.0501, 0.0499, 0.05, 0.0502, 0.0, 0.0001]) is None
    assert judge([0.0501, 0.0499, 0.05, 0.0502, 0.0503, 0.05, 0.05, 0.0001]) is None


def test_a_coarse_clock_is_not_taken_for_an_exact_one():
    """Most rounds equal by quantisation: the odd one still widens the interval."""
    found = estimate([0.012, 0.012, 0.012, 0.012, 0.0, 0.0])
    assert found.low < 1.0 < found.high


SIGNED_RANKS = [0.011, -0.004, 0.023, 0.017, 0.009, 0.0305, -0.0021, 0.014, 0.0193, 0.0262]


def test_signed_ranks_are_counted_as_others_count_them():
    """By hand: the negative ones have ranks 1 and 2, and 5 of 1,024 ways come to 3 or less."""
    import numpy

    assert probability_of_signs(numpy.array(SIGNED_RANKS)) == pytest.approx(2 * 5 / 1024)
    assert averages_outside(10, 2 / 1024) == 0
    assert averages_outside(10, 4 / 1024) == 1
    assert (
        averages_outside(28, 0.05) == 116
    )  # of the tables of Wilcoxon's test: the critical value for n = 28
    with pytest.raises(ValueError, match="allow no interval"):
        averages_outside(10, 0.001)
    averages = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(SIGNED_RANKS, 2))
    middle, low, high = bounds(numpy.array(SIGNED_RANKS), 0.004)  # all but the outermost average
    assert (middle, low, high) == pytest.approx((averages[27], averages[1], averages[-2]))


def test_all_looks_together_spend_less_than_one_percent():
    """Of 256 orders of the first rounds 4 are never drawn."""
    spent = {look: 2 * ways_up_to(look, averages_outside(look, PROBABILITIES[look])) for look in LOOKS}
    assert sum(spent.values()) * 256 / 252 < 0.01
    assert spent[8] == 2 / 256


def ways_up_to(count, outside):
    """Share of the subsets of 1 .. count whose sum is at most `outside`, counted one by one."""
    sums = [0]
    for rank in range(1, count + 1):
        sums += [total + rank for total in sums if total + rank <= outside]
    return len(sums) / 2**count


def test_values_that_lie_far_apart_have_an_interval():
    assert estimate([10.0, -10.0]).high > 1e100
    assert give_up([10.0, -10.0], 0.01, "2 rounds").verdict is Verdict.UNSURE


def test_times_that_a_clock_rounds_to_the_same_are_not_the_same():
    """A step of 5 %: 2 % more may be the same number."""
    equal = [Round(Observation(1000.0), Observation(1000.0), False)] * 6
    assert math.isinf(resolution(equal))
    apart = [Round(Observation(1000.0), Observation(1050.0), False), *equal]
    assert resolution(apart) == pytest.approx(0.05)
    shown = [Round(Observation(1000.0, step_ns=2.0), Observation(1000.0), False)] * 6
    assert resolution(shown) == pytest.approx(0.002)
    continuous = [Round(Observation(1000.0 + n), Observation(1100.0 + n), False) for n in range(6)]
    assert resolution(continuous) == 0
    taken = take_rounds(lambda: Observation(1000.0), lambda: Observation(1000.0), RoundLimits())
    assert taken.judgement.verdict is Verdict.UNSURE
    assert "too coarse" in taken.judgement.reason
    seen = take_rounds(lambda: Observation(1000.0, step_ns=2), lambda: Observation(1000.0), RoundLimits())
    assert seen.judgement.verdict is Verdict.SAME


def test_of_many_kernels_chance_findings_fall():
    """By hand: 0.04 <= 0.05 * 4 / 5 survives and takes the smaller ones along; 0.2 does not."""
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
