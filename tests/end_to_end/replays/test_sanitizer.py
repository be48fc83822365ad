"""`replay run --sanitizer`, with a program in place of compute-sanitizer that prints what its documentation shows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from replay.errors import ExitCode

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel()+0x160 in memcheck_demo.cu:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7fb2be000001 is misaligned
=========     and is inside the nearest allocation at 0x7fb2be000000 of size 4 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x1754] in memcheck_demo
=========
========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_kernel()+0x90 in memcheck_demo.cu:16
=========     by thread (3,0,0) in block (1,0,0)
=========     Address 0x87654320 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sumKernel(int *, int *)+0x50 in raceGroupBasic.cu:40
=========     and Read access at sumKernel(int *, int *)+0x110 in raceGroupBasic.cu:42 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at 0xa0 in /home/x/divergence.cu:61:threadDivergenceKernel(int *)
=========     by thread (19,0,0) in block (0,0,0)
=========
========= Barrier error detected. Divergent thread(s) in warp.
=========     at 0xa0 in /home/x/divergence.cu:61:threadDivergenceKernel(int *)
=========     by thread (20,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
INITCHECK = """========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""
# Runs the command that it is given, as compute-sanitizer does, and writes its log.
STAND_IN = """#!/bin/sh
while [ "$1" != "--log-file" ]; do echo "$1" >> "{seen}"; shift; done
log="$2"; shift 2
echo "$*" >> "{seen}"
"$@" || exit
cat "{log}" > "$log"
"""

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="it stands in for a tool that a GPU has",
)


@pytest.fixture
def under(replay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A snapshot x.rsnap, and a program that prints this log."""
    replay.capture("--all", application=replay.application("vector_add"))

    def install(log: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        seen = tmp_path / "seen"
        (tmp_path / "log").write_text(log)
        program = folder / "compute-sanitizer"
        program.write_text(STAND_IN.format(seen=seen, log=tmp_path / "log"))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return seen

    return install


def test_faults_have_the_form_of_our_own(replay, under) -> None:
    seen = under(MEMCHECK)
    done = replay("run", "x.rsnap", "--sanitizer", "memcheck", "--json", status=ExitCode.GATE_FAILED)
    found = json.loads(done.stdout)
    assert (found["schema"], found["tool"]) == ("replay.findings/1", "compute-sanitizer memcheck")
    assert [
        (item["check"], item["kind"], item["kernel"], item["first"]["file"], item["first"]["line"])
        for item in found["findings"]
    ] == [
        ("memory", "invalid_write", "unaligned_kernel()", "memcheck_demo.cu", 6),
        ("memory", "invalid_write", "out_of_bounds_kernel()", "memcheck_demo.cu", 16),
    ]
    assert (found["findings"][1]["first"]["block"], found["findings"][1]["first"]["thread"]) == (
        [1, 0, 0],
        [3, 0, 0],
    )
    said = seen.read_text()
    assert said.split()[:4] == ["--tool", "memcheck", "--target-processes", "all"]
    assert "run x.rsnap --profile --quiet" in said
    assert "--sanitizer" not in said


def test_a_race_has_two_sides(replay, under) -> None:
    under(RACECHECK)
    done = replay("run", "x.rsnap", "--sanitizer=racecheck", status=ExitCode.GATE_FAILED)
    assert "1 fault found by compute-sanitizer racecheck" in done.stdout
    assert "race: two accesses without a barrier between them, 508 times" in done.stdout
    assert "first   raceGroupBasic.cu:40" in done.stdout
    assert "then    raceGroupBasic.cu:42" in done.stdout


def test_equal_faults_are_counted(replay, under) -> None:
    under(SYNCCHECK)
    done = replay("run", "x.rsnap", "--sanitizer", "synccheck", status=ExitCode.GATE_FAILED)
    assert "sync: a barrier that is not used as it must be, 2 times" in done.stdout
    assert "kernel  threadDivergenceKernel(int *)" in done.stdout
    assert "where   divergence.cu:61, block (0,0,0), thread (19,0,0)" in done.stdout


def test_nothing_found_is_no_fault(replay, under) -> None:
    under(INITCHECK)
    done = replay("run", "x.rsnap", "--sanitizer", "initcheck", "-q")
    assert done.stdout == "nothing found by compute-sanitizer initcheck\n"


def test_a_replay_that_fails_is_no_clean_bill(replay, under) -> None:
    under(INITCHECK)
    done = replay("run", "x.rsnap", "--sanitizer", "initcheck", "--window", "7", status=ExitCode.COULD_NOT)
    assert "compute-sanitizer came to no summary" in done.stderr


def test_without_the_tool_it_says_what_to_install(replay, monkeypatch: pytest.MonkeyPatch) -> None:
    replay.capture("--all", application=replay.application("vector_add"))
    monkeypatch.setattr("replay.run.sanitizer.find_tools", lambda name: [])
    done = replay("run", "x.rsnap", "--sanitizer", "memcheck", status=ExitCode.COULD_NOT)
    assert "compute-sanitizer is not on this machine" in done.stderr
    assert "check-memory" in done.stderr


def test_an_unknown_tool_is_refused(replay, monkeypatch: pytest.MonkeyPatch) -> None:
    replay.capture("--all", application=replay.application("vector_add"))
    done = replay("run", "x.rsnap", "--sanitizer", "leakcheck", status=ExitCode.USAGE)
    assert "choose from memcheck, initcheck, racecheck, synccheck" in done.stderr
