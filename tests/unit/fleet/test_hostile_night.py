"""The folder of a night is shared: whoever writes into it can neither lead a command out of it nor stop it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil

import pytest

from replay.cli import main
from replay.errors import ExitCode, ReplayError
from replay.fleet.canaries import courses, forget
from replay.fleet.night import Night, Who
from replay.fleet.planning import nights
from replay.fleet.sharing.claims import Claims
from replay.fleet.verdicts import verdicts
from replay.history.series import HistoryView
from replay.report.html.dashboard.site import files_of
from replay.results.fleet import FleetDevice

from .night_factory import night_of, run, unit


def changed(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    "name", ["../../../outside", "/tmp/outside", "0123456789abcde", "0123456789ABCDEF", "a/../b"]
)
def test_the_id_of_a_unit_is_no_path(tmp_path, name):
    night = night_of(tmp_path, 2)
    path = night.folder / "plan.json"
    plan = json.loads(path.read_text())
    plan["units"][1]["id"] = name
    path.write_text(json.dumps(plan))
    with pytest.raises(ReplayError, match="unit"):
        run(Night(night.folder))
    assert not (tmp_path / "outside.json").exists()


def test_a_unit_is_in_a_plan_once(tmp_path):
    night = night_of(tmp_path, 2)
    path = night.folder / "plan.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, "units": plan["units"] * 2}))
    with pytest.raises(ReplayError, match="twice"):
        _ = Night(night.folder).plan


@pytest.mark.parametrize(
    "name", ["attempts", "excluded", "drained", "canaries", "units", "devices", "again", "results"]
)
def test_a_folder_of_a_night_is_no_link(tmp_path, name):
    night = night_of(tmp_path, 1)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "letter.json").write_text("mine")
    shutil.rmtree(night.folder / name)
    (night.folder / name).symlink_to(other)
    with pytest.raises(ReplayError, match="link"):
        Night(night.folder).retry([], [])
    assert [path.name for path in other.iterdir()] == ["letter.json"]


def test_a_canary_is_not_written_through_a_link_or_into_a_pipe(tmp_path):
    night = night_of(tmp_path, 1)
    for device in ("cpu-0", "cpu-1"):
        night.register(Who("n1", device), FleetDevice("n1", device, "cpu"))
    other = tmp_path / "profile"
    other.write_text("mine\n")
    (night.folder / "canaries" / "n1.cpu-0.jsonl").symlink_to(other)
    os.mkfifo(night.folder / "canaries" / "n1.cpu-1.jsonl")
    for device in ("n1.cpu-0", "n1.cpu-1"):
        with pytest.raises(ReplayError):
            forget(night.folder, device)
    assert other.read_text() == "mine\n"


def test_a_node_is_not_drained_through_a_link(tmp_path):
    night = night_of(tmp_path, 1)
    (night.folder / "drained" / Who("n1", "").file).symlink_to(tmp_path / "outside")
    with pytest.raises(ReplayError):
        night.drain("n1")
    assert not (tmp_path / "outside").exists()


def test_nothing_is_written_into_a_part_that_is_a_link(tmp_path):
    night = night_of(tmp_path, 1)
    other = tmp_path / "mine"
    other.mkdir()
    night.path_of(unit(0).id).parent.symlink_to(other)
    with pytest.raises(ReplayError, match="link"):
        run(night)
    assert not list(other.iterdir())


@pytest.mark.parametrize("name", ["../../outside", "nosuch"])
def test_a_name_that_is_no_device_is_said_and_no_path(tmp_path, capsys, name):
    night = night_of(tmp_path, 1)
    assert main(["fleet", "retry", str(night.folder), name]) == ExitCode.USAGE
    assert name in capsys.readouterr().err
    assert not list((night.folder / "canaries").iterdir())
    assert not (tmp_path / "results" / "outside.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"canary": "c", "created_utc": "x", "median_ns": 1%s}' % ("0" * 400),
        "1",
        '"begin"',
        "\xff",
    ],
    ids=["deep", "huge number", "number", "text", "latin"],
)
def test_what_is_no_canary_is_passed_over(tmp_path, line):
    night = night_of(tmp_path, 1)
    run(night)
    good = '{"canary": "c", "created_utc": "2026-11-27T20:00:00+00:00", "median_ns": 5.0}'
    path = night.folder / "canaries" / "n1.cpu-0.jsonl"
    path.write_bytes(f"{line}\n{good}\n".encode("latin-1"))
    assert courses(night.folder.parent, night.devices()) == {
        ("n1", "cpu-0"): [("2026-11-27T20:00:00+00:00", 5.0)]
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ratio", "0.0"),
        ("ratio", "-1.0"),
        ("ratio", "1e999"),
        ("low", "0.0"),
        ("rounds", "-1e-3"),
        ("rounds", "-1e999"),
        ("time_ns", "-1"),
        ("time_ns", "true"),
    ],
)
def test_a_number_that_no_device_finds_is_a_problem_of_its_unit(tmp_path, field, value):
    night = night_of(tmp_path, 3)
    run(night, answers={"k0": (1.05, "SLOWER")})
    path = night.path_of(unit(0).id)
    found = json.loads(path.read_text())
    if field == "rounds":
        found["row"]["rounds"][0]["a_ns"] = "VALUE"
    elif field == "time_ns":
        found["row"]["a"]["time_ns"] = "VALUE"
    else:
        found["row"][field] = "VALUE"
    path.write_text(json.dumps(found).replace('"VALUE"', value))
    told = verdicts(night)
    assert [problem.where for problem in told.problems] == [unit(0).id]
    assert [case.verdict for case in told.cases] == ["OPEN", "SAME", "SAME"]
    assert dict(files_of(told, HistoryView("", [], 0), {}))["index.html"]


def test_rounds_whose_ratio_is_too_small_to_say_are_left_out(tmp_path):
    night = night_of(tmp_path, 2)
    run(night, answers={"k0": (1.05, "SLOWER")})
    path = night.path_of(unit(0).id)
    found = json.loads(path.read_text())
    found["row"]["rounds"][0].update(a_ns=1e308, b_ns=1e-308)
    found["row"]["rounds"][1].update(a_ns=1e-308, b_ns=1e308)
    path.write_text(json.dumps(found))
    assert len(verdicts(night).cases) == 2


def test_who_locks_the_whole_file_holds_all(tmp_path):
    path = tmp_path / "claims"
    with Claims(path) as claims, open(path, "rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # the length 0: to the end, wherever that is
        child = os.fork()
        if not child:
            with Claims(path) as other:
                os._exit(0 if other.taken(5) == set(range(5)) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not claims.take(0)


def test_a_pipe_where_a_cause_would_be_is_not_waited_for(tmp_path):
    night = night_of(tmp_path, 2)
    (night.folder / "causes").mkdir()
    os.mkfifo(night.folder / "causes" / f"{unit(0).id}.json")
    with pytest.raises(ReplayError, match="no file"):
        night.caused(unit(0).id, "x")
    night.caused(unit(1).id, "y")
    assert night.causes() == {unit(1).id: "y"}


@pytest.fixture
def three(tmp_path):
    """Folders of three nights, oldest first."""
    made = []
    for number in range(3):
        folder = night_of(tmp_path, 2).folder
        target = folder.with_name(f"{number}")
        folder.rename(target)
        changed(target / "plan.json", created_utc=f"2026-11-2{number}T20:00:00+00:00")
        made.append(target)
    return made


def test_of_older_nights_no_more_is_read_than_when_they_began(three):
    for folder in three[:2]:
        path = folder / "plan.json"
        head, units, rest = path.read_bytes().partition(b', "units": [')
        assert units
        path.write_bytes(head + units + b"\xff" * len(rest) + b"}")
    found, problems = nights(three[0].parent)
    assert ([night.folder for night in found], problems) == (three, [])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-10], "JSON"),
        (lambda data: data.replace(b"plan/1", b"plan/2"), "version 2"),
        (lambda data: data.replace(b'"2026-11-2', b'1,"x":"'), "expected str"),
        (lambda data: b"", "JSON"),
    ],
)
@pytest.mark.parametrize("which", [0, 2])
def test_a_plan_that_cannot_be_read_is_named(three, which, damage, said):
    path = three[which] / "plan.json"
    path.write_bytes(damage(path.read_bytes()))
    found, (problem,) = nights(three[0].parent)
    assert [night.folder for night in found] == [folder for folder in three if folder != path.parent]
    assert problem.where == path.parent.name
    assert said in problem.why


def test_the_newest_plan_is_read_whole(three):
    path = three[2] / "plan.json"
    path.write_bytes(path.read_bytes().replace(b'"units": [', b'"units": [[], '))
    found, (problem,) = nights(three[0].parent)
    assert [night.folder for night in found] == three[:2]
    assert (problem.where, problem.why) == ("2", "left out: FleetPlan.units is not a map")


def test_a_plan_whose_fields_have_another_order_is_read(three):
    path = three[0] / "plan.json"
    path.write_text(json.dumps(dict(sorted(json.loads(path.read_text()).items(), reverse=True)), indent=1))
    assert [night.folder for night in nights(three[0].parent)[0]] == three
