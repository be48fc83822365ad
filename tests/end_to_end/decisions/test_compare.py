"""`replay compare` on the CPU driver: real replays of real captures, with a slow-down that is known."""

from __future__ import annotations

import json

import pytest

SLOWER = ("--b", "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.03")


@pytest.fixture
def snapshot(replay, good_snapshot):
    (replay.folder / "x.rsnap").write_bytes(good_snapshot.read_bytes())
    return "x.rsnap"


def compare(replay, *arguments, status=0):
    done = replay("compare", *arguments, "--json", status=status)
    return json.loads(done.stdout)


def test_a_snapshot_is_the_same_as_itself(replay, snapshot):
    result = compare(replay, snapshot, snapshot)
    (row,) = result["rows"]
    assert (row["verdict"], row["source"], row["ratio"]) == ("SAME", "modelled", 1.0)
    assert len(row["rounds"]) == 2


def test_a_slow_down_of_three_percent_is_found_and_gates(replay, snapshot):
    result = compare(replay, snapshot, *SLOWER, "--fail-on", "slower", status=1)
    (row,) = result["rows"]
    assert row["verdict"] == "SLOWER"
    assert row["ratio"] == pytest.approx(1.03, abs=0.001)
    assert "SLOWDOWN" in row["b"]["variant"]
    text = replay("compare", snapshot, *SLOWER).stdout
    assert text.startswith("SLOWER +3.0")
    assert "modelled" in text


def test_a_slow_down_is_found_under_noise(replay, snapshot, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_NOISE", "0.009")
    result = compare(replay, snapshot, *SLOWER, "--quick")
    (row,) = result["rows"]
    assert row["verdict"] == "SLOWER"
    assert len(row["rounds"]) >= 6
    assert len({item["a_ns"] for item in row["rounds"]}) > 1  # each process has noise of its own


def test_two_result_files_are_compared_as_they_are(replay, snapshot):
    replay.run(snapshot, "-o", "a.rres")
    replay.run(snapshot, "-o", "b.rres")
    (row,) = compare(replay, "a.rres", "b.rres")["rows"]
    assert row["verdict"] == "SAME"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x.rsnap",), "nothing to compare"),
        (("x.rsnap", "--b", "nonsense"), "no part of a variant"),
        (("x.rsnap", "x.rsnap", "--budget", "soon"), "is no time"),
        ((".", "x.rsnap"), "neither"),
    ],
)
def test_what_cannot_be_compared_is_refused(replay, snapshot, arguments, says):
    if arguments[0] == ".":
        (replay.folder / "empty").mkdir()
        arguments = ("empty", *arguments[1:])
    assert says in replay("compare", *arguments, status=2).stderr


def test_windows_of_several_kernels_are_rows(replay, snapshot):
    replay.capture("--kernel", "reduce", "--each", application=replay.application("reduce"), output="r.rsnap")
    result = compare(replay, "r.rsnap", "--b", "env=REPLAY_EMULATOR_SLOWDOWN=atomic:1.1")
    verdicts = [(row["kernel"], row["verdict"]) for row in result["rows"]]
    assert {verdict for kernel, verdict in verdicts if kernel == "reduce_atomic"} == {"SLOWER"}
    assert {verdict for kernel, verdict in verdicts if kernel == "reduce_blocks"} == {"SAME"}


def test_a_budget_is_that_of_all_rows(replay, snapshot, monkeypatch):
    """The first row takes longer than both may: the other is not begun, and says so."""
    for side in "ab":
        (replay.folder / side).mkdir()
        for name in ("one", "two"):
            (replay.folder / side / f"{name}.rsnap").write_bytes((replay.folder / snapshot).read_bytes())
    rows = compare(replay, "a", "b", "--quick", "--budget", "0.01s")["rows"]
    assert [row["verdict"] for row in rows][1:] == ["UNSURE"]
    assert "budget of 0.01 s" in rows[1]["reason"]
    assert rows[1]["rounds"] == []
