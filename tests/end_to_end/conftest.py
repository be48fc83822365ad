"""Fixtures for tests that run the command line on real programs.

The driver is the built-in CPU driver, so that every machine gives the same answers; REPLAY_TEST_DRIVER=system takes the
NVIDIA driver of the machine instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, Commands
from toolchain import BuiltOnce

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
DRIVER = os.environ.get("REPLAY_TEST_DRIVER", "emulator")
os.environ.setdefault(
    "REPLAY_CHECK_NAN_ON_DEVICE", "0"
)  # so that outputs are there to be compared on a GPU, too
TIMEOUT_S = 90  # for one command; on one loaded core everything here takes a few seconds

Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def samples(built_once: BuiltOnce) -> Path:
    """The folder with the C samples."""

    def build(folder: Path) -> None:
        command = ["make", "-s", "-C", str(REPOSITORY / "samples"), f"OUT={folder}"]
        subprocess.run(command, check=True, capture_output=True, text=True)

    return built_once("samples", build)


@dataclass
class Replay:
    """Runs `replay` commands in a folder of their own, and reports what they did when a test fails."""

    folder: Path
    samples: Path
    commands: Commands
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def application(self, name: str, *arguments: str) -> list[str]:
        """The command line of a sample: a program of `samples`, or the Python one."""
        if name == "saxpy":
            # NVRTC may or may not be installed; the committed PTX is the same everywhere.
            return [sys.executable, str(REPOSITORY / "samples" / "saxpy" / "saxpy.py"), "--ptx", *arguments]
        return [str(self.samples / name), *arguments]

    def command(self, *arguments: str) -> list[str]:
        return [*COMMAND, *arguments]

    def capture_command(self, *selection: str, output: str, application: list[str]) -> list[str]:
        return self.command(*_capture(selection, output, application))

    def __call__(self, *arguments: str, status: int | None = 0, **options: Any) -> Completed:
        """Run one command. `status`: the exit status it must have; None accepts every one."""
        done = self.commands.run(arguments, cwd=self.folder, timeout_s=TIMEOUT_S, **options)
        return _checked(done, status)

    def capture(
        self,
        *selection: str,
        application: list[str],
        output: str = "x.rsnap",
        status: int | None = 0,
        **options: Any,
    ) -> Completed:
        return self(*_capture(selection, output, application), status=status, **options)

    def other(self, command: list[str], **options: Any) -> Completed:
        """Run another program to its end; it must succeed."""
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S, **options
        )
        return _checked(done, 0)

    def run(self, snapshot: str = "x.rsnap", *arguments: str, status: int | None = 0) -> Completed:
        return self("run", snapshot, "--driver", DRIVER, "--samples", "3", *arguments, status=status)

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command in a process group of its own; what is left of it is killed when the test ends."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.append(process)
        return process

    def stop_everything(self) -> None:
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _capture(selection: Iterable[str], output: str, application: list[str]) -> list[str]:
    return ["capture", "--driver", DRIVER, *selection, "-o", output, "--", *application]


def _checked(done: Completed, status: int | None) -> Completed:
    report = f"$ {' '.join(done.args)}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback (most recent call last)" not in done.stderr, report
    assert status is None or done.returncode == status, f"expected exit status {status}\n{report}"
    return done


@pytest.fixture
def replay(tmp_path: Path, samples: Path, commands: Commands) -> Iterator[Replay]:
    runner = Replay(tmp_path, samples, commands)
    yield runner
    runner.stop_everything()


@pytest.fixture(scope="session")
def good_snapshot(tmp_path_factory: pytest.TempPathFactory, samples: Path, commands: Commands) -> Path:
    """One snapshot of the second inplace_scan, made once per worker. Tests copy it."""
    runner = Replay(tmp_path_factory.mktemp("good"), samples, commands)
    runner.capture(
        "--kernel", "inplace_scan", "--launch", "2", application=runner.application("inplace_scan")
    )
    return runner.folder / "x.rsnap"


@pytest.fixture
def wait_for_pause() -> Callable[[Path, subprocess.Popen[str]], int]:
    """Waits until a sample started with --pause-file has paused, and gives its process id."""

    def wait(pause_file: Path, process: subprocess.Popen[str]) -> int:
        deadline = time.monotonic() + TIMEOUT_S
        while not pause_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                output, errors = process.communicate()
                raise AssertionError(f"the application never paused:\n{output}\n{errors}")
            time.sleep(0.01)
        return int(pause_file.read_text())

    return wait


@pytest.fixture
def program(replay: Replay) -> Callable[..., list[str]]:
    """Writes a Python program, and gives the command that runs it. It can import what is in `programs/`."""

    def write(text: str, *arguments: object) -> list[str]:
        path = replay.folder / "program.py"
        beside = f"import sys\nsys.path.insert(0, {str(PROGRAMS)!r})\n"
        path.write_text(beside + textwrap.dedent(text))
        return [sys.executable, str(path), *map(str, arguments)]

    return write
