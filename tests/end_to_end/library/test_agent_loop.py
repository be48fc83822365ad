"""The loop of docs/agents.md, as it is, on its candidates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..conftest import DRIVER, Replay

LOOP = Path(__file__).resolve().parents[3] / "samples" / "agent_loop"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_loop_keeps_the_candidate_that_is_right_and_faster(replay: Replay) -> None:
    replay.capture(
        "--kernel", "inplace_scan", "--launch", "3", application=replay.application("inplace_scan")
    )
    candidates = sorted(map(str, (LOOP / "candidates").iterdir()))
    done = replay.other([sys.executable, str(LOOP / "loop.py"), "x.rsnap", *candidates, "--driver", DRIVER])
    verdicts = [
        line.split(": ")[1].split(",")[0] for line in done.stdout.splitlines() if line.startswith("/")
    ]
    assert verdicts == ["SLOWER", "WRONG", "FAILED", "FASTER"]
    assert "BuildError" in done.stdout
    assert "differ; first at" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"best: {candidates[-1]}, 0.")
    assert len((LOOP / "loop.py").read_text().splitlines()) <= 40
