"""Every way a program can end, alone and with seven other threads that are in the middle of launching: its output and
status are its own, and what was captured replays.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from toolchain import BuiltOnce

from ..conftest import REPOSITORY

PROGRAM = REPOSITORY / "tests" / "end_to_end" / "programs" / "endings.c"
PTX = REPOSITORY / "samples" / "crash" / "crash.ptx"
# What the program asks for and the status that it has then.
STATUSES = {
    "return": 0,
    "exit": 3,
    "_exit": 4,
    "abort": 128 + signal.SIGABRT,
    "segv": 128 + signal.SIGSEGV,
    "kill": 128 + signal.SIGKILL,
    "fault": 1,
    "exec": 0,
    "fork": 0,
    "thread-exit": 0,
    "dlclose": 0,
}


@pytest.fixture(scope="session")
def endings(built_once: BuiltOnce) -> Path:
    return built_once("endings", build_endings) / "endings"


def build_endings(folder: Path) -> None:
    image = folder / "image.S"
    image.write_text(
        f'.data\n.globl image\nimage:\n.incbin "{PTX}"\n.byte 0\n.section .note.GNU-stack,"",@progbits\n'
    )
    compiler = os.environ.get("CC", "cc")
    library = folder / "endings_image.so"
    subprocess.run([compiler, "-shared", "-o", str(library), str(image)], check=True)
    subprocess.run(
        [
            compiler,
            "-std=gnu11",
            "-O1",
            "-w",
            str(PROGRAM),
            "-o",
            str(folder / "endings"),
            "-ldl",
            "-lpthread",
        ],
        check=True,
    )


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("way", STATUSES)
def test_the_application_is_as_it_was_and_the_capture_replays(replay, endings, way, threads):
    application = [
        str(endings),
        way,
        str(threads),
        *(["/bin/echo", "became another"] if way == "exec" else []),
    ]
    done = replay.capture(
        "--kernel", "count_up", "--launch", "2", application=application, status=STATUSES[way]
    )
    expected = "".join(
        f"thread {n}: {(40 + n + 3 + (way == 'thread-exit')) * 1000}\n" for n in range(threads)
    )
    assert done.stdout == expected + ("became another\n" if way == "exec" else "")
    assert STATUSES[way] == 0 or len(done.stderr.strip()) > 0
    assert "outputs match" in replay.run().stdout


def test_a_launch_that_faults_is_captured_before_it_runs_and_faults_in_the_replay(replay, endings):
    done = replay.capture(
        "--kernel", "count_up", "--launch", "4", application=[str(endings), "fault", "1"], status=1
    )
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stderr
    ran = replay.run()
    assert "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stdout
    assert "outputs match" not in ran.stdout


CLOSED = """
    import os, resource, shutil
    import numpy as np
    from driver_calls import BUMP, check, cu, function, launch, load, start, words

    start()
    bump = function(load(BUMP), "bump")
    memory = check(cu.cuMemAlloc(4096))
    check(cu.cuMemsetD32(memory, 5, 1024))
    launch(bump, memory)
    if sys.argv[1] == "closes":  # as daemons do
        os.closerange(3, 4096)
    elif sys.argv[1] == "clears":
        shutil.rmtree("x.rcap")
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    launch(bump, memory)
    print("result", words(memory, 1)[0])
"""


def test_an_application_that_closes_every_file_is_captured(replay, program):
    done = replay.capture("--launch", "2", application=program(CLOSED, "closes"))
    assert done.stdout == "result 7\n"
    assert "outputs match" in replay.run().stdout


def test_an_application_that_may_write_no_file_is_told_of_and_gives_no_empty_snapshot(replay, program):
    done = replay.capture("--launch", "2", application=program(CLOSED, "limits"), status=3)
    assert done.stdout == "result 7\n"
    assert "File too large" in done.stderr
    assert "ulimit -f" in done.stderr
    assert list(replay.folder.glob("x.*")) == []


def test_an_application_that_removes_the_raw_capture_is_told_of(replay, program):
    done = replay.capture("--launch", "2", application=program(CLOSED, "clears"), status=3)
    assert done.stdout == "result 7\n"
    assert "was removed or renamed while the application ran" in done.stderr
    assert "kept" not in done.stderr
    assert list(replay.folder.glob("x.*")) == []
