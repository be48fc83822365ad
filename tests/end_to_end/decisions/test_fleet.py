"""A night over two devices of this machine: a worker is killed in the middle, and the planted slow-down is found."""

from __future__ import annotations

import json
import shutil

import pytest

from ..killing import kill_one

MATRIX = """
[limits]
quick = true
[canary]
snapshot = "canary.rsnap"
[[kind]]
name = "cpu"
driver = "emulator"
workers = 2
[[compare]]
name = "planted"
b = "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.05"
[[compare]]
name = "harmless"
b = "env=NOTHING=1"
[[owner]]
kernel = "scan"
team = "sums"
"""


@pytest.fixture
def corpus(replay, good_snapshot):
    """One snapshot, and a stranger's file."""
    folder = replay.folder / "corpus"
    folder.mkdir()
    shutil.copy(good_snapshot, folder / "x.rsnap")
    shutil.copy(good_snapshot, replay.folder / "canary.rsnap")
    (folder / "stranger.rsnap").write_bytes(b"GIF89a")
    (replay.folder / "night.toml").write_text(MATRIX)
    return folder


def of(document):
    return {(case["snapshot"], case["comparison"]): case for case in document["cases"]}


def expect(document):
    cases = of(document)
    assert len(cases) == 2
    for (_, comparison), case in cases.items():
        assert (case["verdict"], case["alert"]) == (
            ("SLOWER", True) if comparison == "planted" else ("SAME", False)
        )
        assert case["team"] == "sums"
    assert [problem["where"] for problem in document["problems"]] == ["stranger.rsnap"]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("started_workers")
def test_a_killed_worker_costs_its_unit_once(replay, corpus):
    arguments = ["fleet", "run", "corpus", "--matrix", "night.toml", "--results", "r", "--json"]
    running = replay.start(replay.command(*arguments))
    killed = kill_one(replay.folder, b"fleet\0work", running)
    output, _ = running.communicate(timeout=300)
    document = json.loads(output)
    assert killed
    assert running.returncode == 1
    expect(document)
    assert all(case["confirmed_by"] for case in document["cases"] if case["alert"])
    again = replay(*arguments, "--night", document["night"], status=1)  # nothing is done twice
    assert of(json.loads(again.stdout)) == of(document)
    listed = json.loads(replay("history", "r", "--json").stdout)
    assert {series["variant"] for series in listed["series"]} == {
        "",
        "env=NOTHING=1",
        "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.05",
    }


def test_what_cannot_be_run_is_said(replay, corpus):
    replay("fleet", "run", "corpus", status=2)
    replay("fleet", "run", "corpus", "--matrix", "night.toml", "--on", "nosuch", status=2)
    replay("fleet", "status", "corpus", status=2)
    replay("fleet", "drain", "corpus", "n1", status=2)
