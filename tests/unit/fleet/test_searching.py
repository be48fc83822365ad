"""What made a step: waves of candidates on devices that say what they are told to."""

from __future__ import annotations

import dataclasses
import random

import pytest

from replay.bisect.candidates import Candidate
from replay.cli import main
from replay.errors import ExitCode, WorkerError
from replay.fleet.laboratory import Found
from replay.fleet.searching import BUDGET, Hunt, run_searches
from replay.fleet.sharing.place import Place
from replay.report.bisect import answer
from replay.report.steps import issue_text
from replay.results.fleet import FleetCase

from .night_factory import night_of, row_of, unit, worker

CANDIDATES = [Candidate(f"{at}", f"env=X={at}") for at in range(12)]
MATRIX = """
[[kind]]
name = "cpu"
driver = "emulator"
workers = 4
[[compare]]
name = "driver"
b = "env=X=1"
"""


class Devices:
    """An engine whose workers are done when they have begun. first_bad: of CANDIDATES. broken: that die."""

    def __init__(self, first_bad=7, noise=0.0, broken=(), step=1.04):
        self.first_bad, self.noise, self.broken, self.step = first_bad, noise, broken, step
        self.asked, self.lots = [], random.Random(1)

    def slots(self, kind):
        return kind.workers

    def start(self, night, kind, slot):
        with night.claims() as claims:
            made, laboratory = worker(night, claims, f"cpu-{slot}")
            laboratory.measure = self._measure
            made.run()
        return self

    def ended(self):
        return ""

    def stop(self):
        raise AssertionError

    def close(self):
        pass

    def _measure(self, asked, effect):
        a, b = (int(text.rpartition("=")[2]) for text in (asked.a, asked.b))
        self.asked.append(b)
        if b in self.broken:
            raise WorkerError("the worker died")
        row = row_of(asked, self.step if a < self.first_bad <= b else 1.0,
                     "SLOWER" if a < self.first_bad <= b else "SAME", asked.rounds or 8)  # fmt: skip
        rounds = [
            dataclasses.replace(one, b_ns=one.b_ns * (1 + self.lots.gauss(0, self.noise)))
            for one in row.rounds
        ]
        return Found(dataclasses.replace(row, rounds=rounds), {}, [])


@pytest.fixture
def search(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.fleet.worker.PATIENCE_S", 0.0)
    monkeypatch.setattr("replay.fleet.sharing.place.LOOKS_EVERY_S", 0.01)
    (tmp_path / "night.toml").write_text(MATRIX)

    def run(devices, hunts=None, **of):
        hunts = hunts or [Hunt(unit(1), CANDIDATES, "list")]
        troubles = run_searches(Place(tmp_path / "results"), tmp_path, hunts, tmp_path / "night.toml", lambda: devices,
                                question="q", **of)  # fmt: skip
        assert troubles == []
        return hunts[0]

    return run


def found_by(hunt):
    [step] = hunt.result().steps
    return step.last_good, step.first_bad, step.verdict


def test_several_candidates_are_asked_at_once(search, tmp_path):
    said = []
    hunt = search(Devices(), say=said.append)
    assert found_by(hunt) == (6, 7, "SLOWER")
    waves = sorted(path.name for path in tmp_path.glob("results/search/*/*"))
    assert len(waves) <= 5  # the ends, the pair that was found, and at most three between
    assert any("4 at once" in text and "(simulated)" in text for text in said)
    assert not list(tmp_path.glob("results/search/*/*/results/*/*.rres"))


def test_noise_and_a_candidate_that_dies_keep_nothing_from_being_found(search):
    hunt = search(Devices(noise=0.01, broken=(5,)))
    assert found_by(hunt) == (6, 7, "SLOWER")
    listed = hunt.result().candidates
    assert not listed[5].skipped or "died" in listed[5].skipped


def test_of_one_that_dies_beside_the_step_both_are_named(search):
    hunt = search(Devices(broken=(6,)))
    assert found_by(hunt) == (5, 7, "SLOWER")
    assert hunt.result().steps[0].between == [6]


def test_what_was_stopped_goes_on_with_what_it_knows(search):
    search(Devices(), budget_s=1e9)
    again = Devices()
    assert found_by(search(again)) == (6, 7, "SLOWER")
    assert again.asked == []


def test_a_budget_ends_the_search_with_what_is_known(search):
    hunt = search(Devices(), budget_s=-1.0)
    assert hunt.result().ended == BUDGET
    assert answer(hunt.result()) == f"nothing was searched: {BUDGET}"


def test_ends_that_do_not_differ_are_no_search(search):
    hunt = search(Devices(first_bad=99))
    assert "SAME against the first" in hunt.result().ended


def test_what_a_night_has_left_out_stays_out(search, tmp_path):
    (tmp_path / "before").mkdir()
    before = night_of(tmp_path / "before", 1)
    before.drain("n1")
    hunt = search(Devices(), before=before)
    assert hunt.result().ended.startswith("the ends could not be measured")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--on", "ray"], "--on"),
        (["--matrix", "night.toml"], "--matrix"),
        (["--results", "r"], "--results"),
        (["--bisect", "list=v.txt", "--on", "nosuch"], "nosuch"),
        (["--bisect", "list=v.txt", "--matrix", "odd.toml"], "odd.toml:1"),
    ],
)
def test_what_a_check_would_not_search_is_said_before_anything_is_replayed(
    tmp_path, capsys, monkeypatch, words, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("captured\nenv=X=1\n")
    (tmp_path / "odd.toml").write_text("[nonsense]")
    monkeypatch.setattr("replay.library.checking.check", lambda *given, **named: pytest.fail("replayed"))
    assert main(["check", ".", *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_the_issue_says_whose_it_is_and_how_to_see_it(search):
    case = FleetCase("1" * 16, "a b.rsnap", None, "gemm|<b>", "h100", "driver", "SLOWER", ratio=1.04, team="blas",
                     link="https://example.org", alert=True)  # fmt: skip
    text = issue_text(case, search(Devices()).result(), "c.json")
    assert "gemm\\|\\<b\\>" in text
    assert "blas https://example.org" in text
    assert "replay compare 'a b.rsnap' --a env=X=6 --b env=X=7" in text
    assert "replay attach 'a b.rsnap' c.json" in text
