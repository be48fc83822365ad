"""`replay check-memory` on a sample whose outputs match although its kernel has a race, and on samples without one."""

from __future__ import annotations

import json
import os
import sys

import pytest

from replay.errors import ExitCode

from ..conftest import PROGRAMS

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="only the CPU driver looks for races",
)


@pytest.fixture
def racing(replay):
    replay.capture(
        "--kernel", "running_sums", "--launch", "1-2", application=replay.application("missing_barrier")
    )
    return "x.rsnap"


def test_outputs_match_and_the_race_is_found(replay, racing, started_workers):
    assert "outputs match" in replay.run(racing).stdout
    done = replay("check-memory", racing, status=ExitCode.GATE_FAILED)
    assert "1 fault found in 2 launches checked for race" in done.stdout
    assert "warp_sums + 0" in done.stdout
    assert "first   missing_barrier.cu:14 (PTX line 82), block (0,0,0), thread (31,0,0)" in done.stdout
    assert "outputs of this replay: match" in done.stdout


def test_the_short_answer_names_both_places(replay, racing):
    lines = replay("check-memory", racing, "-q", status=ExitCode.GATE_FAILED).stdout.splitlines()
    assert len(lines) == 2
    assert "missing_barrier.cu:14 (PTX line 82) and missing_barrier.cu:17" in lines[1]


def test_the_document_has_both_sides(replay, racing):
    done = replay("check-memory", racing, "--json", status=ExitCode.GATE_FAILED)
    found = json.loads(done.stdout)
    assert found["schema"] == "replay.findings/1"
    (finding,) = found["findings"]
    assert (finding["kind"], finding["launches"]) == ("read_after_write", 2)
    assert (finding["first"]["line"], finding["second"]["line"]) == (14, 17)
    assert found["kernels"] == {"running_sums": 2}
    assert found["verification"]["verdict"] == "match"


@pytest.mark.parametrize("sample", ["reduce", "matmul_tiled", "inplace_scan"])
def test_samples_with_their_barriers_have_none(replay, sample):
    replay.capture("--all", application=replay.application(sample))
    done = replay("check-memory", "x.rsnap")
    assert "nothing found" in done.stdout
    assert "not checked" not in done.stdout


def test_an_unknown_check_is_refused(replay, racing):
    done = replay("check-memory", racing, "--checks", "races", status=ExitCode.USAGE)
    assert "there is no check 'races'" in done.stderr


@pytest.mark.parametrize(
    ("kind", "status"),
    [("past", "illegal_address"), ("freed", "illegal_address"), ("misaligned", "misaligned_address")],
)
def test_a_launch_that_ends_in_an_error_is_a_finding(replay, kind, status):
    replay.capture("--all", application=[sys.executable, str(PROGRAMS / "faults.py"), kind, "0"])
    found = json.loads(replay("check-memory", "x.rsnap", "--json", status=ExitCode.GATE_FAILED).stdout)
    (failed,) = found["failed"]
    assert (failed["kernel"], failed["status"]) == ("fault", status)
    assert "in kernel fault, PTX line" in failed["message"]
    text = replay("check-memory", "x.rsnap", status=ExitCode.GATE_FAILED).stdout
    assert f"{status.replace('_', ' ')}: the launch ended here" in text
