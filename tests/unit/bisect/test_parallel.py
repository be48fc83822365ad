"""Waves of several candidates: what they ask, and what the simulation of them says."""

from __future__ import annotations

import random

import pytest

from replay.bisect.parallel import expected, wave
from replay.bisect.search import Search, StepEvidence

NOISY, EXACT = StepEvidence(0.03, 0.009), StepEvidence(0.05, 0.001, exact=True)


def test_a_wave_splits_what_is_possible_evenly():
    search = Search(9, EXACT)
    assert wave(search, 1) == [4]
    assert wave(search, 3) == [2, 4, 6]
    search.exclude(4)
    assert 4 not in wave(search, 3)


def test_what_is_known_is_not_asked_again():
    search = Search(9, EXACT)
    search.observe(4, 0.05)
    assert max(wave(search, 8)) < 4
    search.observe(3, 0.0)
    assert search.finished


@pytest.mark.parametrize("at_once", [1, 4])
def test_the_first_bad_one_is_found_in_noise(at_once):
    lots, right, searches = random.Random(at_once), 0, 100
    for _ in range(searches):
        first_bad, search = lots.randrange(1, 34), Search(34, NOISY)
        while not search.finished:
            asked = wave(search, at_once)
            assert asked
            assert len(asked) <= at_once
            for candidate in asked:
                search.observe(candidate, 0.03 * (candidate >= first_bad) + lots.gauss(0, 0.009))
        right += search.best().first_bad == first_bad
    assert right >= 0.97 * searches


def test_more_devices_take_fewer_waves_and_more_rounds():
    one, eight = (expected(34, NOISY, at_once, 2.0, 5.0) for at_once in (1, 8))
    assert eight.waves < one.waves / 2
    assert eight.rounds > one.rounds
    assert eight.wall_s < one.wall_s / 2
    assert expected(34, EXACT, 8, 2.0, 5.0).each == 1  # a second round of an exact clock says the same
