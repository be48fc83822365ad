"""Units of a night over devices: nothing is done twice or lost, and what fails ends somewhere."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import signal
import time
import types

import pytest

from replay.cli import main
from replay.compare.rounds import Observation
from replay.errors import EngineError, ExitCode, UsageError, WorkerError
from replay.fleet import planning
from replay.fleet.canaries import Canaries, forget
from replay.fleet.laboratory import Found, one_of
from replay.fleet.matrix import read_matrix
from replay.fleet.night import Night, Who
from replay.fleet.verdicts import standing, status, verdicts
from replay.fleet.worker import Ending, Taking
from replay.report.fleet import headline, junit, render_fleet, render_status
from replay.results.comparison import ComparedRound
from replay.results.fleet import FleetDevice
from replay.text import Screen

from ..helpers.snapshot_factory import vector_add
from .night_factory import MATRIX, night_of, row_of, run, unit, worker

SCREEN = Screen(200, False)


def by_kernel(night, before=None):
    return {case.kernel: case for case in verdicts(night, before).cases}


def test_every_unit_is_done_once(tmp_path):
    night = night_of(tmp_path)
    ended, laboratory = run(night)
    assert ended is Ending.OVER
    assert sorted(laboratory.measured) == sorted(item.id for item in night.plan.units)
    again, laboratory = run(night)  # as after a coordinator that was stopped
    assert (again, laboratory.measured) == (Ending.OVER, [])
    assert standing(night).done == 12


def test_devices_never_hold_the_same_unit(tmp_path):
    night = night_of(tmp_path, 30)
    with night.claims() as one, night.claims() as two:
        takings = [Taking(night, claims, "cpu", Who("n", name)) for claims, name in ((one, "a"), (two, "b"))]
        taken = [takings[turn % 2].next() for turn in range(30)]
        assert len({item.unit.id for item in taken}) == 30
        with night.claims() as third:
            assert Taking(night, third, "cpu", Who("n", "c")).next() is None
        assert standing(night).running == 30


def test_what_is_left_among_many_that_are_done_is_found_without_a_look_at_each(tmp_path, monkeypatch):
    night = night_of(tmp_path, 300)
    run(night)
    left = {night.plan.units[number].id for number in (10, 50, 299)}
    for name in left:
        night.path_of(name).unlink()
    looks = []
    path_of = Night.path_of
    monkeypatch.setattr(Night, "path_of", lambda *asked: looks.append(asked) or path_of(*asked))
    with night.claims() as claims:
        taking = Taking(night, claims, "cpu", Who("n2", "cpu-0"))
        assert {taking.next().unit.id for _ in left} == left
        assert taking.next() is None
    assert len(looks) < 150


def killed_with_a_unit(night, device):
    child = os.fork()
    if not child:
        with night.claims() as claims:
            Taking(night, claims, "cpu", Who("n1", device)).next()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_the_unit_of_a_killed_worker_is_done_by_another(tmp_path):
    night = night_of(tmp_path, 3)
    killed_with_a_unit(night, "cpu-0")
    assert standing(night).running == 0
    _, laboratory = run(night, "cpu-1")
    assert len(laboratory.measured) == 3
    assert [case.attempts for case in verdicts(night).cases].count(1) == 1


def test_a_device_that_died_while_it_confirmed_does_so_when_it_is_back(tmp_path):
    night = night_of(tmp_path, 3, kernel="gemm")
    run(night, "a", answers={"gemm2": (1.05, "SLOWER")})
    killed_with_a_unit(night, "b")
    assert len(night.attempts(unit(2, "gemm").id, True)) == 1
    ended, laboratory = run(night, "b", answers={"gemm2": (1.05, "SLOWER")})
    assert (ended, len(laboratory.measured)) == (Ending.OVER, 1)
    assert by_kernel(night)["gemm2"].confirmed_by == "n1 b"


def test_a_confirmation_that_never_ends_is_given_up(tmp_path):
    night = night_of(tmp_path, 3, kernel="gemm")
    run(night, "a", answers={"gemm2": (1.05, "SLOWER")})
    ended, laboratory = run(night, "b", answers={"gemm2": WorkerError("died")})
    assert (ended, len(laboratory.measured)) == (Ending.OVER, 3)
    assert by_kernel(night)["gemm2"].confirmed_by == ""


def test_what_never_ends_is_given_up_with_its_reasons(tmp_path):
    matrix = MATRIX + '[[owner]]\nsource = "models/norms"\nteam = "norms"\n'
    night = night_of(tmp_path, 3, matrix=matrix, owner=1)
    ended, laboratory = run(night, answers={"k1": WorkerError("the worker hung for 300 s")})
    assert ended is Ending.OVER
    assert laboratory.measured.count(unit(1).id) == 3
    case = by_kernel(night)["k1"]
    assert (case.verdict, case.attempts, case.alert) == ("QUARANTINED", 3, True)
    assert "hung for 300 s" in case.reason
    assert case.team == "norms"  # of its plan: no row says where it comes from
    assert standing(night).stuck == 1
    assert night.retry([unit(1).id], []) == 3
    assert run(night)[0] is Ending.OVER
    assert by_kernel(night)["k1"].verdict == "SAME"


def test_another_device_is_given_the_second_try(tmp_path):
    night = night_of(tmp_path, 1)
    with night.claims() as claims:
        first, _ = worker(night, claims, "a", answers={"k0": WorkerError("died")})
        second = Taking(night, claims, "cpu", Who("n2", "b"))
        first._do(first._taking.next())
        assert first._taking.next() is None
        assert second.next() is not None


def test_a_device_that_cannot_replay_it_says_unsupported_at_once(tmp_path):
    night = night_of(tmp_path, 2)
    _, laboratory = run(night, answers={"k0": EngineError("needs sm_100"), "k1": UsageError("was changed")})
    assert len(laboratory.measured) == 2
    cases = by_kernel(night)
    assert (cases["k0"].verdict, cases["k1"].verdict) == ("UNSUPPORTED", "FAILED")
    assert "needs sm_100" in cases["k0"].reason


def test_a_change_is_confirmed_by_another_device(tmp_path):
    night = night_of(tmp_path, 4, kernel="gemm")
    slower = {"gemm2": (1.05, "SLOWER"), "gemm3": (1.05, "SLOWER")}
    run(night, "a", answers=slower)
    assert by_kernel(night)["gemm2"].confirmed_by == ""
    assert "only one device" in " ".join(verdicts(night).notes)
    _, laboratory = run(night, "b", answers={"gemm2": (1.05, "SLOWER")})
    assert sorted(laboratory.measured) == sorted([unit(2, "gemm").id, unit(3, "gemm").id])
    cases = by_kernel(night)
    assert (cases["gemm2"].verdict, cases["gemm2"].confirmed_by, cases["gemm2"].team) == (
        "SLOWER",
        "n1 b",
        "blas",
    )
    assert (cases["gemm3"].verdict, cases["gemm3"].alert) == ("UNSURE", False)
    assert "SLOWER on n1 a, SAME (+0.0 %) on n1 b" in cases["gemm3"].reason


def test_of_a_night_of_chance_few_findings_are_left(tmp_path):
    night = night_of(tmp_path, 40, confirm=False)
    chance = {"k0": (1.011, "SLOWER")}
    with night.claims() as claims:
        made, laboratory = worker(night, claims, answers=chance)
        laboratory.measure = lambda asked, effect: Found(noisy(asked), {}, [])
        made.run()
    case = by_kernel(night)["k0"]
    assert case.verdict == "UNSURE"
    assert "alone it would be SLOWER" in case.reason


def noisy(asked):
    """SLOWER by a hair in the first, at p = 0.02; nothing in the others."""
    row = row_of(asked, 1.02 if asked.kernel == "k0" else 1.0, "SLOWER" if asked.kernel == "k0" else "SAME")
    spread = [0.03, -0.02, 0.05, 0.01, -0.01, 0.04, 0.02, 0.03] if asked.kernel == "k0" else [0.01, -0.01] * 4
    return dataclasses.replace(row, rounds=[ComparedRound(1000.0, 1000.0 * (1 + x), False) for x in spread])


def test_a_drained_node_begins_nothing(tmp_path):
    night = night_of(tmp_path)
    night.drain("n1")
    assert run(night)[0] is Ending.DRAINED
    assert run(night, node="n2")[0] is Ending.OVER
    assert [device.state for device in verdicts(night).devices] == ["drained", "free"]


def test_a_worker_that_is_told_to_stop_leaves_no_attempt(tmp_path):
    night = night_of(tmp_path, 2)
    with pytest.raises(KeyboardInterrupt):
        run(night, answers={"k0": KeyboardInterrupt(), "k1": KeyboardInterrupt()})
    assert night.begun_often() == {}
    assert standing(night).running == 0


def test_a_device_to_retry_is_named_as_it_is_listed(tmp_path, capsys):
    night = night_of(tmp_path, 1)
    who = Who("gpu7.example.org", "GPU-1")
    night.register(who, FleetDevice(who.node, who.device, "cpu"))
    night.exclude(who, FleetDevice(who.node, who.device, "cpu", state="excluded", reason="slow"))
    retry = ["fleet", "retry", str(night.folder)]
    assert main([*retry, "gpu7.example.org.GPU-2"]) == ExitCode.USAGE
    assert "gpu7.example.org.GPU-2" in capsys.readouterr().err
    assert night.is_excluded(who)
    assert main([*retry, "gpu7.example.org.GPU-1"]) == 0
    assert not night.is_excluded(who)
    assert [path.name for path in night.folder.glob("canaries/*")] == [f"{who.file}.jsonl"]


def test_two_plans_for_one_night_are_one(tmp_path):
    first = night_of(tmp_path, 3)
    second = night_of(tmp_path, 5)
    assert len(first.plan.units) == len(second.plan.units) == 3


def test_results_of_a_newer_version_are_named_and_the_rest_goes_on(tmp_path):
    night = night_of(tmp_path, 3)
    run(night)
    path = night.path_of(unit(1).id)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": "replay.fleet.unit/7"}))
    night.path_of(unit(2).id).write_text("{")
    told = verdicts(night)
    assert {problem.where for problem in told.problems} == {unit(1).id, unit(2).id}
    assert "version 7" in next(problem.why for problem in told.problems if problem.where == unit(1).id)
    assert [case.verdict for case in told.cases if case.kernel == "k0"] == ["SAME"]


def test_a_night_of_a_newer_version_is_named_and_the_others_are_read(tmp_path, capsys):
    night = night_of(tmp_path, 1)
    run(night)
    for name, text in (("later", '{"format": "replay.fleet.plan/9"}'), ("odd", "[")):
        (tmp_path / "results" / name).mkdir()
        (tmp_path / "results" / name / "plan.json").write_text(text)
    assert main(["fleet", "status", str(tmp_path / "results"), "--json"]) == 0
    problems = {item["where"]: item["why"] for item in json.loads(capsys.readouterr().out)["problems"]}
    assert "version 9" in problems["later"]
    assert set(problems) == {"later", "odd"}


def test_a_clock_that_is_off_is_named_and_nothing_else_changes(tmp_path, monkeypatch):
    now = time.time
    night = night_of(tmp_path, 4, confirm=False)
    monkeypatch.setattr(time, "time", lambda: now() + 3 * 3600)
    made, _ = run(night, node="ahead")
    assert made is Ending.OVER
    monkeypatch.setattr(time, "time", now)
    run(night, node="right")
    told = verdicts(night)
    assert {device.node: device.clock_s is not None for device in told.devices} == {
        "ahead": True,
        "right": False,
    }
    assert [note for note in told.notes if note.startswith("the clock of node ahead is 10800 s fast beside")]
    assert {case.verdict for case in told.cases} == {"SAME"}


class NextYear(datetime.datetime):
    """A clock that is wrong."""

    @classmethod
    def now(cls, tz=None):
        return super().now(tz).replace(year=datetime.datetime.now().year + 1)


def test_nights_are_in_order_by_the_clock_of_the_file_server(tmp_path, monkeypatch):
    """A machine whose clock is a year off begins one of two nights."""
    (tmp_path / "night.toml").write_text(MATRIX)
    (tmp_path / "corpus").mkdir()
    vector_add(1000).write(tmp_path / "corpus" / "x.rsnap")
    late = types.SimpleNamespace(datetime=NextYear, timezone=datetime.timezone)
    with monkeypatch.context() as patched:
        patched.setattr(planning, "datetime", late)
        patched.setattr(planning, "now_utc", lambda: NextYear.now().isoformat(), raising=False)
        first = planning.begin(tmp_path / "r", tmp_path / "corpus", tmp_path / "night.toml")
    (tmp_path / "night.toml").write_text(MATRIX + "# another\n")
    second = planning.begin(tmp_path / "r", tmp_path / "corpus", tmp_path / "night.toml")
    assert abs(datetime.datetime.fromisoformat(first.plan.created_utc).timestamp() - time.time()) < 600
    found, problems = planning.nights(tmp_path / "r")
    assert [night.folder for night in found] == [first.folder, second.folder]
    assert problems == []


def test_merging_is_copying(tmp_path):
    """Two sites do half of a night each, and neither sees the other's locks."""
    nights = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        nights.append(night_of(tmp_path / name, 6))
        with nights[-1].claims() as claims:
            made, _ = worker(nights[-1], claims, f"{name}-0")
            for _ in range(4):
                made._do(made._taking.next())
    shutil.copytree(nights[1].folder / "units", nights[0].folder / "units", dirs_exist_ok=True)
    both = {path.name for night in nights for path in night.folder.glob("units/*/*")}
    assert standing(nights[0]).done == len(both)
    run(nights[0])
    assert standing(nights[0]).done == 6


def canaries(night, times, who=None):
    waiting = list(times)
    return Canaries(
        night.folder.parent, night.folder, who or Who("n", "d"), "c", lambda: Observation(waiting.pop(0))
    )


def test_a_device_whose_canary_left_its_history_is_excluded_and_named(tmp_path):
    night = night_of(tmp_path, 6)
    steady = [1000.0 + 2 * (n % 3) for n in range(8)]
    other = tmp_path / "results" / "earlier" / "canaries"
    other.mkdir(parents=True)
    lines = [{"canary": "c", "created_utc": f"2026-11-{n + 1:02}T20:00:00+00:00", "median_ns": ns}
             for n, ns in enumerate(steady)]  # fmt: skip
    (other / "n.d.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"canary": "c", "medi'
    )
    assert canaries(night, [1003.0]).look().reason == ""
    assert canaries(night, [1040.0, 1003.0]).look().reason == ""  # not all three agree
    found = canaries(night, [1040.0, 1041.0, 1042.0]).look()
    assert "+3.8 %" in found.reason
    assert (
        canaries(night, [1040.0, 1003.0], Who("n", "e")).look().ratio is None
    )  # another device has no history
    with night.claims() as claims:
        made, laboratory = worker(night, claims, "d", "n")
        made._canaries = canaries(night, [1040.0] * 9)
        assert made.run() is Ending.EXCLUDED
        assert laboratory.measured == []
    assert night.begun_often() == {}
    device = status(night).devices[0]
    assert (device.state, "+3.8 %" in device.reason) == ("excluded", True)
    assert device.canary_ratio == pytest.approx(1040 / 1002)
    assert device.canary_limit is not None
    forget(night.folder, "n.d")
    night.retry([], ["n.d"])
    assert canaries(night, [1040.0]).look().reason == ""


def test_a_broken_device_is_not_the_fault_of_its_unit(tmp_path):
    night = night_of(tmp_path, 2)
    with night.claims() as claims:
        made, _ = worker(night, claims, answers={"k0": WorkerError("hung"), "k1": WorkerError("hung")})

        answers = iter([Observation(1000.0)])

        def look():
            try:
                return next(answers)
            except StopIteration:
                raise WorkerError("hung") from None

        made._canaries = Canaries(night.folder.parent, night.folder, made._who, "c", look)
        assert made.run() is Ending.EXCLUDED
    assert night.begun_often() == {}
    assert "cannot be replayed" in status(night).devices[0].reason


def test_a_device_is_one_worker_s(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kind = read_matrix(_written(tmp_path)).kind("cpu")
    with one_of(kind, 0, "n") as held:
        assert held is not None
        with one_of(kind, 0, "n") as second, one_of(kind, 1, "n") as other:
            assert second is None
            assert other is not None
    child = os.fork()
    if not child:
        with one_of(kind, 0, "n"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with one_of(kind, 0, "n") as after:
        assert after is not None


def _written(folder):
    path = folder / "m.toml"
    path.write_text(MATRIX)
    return path


def test_what_was_found_is_told(tmp_path):
    night = night_of(tmp_path, 4, kernel="gemm")
    run(night, answers={"gemm1": (1.05, "SLOWER"), "gemm2": (0.9, "FASTER"), "gemm3": WorkerError("<died>")})
    told = verdicts(night)
    assert headline(told) == "2 alerts in 4 units: 1 SLOWER, 1 QUARANTINED, 1 FASTER, 1 SAME"
    text = render_fleet(told, SCREEN)
    assert text.index("SLOWER") < text.index("FASTER")
    assert "+5.0 %" in text
    assert "no canary" in text
    assert "3 of 4 units done" in render_status(status(night), SCREEN)
    xml = junit(told)
    assert 'failures="1" errors="1"' in xml
    assert "&lt;died&gt;" in xml


def test_a_folder_that_is_no_night_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no night"):
        Night(tmp_path)
