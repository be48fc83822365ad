"""Where samples lie: the interval of the median, and the density that pages draw."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest

from replay.timing.density import density, extent, median_interval


@pytest.mark.parametrize("count", [6, 7, 10, 13])
def test_the_interval_misses_the_median_in_at_most_one_of_twenty(count):
    # Whatever the distribution: each sample lies above or below the median like a fair coin.
    found = median_interval(list(range(count)))
    assert found is not None
    low, _ = found
    missed = sum(
        not low < sum(sides) < count - low for sides in product((0, 1), repeat=count)
    )  # so many samples lie below the median
    assert missed / 2**count <= 0.05
    narrower = sum(not low + 1 < sum(sides) < count - low - 1 for sides in product((0, 1), repeat=count))
    assert narrower / 2**count > 0.05  # it is the narrowest such


def test_few_samples_have_no_interval():
    assert [median_interval([1.0] * count) for count in range(6)] == [None] * 6
    assert median_interval([3, 1, 2, 6, 5, 4]) == (1.0, 6.0)


def test_many_samples_have_an_interval():
    low, high = median_interval(list(range(100_000)))
    assert low == pytest.approx(50_000 - 0.98 * math.sqrt(100_000), abs=3)
    assert high == pytest.approx(50_000 + 0.98 * math.sqrt(100_000), abs=3)


def test_a_density_is_one_in_all_and_highest_where_the_samples_are():
    chance = random.Random(1)
    samples = [chance.gauss(100, 2) for _ in range(2000)]
    found = density(samples, 80, 120, 401)
    assert sum(found) * 0.1 == pytest.approx(1, abs=0.01)
    assert 80 + found.index(max(found)) * 0.1 == pytest.approx(100, abs=1)
    assert max(found) == pytest.approx(1 / (2 * math.sqrt(2 * math.pi)), rel=0.1)


def test_two_levels_are_two_hills():
    chance = random.Random(1)
    samples = [chance.gauss(level, 1) for level in (90, 110) for _ in range(300)]
    found = density(samples, 80, 120, 41)
    assert found[20] < found[10] / 2
    assert found[20] < found[30] / 2


def test_equal_samples_have_no_density():
    assert density([5] * 100, 4, 6) == []
    assert density([5, 6], 4, 7) == []


def test_one_sample_far_out_does_not_decide_what_is_drawn():
    low, high = extent([*range(100, 200), 1_000_000])
    assert low == 100
    assert high < 1000
    assert extent([7.0]) == (7.0, 7.0)
