"""The search for the first bad candidate under noise."""

from __future__ import annotations

import json
import random

import pytest

from replay.bisect.search import Bracket, FailureEvidence, Search, StepEvidence


def find(search: Search, observe) -> Bracket:
    while not search.finished:
        candidate = search.next()
        search.observe(candidate, observe(candidate))
    return search.best()


@pytest.mark.parametrize("count", [2, 3, 34])
def test_every_place_is_found_without_noise(count):
    for first_bad in range(1, count):
        found = find(Search(count, StepEvidence(0.03, 0.0001)), lambda at, bad=first_bad: 0.03 * (at >= bad))
        assert (found.last_good, found.first_bad) == (first_bad - 1, first_bad)


def test_places_are_found_under_noise_in_few_rounds():
    generator = random.Random(1)
    right = rounds = 0
    for _ in range(200):
        first_bad = generator.randrange(1, 34)
        search = Search(34, StepEvidence(0.03, 0.009))
        found = find(search, lambda at, bad=first_bad: generator.gauss(0.03 * (at >= bad), 0.009))
        right += found.first_bad == first_bad
        rounds += search.rounds
    assert right >= 194
    assert rounds / 200 <= 20


def test_one_round_never_decides():
    evidence = StepEvidence(0.03, 0.0001)
    assert evidence.of(1000.0) <= 4
    assert evidence.of(-1000.0) >= -4


def test_a_symptom_that_shows_now_and_then_is_found():
    generator = random.Random(2)
    right = 0
    for _ in range(100):
        first_bad = generator.randrange(1, 20)
        search = Search(20, FailureEvidence(0.5, 0.01))
        found = find(search, lambda at, bad=first_bad: generator.random() < (0.5 if at >= bad else 0.01))
        right += found.first_bad == first_bad
    assert right >= 95


def test_candidates_that_cannot_be_observed_stay_between_the_ends():
    search = Search(10, StepEvidence(0.03, 0.0001))
    for candidate in (4, 5, 6):
        search.exclude(candidate)
    found = find(search, lambda at: 0.03 * (at >= 6))
    assert (found.last_good, found.first_bad) == (3, 7)
    assert list(found.skipped) == [4, 5, 6]
    assert found.probability >= 0.99


def test_nothing_is_left_to_ask_when_all_are_excluded():
    search = Search(3, StepEvidence(0.03, 0.001))
    search.exclude(1)
    assert search.finished
    with pytest.raises(ValueError, match="no candidate"):
        search.next()


def test_contradictions_end_after_a_bounded_number_of_rounds():
    search = Search(34, StepEvidence(0.03, 0.1))
    find(search, lambda at: 0.015)
    assert search.rounds <= 200


def test_the_state_survives_json():
    evidence = StepEvidence(0.03, 0.009)
    search = Search(34, evidence)
    search.exclude(3)
    search.observe(16, 0.03)
    again = Search.restored(34, evidence, json.loads(json.dumps(search.state())))
    assert again.posterior() == search.posterior()
    assert again.next() == search.next()
    with pytest.raises(ValueError, match="34 candidates"):
        Search.restored(20, evidence, search.state())
