"""The course of a bisection: ends, merging, search, verification, several steps, interruption."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field

import pytest

from replay.bisect.candidates import Candidate
from replay.bisect.progress import MAXIMUM_COURSE, Progress, candidates_of, course_of
from replay.bisect.stages import MergedError, SkippedError, find_slower, find_symptom
from replay.compare.rounds import Observation, RoundLimits
from replay.errors import EngineError


@dataclass
class Bench:
    """Candidates of known times (relative), with noise; counts what it is asked."""

    times: list[float]
    noise: float = 0.0
    codes: list[str] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    failing: set[int] = field(default_factory=set)
    symptom: list[float] = field(default_factory=list)
    seed: int = 1
    runs: int = 0
    fail_after: int | None = None

    def __post_init__(self):
        self.generator = random.Random(self.seed)

    def identity(self, candidate):
        if candidate in self.broken:
            raise SkippedError("does not build")
        return self.codes[candidate] if self.codes else ""

    def time(self, candidate):
        self.runs += 1
        if self.fail_after is not None and self.runs > self.fail_after:
            raise KeyboardInterrupt
        if candidate in self.failing:
            raise SkippedError("does not run")
        noise = math.exp(self.generator.gauss(0, self.noise / math.sqrt(2)))
        return Observation(1e6 * self.times[candidate] * noise, exact=self.noise == 0)

    def shows_symptom(self, candidate):
        self.runs += 1
        return self.generator.random() < self.symptom[candidate]


def steps_of(count, *steps):
    return [math.prod(1 + size for at, size in steps if n >= at) for n in range(count)]


def search(bench, count, *, timed=True, progress=None, save=lambda: None):
    known = progress or Progress(count)
    if not timed:
        return find_symptom(bench, known, save=save)
    return find_slower(bench, known, RoundLimits(), save=save)


@pytest.mark.parametrize("first_bad", [1, 2, 17, 33])
def test_the_first_slow_candidate_is_named(first_bad):
    found = search(Bench(steps_of(34, (first_bad, 0.03))), 34)
    (step,) = found.steps
    assert (step.last_good, step.first_bad, step.verdict) == (first_bad - 1, first_bad, "SLOWER")
    assert step.ratio == pytest.approx(1.03)
    assert step.share == pytest.approx(1.0)


def test_a_deterministic_clock_needs_one_round_a_candidate():
    bench = Bench(steps_of(34, (20, 0.03)))
    search(bench, 34)
    assert bench.runs <= 2 * (2 + 6 + 2)


def test_it_is_named_under_noise():
    right = 0
    for seed in range(20):
        bench = Bench(steps_of(34, (11, 0.03)), noise=0.009, seed=seed)
        right += search(bench, 34).steps[0].first_bad == 11
    assert right >= 19


def test_equal_ends_are_refused():
    with pytest.raises(EngineError, match="bad end is SAME"):
        search(Bench([1.0] * 5), 5)


def test_ends_the_wrong_way_round_are_refused():
    with pytest.raises(EngineError, match="bad end is FASTER"):
        search(Bench([1.1, 1.0]), 2)


def test_equal_machine_code_is_never_measured():
    bench = Bench(steps_of(9, (6, 0.05)), codes=list("aaabbbccc"))
    asked = []
    time = bench.time
    bench.time = lambda at: asked.append(at) or time(at)
    (step,) = search(bench, 9).steps
    assert (step.last_good, step.first_bad) == (3, 6)
    assert set(asked) <= {0, 3, 6}


def test_ends_of_equal_machine_code_are_refused():
    with pytest.raises(EngineError, match="same machine code"):
        search(Bench([1.0, 1.0, 1.1], codes=list("aaa")), 3)


def test_candidates_that_do_not_build_or_run_stay_between():
    bench = Bench(steps_of(9, (5, 0.05)), broken={4}, failing={5})
    (step,) = search(bench, 9).steps
    assert (step.last_good, step.first_bad, step.between) == (3, 6, [4, 5])


def test_a_broken_end_is_refused():
    with pytest.raises(EngineError, match="good end cannot be observed: does not build"):
        search(Bench([1.0, 1.1], broken={0}), 2)


def test_several_steps_are_all_reported():
    found = search(Bench(steps_of(34, (7, 0.04), (25, 0.05))), 34)
    assert [(step.last_good, step.first_bad) for step in found.steps] == [(6, 7), (24, 25)]
    assert sum(step.share for step in found.steps) == pytest.approx(1.0, abs=0.01)


def test_an_interrupted_search_goes_on_where_it_was():
    whole = Bench(steps_of(34, (20, 0.03)), noise=0.002)
    search(whole, 34)
    states = []
    progress = Progress(34)
    bench = Bench(steps_of(34, (20, 0.03)), noise=0.002, fail_after=whole.runs - 6)
    with pytest.raises(KeyboardInterrupt):
        search(bench, 34, progress=progress, save=lambda: states.append(json.dumps(progress.plain())))
    again = Bench(steps_of(34, (20, 0.03)), noise=0.002, seed=2)
    found = search(again, 34, progress=Progress.of_plain(json.loads(states[-1])))
    assert found.steps[0].first_bad == 20
    assert again.runs <= 16


def test_a_symptom_is_found():
    found = search(Bench([1.0] * 20, symptom=[0.0] * 13 + [1.0] * 7), 20, timed=False)
    assert (found.steps[0].last_good, found.steps[0].first_bad) == (12, 13)


def test_a_symptom_that_shows_now_and_then_is_found():
    right = 0
    for seed in range(20):
        bench = Bench([1.0] * 20, symptom=[0.0] * 13 + [0.6] * 7, seed=seed)
        right += search(bench, 20, timed=False).steps[0].first_bad == 13
    assert right >= 18


def plainly(bench, count, progress=None):
    return find_symptom(bench, progress or Progress(count), plain=True)


@pytest.mark.parametrize("first_bad", range(1, 10))
def test_a_plain_outcome_takes_a_plain_bisection_and_a_confirmation(first_bad):
    """Both ends, 8 candidates between them halved, and the pair once more."""
    bench = Bench([1.0] * 10, symptom=[0.0] * first_bad + [1.0] * (10 - first_bad))
    (step,) = plainly(bench, 10).steps
    assert (step.last_good, step.first_bad) == (first_bad - 1, first_bad)
    assert bench.runs <= 2 + 4 + 2


def test_two_outcomes_of_one_candidate_end_the_plain_bisection():
    """The pair is asked again: a bad one that showed nothing, once, does not send the search the wrong way."""
    right = 0
    for seed in range(40):
        bench = Bench([1.0] * 20, symptom=[0.0] * 13 + [0.7] * 7, seed=seed)
        bench.answers = []
        answer = bench.shows_symptom

        def counted(candidate, bench=bench, answer=answer):
            bench.answers.append((candidate, answer(candidate)))
            return bench.answers[-1][1]

        bench.shows_symptom = counted
        (step,) = plainly(bench, 20).steps
        both = {at for at, seen in bench.answers if (at, not seen) in bench.answers}
        assert step.probability < 1 or not both & {step.last_good, step.first_bad}
        right += step.first_bad == 13
    assert (
        right >= 26
    )  # a test that fails 7 times of 10 is no plain one, and one run a candidate may not show it


def test_the_posterior_search_knows_what_the_plain_one_saw():
    """The bad end shows it at its second run only."""
    bench = Bench([1.0] * 9, symptom=[0.0] * 5 + [1.0] * 4)
    answers = iter([1.0, 0.0, 1.0, 0.0])
    first = bench.shows_symptom
    bench.shows_symptom = lambda at: bool(next(answers, first(at))) if at == 4 else first(at)
    progress = Progress(9)
    (step,) = plainly(bench, 9, progress).steps
    assert step.probability < 1
    assert len(progress.observations[4]) > 2


def test_a_plain_bisection_leaves_out_what_cannot_be_told():
    class Unknown(Bench):
        def shows_symptom(self, candidate):
            if candidate in (4, 5):
                raise SkippedError("cannot tell")
            return super().shows_symptom(candidate)

    (step,) = plainly(Unknown([1.0] * 9, symptom=[0.0] * 5 + [1.0] * 4), 9).steps
    assert (step.last_good, step.first_bad, step.between) == (3, 6, [4, 5])


def test_an_interrupted_plain_bisection_asks_nothing_twice():
    whole = Bench([1.0] * 10, symptom=[0.0] * 4 + [1.0] * 6)
    plainly(whole, 10)
    progress, bench = Progress(10), Bench([1.0] * 10, symptom=[0.0] * 4 + [1.0] * 6)
    first, count = bench.shows_symptom, iter(range(3))

    def interrupted(candidate):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return first(candidate)

    bench.shows_symptom = interrupted
    with pytest.raises(KeyboardInterrupt):
        plainly(bench, 10, progress)
    bench.shows_symptom = first
    plainly(bench, 10, Progress.of_plain(json.loads(json.dumps(progress.plain()))))
    assert bench.runs == whole.runs


@pytest.mark.parametrize(("rates", "says"), [([0.0, 0.0], "did not show"), ([1.0, 1.0], "always shows")])
def test_ends_that_do_not_differ_are_refused_by_a_plain_bisection(rates, says):
    with pytest.raises(EngineError, match=says):
        plainly(Bench([1.0, 1.0], symptom=rates), 2)


@pytest.mark.parametrize(("rates", "says"), [([0.0, 0.0], "did not show"), ([1.0, 1.0], "always shows")])
def test_ends_that_do_not_differ_in_a_symptom_are_refused(rates, says):
    with pytest.raises(EngineError, match=says):
        search(Bench([1.0, 1.0], symptom=rates), 2, timed=False)


def test_what_was_built_is_kept_when_building_is_interrupted():
    """Fetching and assembling forty versions takes minutes; none is done twice."""
    asked = []

    class Builder(Bench):
        def identity(self, candidate):
            asked.append(candidate)
            if candidate == 3 and asked.count(3) == 1:
                raise KeyboardInterrupt
            return super().identity(candidate)

    bench, saved, progress = Builder(steps_of(6, (4, 0.03))), [], Progress(6)
    with pytest.raises(KeyboardInterrupt):
        search(bench, 6, progress=progress, save=lambda: saved.append(json.dumps(progress.plain())))
    kept = Progress.of_plain(json.loads(saved[-1]))
    assert search(bench, 6, progress=kept).steps[0].first_bad == 4
    assert asked == [0, 1, 2, 3, 3, 4, 5]


def test_the_log_of_a_candidate_that_does_not_build_is_kept():
    class Builder(Bench):
        def identity(self, candidate):
            if candidate == 2:
                error = SkippedError("ptxas refused it")
                error.details = "line 7: unknown instruction"
                raise error
            return ""

    progress = Progress(5)
    search(Builder(steps_of(5, (4, 0.03))), 5, progress=progress)
    assert progress.logs == {2: "line 7: unknown instruction"}
    assert Progress.of_plain(json.loads(json.dumps(progress.plain()))).logs == progress.logs


def test_a_state_that_lacks_a_field_is_an_error():
    plain = Progress(3).plain()
    assert Progress.of_plain(plain) == Progress(3)
    del plain["skipped"]
    with pytest.raises(KeyError):
        Progress.of_plain(plain)


def test_ends_of_equal_machine_code_are_told_from_other_errors():
    with pytest.raises(MergedError, match="same machine code"):
        search(Bench([1, 1, 1], codes=["a", "a", "a"]), 3)


def test_the_rounds_between_the_ends_are_kept_and_come_back():
    progress = Progress(34)
    found = search(Bench(steps_of(34, (20, 0.03)), 0.009), 34, progress=progress)
    course = course_of(progress)
    assert [(one.good, one.bad) for one in course] == [(0, 33)] * len(course)
    assert course[-1].first_bad == 20
    assert course[-1].probability >= 0.99
    assert (course[-1].low, course[-1].high) == (20, 20)
    assert all(one.low <= one.first_bad <= one.high for one in course)
    assert course[0].high - course[0].low > 10
    assert "99 % are enough" in found.stopped
    again = Progress.of_plain(json.loads(json.dumps(progress.plain())))
    assert course_of(again) == course
    earlier = progress.plain()
    del earlier["course"]
    assert Progress.of_plain(earlier).course == []


def test_a_course_has_an_end():
    progress = Progress(3)
    for _ in range(MAXIMUM_COURSE + 5):
        progress.add_round(0, 2, 1, 0.0, 1, 0.5, 1, 2)
    assert len(course_of(progress)) == MAXIMUM_COURSE


def test_candidates_have_ratios_with_intervals_where_there_are_rounds():
    progress = Progress(3, observations={1: [0.01, 0.02, 0.015], 2: [0.03]})
    names = [Candidate(name) for name in "abc"]
    one, two, three = candidates_of(progress, names, [], {}, None, {1: 1000.0})
    assert (one.ratio, one.time_ns) == (None, None)
    assert two.low < two.ratio < two.high
    assert two.time_ns == 1000.0
    assert (three.ratio, three.low) == (math.exp(0.03), None)
