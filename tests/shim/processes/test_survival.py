"""Whatever a program does and however it ends, under every kind of capture: its results are its own, and what was
captured is readable by the product.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sanitizers

from replay.pack import pack
from replay.pack.process import ENDED_WHILE_COPYING
from replay.snapshot.container import SnapshotReader

from ..conftest import Runner

LAUNCHES = 60
ENDINGS = (
    "return", "exit", "_exit", "abort", "segv", "kill", "faults", "kills", "aborts", "exits", "thread-exits", "exec",
    "fork", "fork-dies", "fork-silent", "close-all", "chdir",
)  # fmt: skip
EACH = {"kernel": "increment", "launch": f"1-{(1 << 63) - 1}", "each": 1, "max_snapshots": 1}
WATCHES = {"ring": 3, "ring_in_stream": 1}
CAPTURES: dict[str, dict[str, object]] = {
    "no launch": {"kernel": "absent"},
    "one launch": {"kernel": "increment", "launch": "20-20"},
    "several": {"kernel": "increment", "launch": "7-40"},
    "everything": {"all": 1, "max_launches": 700},
    "each": {"kernel": "increment", "launch": "1-60", "each": 29},
    "list": {"list": 1},
    "bytes": {"all": 1, "max_bytes": 4096, "max_launches": 100},
    "launches": {"all": 1, "max_launches": 5},
    "no wait": EACH | WATCHES | {"when": "error,nan,hang=60000000000"},
    "small ring": EACH | WATCHES | {"when": "error,hang=60000000000", "ring_bytes": 16384},
}

WITHOUT_SNAPSHOT = ("no launch", "no wait", "small ring")


def readable(directory: Path, output: Path) -> int:
    """Pack the capture as `replay pack` does, and read every byte of the snapshots. Gives how many there are."""
    report = pack(directory, output)
    problems = {
        text
        for text in report.problems
        if not text.endswith("is left out: the application ended before its first call")
    }
    assert problems <= {ENDED_WHILE_COPYING}
    for snapshot in report.snapshots:
        with SnapshotReader(snapshot.path) as reader:
            assert not reader.verify().damages
    return len(report.snapshots)


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("capture", CAPTURES)
def test_every_ending_is_survived(
    run: Runner, program: Callable[..., Path], tmp_path: Path, capture: str, threads: int
) -> None:
    for ending in ENDINGS:
        command: list[object] = [program("work"), threads, LAUNCHES, ending]
        alone, _ = run(command, preload=False)
        directory = tmp_path / f"{ending}.rcap"
        directory.mkdir()
        captured, _ = run(command, directory=directory, **CAPTURES[capture])
        assert (captured.returncode, captured.stdout) == (alone.returncode, alone.stdout), ending
        if capture != "list":  # which records nothing
            snapshots = readable(directory, tmp_path / f"{ending}.rsnap")
            assert snapshots > 0 or capture in WITHOUT_SNAPSHOT, ending


@pytest.mark.parametrize("settings", CAPTURES.values(), ids=CAPTURES)
def test_a_launch_of_no_function_is_the_drivers_to_refuse(
    run: Runner, program: Callable[..., Path], settings: dict[str, object]
) -> None:
    command = [program("null_launch")]
    alone, _ = run(command, preload=False)
    captured, _ = run(command, **settings)
    assert (captured.returncode, captured.stdout) == (alone.returncode, alone.stdout) == (0, "0\n400\n")


def limited_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


@pytest.mark.parametrize("threads", [1, 8])
def test_a_folder_that_cannot_be_written_is_survived(
    run: Runner, program: Callable[..., Path], tmp_path: Path, threads: int
) -> None:
    """Gone, no folder, not writable (as root everything is), and one in which files cannot grow."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "small").mkdir()
    for ending in ENDINGS:
        command: list[object] = [program("work"), threads, LAUNCHES, ending]
        alone, _ = run(command, preload=False)
        for directory, limits in (
            (tmp_path / "gone", None),
            (tmp_path / "file", None),
            (tmp_path / "small", limited_files),
        ):
            done, _ = run(command, directory=directory, limits=limits, all=1)
            assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout), (ending, directory)


KILLS = int(os.environ.get("REPLAY_TEST_KILLS", "40"))


@sanitizers.in_the_way
@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_readable_capture(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    """Killed from outside at moments that nobody chose: one time in two soon after the start, else soon after the
    capture has a file. REPLAY_TEST_KILLS says how often."""
    chance = random.Random(20)
    work, opened = program("work"), 0
    captures = [settings for name, settings in CAPTURES.items() if name != "list"]
    for attempt in range(8 * KILLS):
        if attempt >= KILLS and opened > KILLS / 8:  # a busy machine opens fewer
            break
        directory = tmp_path / f"{attempt}.rcap"
        directory.mkdir()
        settings = captures[attempt % len(captures)]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(run.finds_driver_in()),
            "LD_PRELOAD": str(run.interposer),
            "REPLAY_CAPTURE_DIRECTORY": str(directory),
            **{f"REPLAY_CAPTURE_{name.upper()}": str(value) for name, value in settings.items()},
        }
        command = [work, str(chance.choice((1, 8))), "1000000", "return"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        while attempt % 2 and process.poll() is None and not list(directory.glob("calls.*")):
            time.sleep(0.001)
        try:
            process.wait(chance.uniform(0, 0.06))
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        opened += readable(directory, tmp_path / "x.rsnap") if list(directory.glob("calls.*")) else 0
        subprocess.run(["rm", "-r", str(directory)], check=True)
    assert opened > KILLS / 8
