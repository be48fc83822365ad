"""`replay run --sanitizer`, with a program in place of compute-sanitizer that prints what its documentation shows."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from replay.drivers import SONAME, emulator_library
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
"$@"
status=$?
cat "{log}" > "$log"
exit $status
"""

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="a program takes the place of a tool that needs a GPU",
)


@pytest.fixture
def sanitized(replay, tmp_path: Path):
    """Runs `replay run x.rsnap --sanitizer` on what passes for the driver of a GPU: the CPU driver without its mark."""
    folder = tmp_path / "driver"
    folder.mkdir()
    marked = emulator_library().read_bytes()
    (folder / SONAME).write_bytes(
        marked.replace(b"REPLAY_EMULATOR_DRIVER_VERSION", b"REPLAY_EMULATOR_DRIVER_VERSIOX")
    )

    def run(*arguments: str, status: int = 0):
        return replay("run", "x.rsnap", "--driver", str(folder), *arguments, status=status)

    return run


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


def test_faults_have_the_form_of_our_own(sanitized, under) -> None:
    seen = under(MEMCHECK)
    done = sanitized("--sanitizer", "memcheck", "--json", status=ExitCode.GATE_FAILED)
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
    assert "run x.rsnap --driver" in said
    assert "--profile --quiet" in said
    assert "--sanitizer" not in said


def test_a_race_has_two_sides(sanitized, under) -> None:
    under(RACECHECK)
    done = sanitized("--sanitizer=racecheck", status=ExitCode.GATE_FAILED)
    assert "1 fault found by compute-sanitizer racecheck" in done.stdout
    assert "race: two accesses without a barrier between them, 508 times" in done.stdout
    assert "first   raceGroupBasic.cu:40" in done.stdout
    assert "then    raceGroupBasic.cu:42" in done.stdout


def test_equal_faults_are_counted(sanitized, under) -> None:
    under(SYNCCHECK)
    done = sanitized("--sanitizer", "synccheck", status=ExitCode.GATE_FAILED)
    assert "sync: a barrier that is not used as it must be, 2 times" in done.stdout
    assert "kernel  threadDivergenceKernel(int *)" in done.stdout
    assert "where   divergence.cu:61, block (0,0,0), thread (19,0,0)" in done.stdout


def test_nothing_found_is_no_fault(sanitized, under) -> None:
    under(INITCHECK)
    done = sanitized("--sanitizer", "initcheck", "-q")
    assert done.stdout == "nothing found by compute-sanitizer initcheck\n"


@pytest.mark.parametrize("wrong", [("--window", "7"), ("--device", "7")])
def test_a_replay_that_fails_is_no_clean_bill(sanitized, under, wrong) -> None:
    under(INITCHECK)
    done = sanitized("--sanitizer", "initcheck", *wrong, status=ExitCode.COULD_NOT)
    assert "the replay under compute-sanitizer ended with status" in done.stderr
    assert wrong[0][2:] in done.stderr  # what the replay itself said


def test_a_kernel_that_ends_the_replay_is_told(sanitized, under) -> None:
    under(MEMCHECK)
    done = sanitized("--sanitizer", "memcheck", "--window", "7", status=ExitCode.GATE_FAILED)
    assert "2 faults found by compute-sanitizer memcheck" in done.stdout


def test_no_summary_is_no_clean_bill(sanitized, under) -> None:
    under("========= COMPUTE-SANITIZER\n========= Target application terminated before its end\n")
    done = sanitized("--sanitizer", "memcheck", status=ExitCode.COULD_NOT)
    assert "compute-sanitizer came to no summary" in done.stderr


UNKNOWN = "========= Fatal fault of a kind unheard of\n=========     at k()+0x10 in k.cu:3\n=========\n"

HOST_ONLY = """========= COMPUTE-SANITIZER
========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument" on CUDA API call to cuMemFree.
=========
========= Leaked 8 bytes at 0x7fb2be000000
=========
========= LEAK SUMMARY: 8 bytes leaked in 1 allocations
========= ERROR SUMMARY: 2 errors
"""


@pytest.mark.parametrize(
    ("log", "count", "status"),
    [
        (UNKNOWN + "========= ERROR SUMMARY: 1 error\n", "1 error that is", ExitCode.COULD_NOT),
        (UNKNOWN * 2 + "========= ERROR SUMMARY: 2 errors\n", "2 errors that are", ExitCode.COULD_NOT),
        (MEMCHECK.replace("3 errors", "4 errors") + UNKNOWN, "1 error that is", ExitCode.GATE_FAILED),
        (
            MEMCHECK.replace("3 errors", "43 errors")
            + "========= ERROR SUMMARY: 40 errors were not printed. Use --print-limit option\n",
            "",
            ExitCode.GATE_FAILED,
        ),
        (
            HOST_ONLY,
            "",
            ExitCode.DONE,
        ),
    ],
)
def test_errors_that_are_not_understood_are_counted(sanitized, under, log, count, status) -> None:
    under(log)
    done = sanitized("--sanitizer", "memcheck", status=status)
    if count:
        assert f"{count} not understood: Fatal fault of a kind unheard of" in done.stderr
    else:
        assert "not understood" not in done.stderr


@pytest.mark.parametrize("wrong", [("--samples", "3"), ("--counters",), ("--dry-run",), ("--shift",)])
def test_what_a_single_replay_has_no_room_for_is_refused(sanitized, under, wrong) -> None:
    seen = under(INITCHECK)
    done = sanitized("--sanitizer", "initcheck", *wrong, status=ExitCode.USAGE)
    assert "leave out" in done.stderr
    assert not seen.exists()


def test_the_cpu_driver_is_no_gpu(replay, under) -> None:
    seen = under(INITCHECK)
    done = replay("run", "x.rsnap", "--driver", "emulator", "--sanitizer", "memcheck", status=ExitCode.USAGE)
    assert "`replay check-memory x.rsnap` looks for such faults there" in done.stderr
    assert not seen.exists()


def is_alive(process: str) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_nothing_goes_on_after_its_time(sanitized, under, tmp_path: Path) -> None:
    under(INITCHECK)
    left = tmp_path / "left"
    program = tmp_path / "bin" / "compute-sanitizer"
    program.write_text(f'#!/bin/sh\nsleep 1000 &\necho $! > "{left}"\nwait\n')
    done = sanitized("--sanitizer", "memcheck", "--timeout", "1s", status=ExitCode.COULD_NOT)
    assert "did not end within 1 s; give it more with --timeout" in done.stderr
    end_s = time.monotonic() + 60
    while is_alive(left.read_text().strip()):  # a killed process needs a moment to end
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_without_the_tool_it_says_what_to_install(replay, sanitized) -> None:
    replay.capture("--all", application=replay.application("vector_add"))
    done = sanitized("--sanitizer", "memcheck", status=ExitCode.COULD_NOT)
    assert "compute-sanitizer is not on this machine" in done.stderr
    assert "check-memory" in done.stderr


def test_an_unknown_tool_is_refused(replay, sanitized) -> None:
    replay.capture("--all", application=replay.application("vector_add"))
    done = sanitized("--sanitizer", "leakcheck", status=ExitCode.USAGE)
    assert "choose from memcheck, initcheck, racecheck, synccheck" in done.stderr
