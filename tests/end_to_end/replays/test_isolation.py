"""A replay leaves nothing, however it ends: no process, no file, no core dump."""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from replay.errors import ExitCode, WorkerError
from replay.run.parent import RunOptions, run_snapshot

TIMEOUT_S = 60
pytestmark = pytest.mark.usefixtures("started_workers")


@pytest.fixture
def marked(replay, good_snapshot, monkeypatch, tmp_path_factory):
    """Marks every process of this test, and gives them a folder for temporary files and a home of their own."""
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    mark = uuid.uuid4().hex
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("REPLAY_TEST_MARK", mark)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("HOME", str(temporary))
    return Marked(mark, temporary, replay.folder)


class Marked:
    def __init__(self, mark, temporary, folder):
        self.mark = f"REPLAY_TEST_MARK={mark}".encode()
        self.temporary = temporary
        self.folder = folder

    def processes(self):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if self.mark in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def wait_for_worker(self):
        """Until the worker, which is the process that was started last, has loaded the driver."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for process in self.processes():
                maps = Path(f"/proc/{process}/maps")
                try:
                    if "libcuda.so" in maps.read_text():
                        return process
                except OSError:
                    continue
            time.sleep(0.02)
        raise AssertionError("no worker loaded the driver")

    def nothing_is_left(self):
        deadline = time.monotonic() + TIMEOUT_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self.processes() == []
        assert list(self.temporary.iterdir()) == []
        assert [path.name for path in self.folder.iterdir()] == ["x.rsnap"]


def test_twenty_replays_leave_no_process_and_no_file(marked, monkeypatch, patient_start):
    """Some end well, some with a fault, a hang or too much memory."""
    monkeypatch.chdir(marked.folder)
    options = RunOptions(driver="emulator", timing=None)
    ends = [
        (options, "", ""),
        (replace(options, counters=True), "", ""),
        (options, "SEGV", "SIGSEGV"),
        (replace(options, timeout_s=1.0), "HANG", "no progress"),
        (replace(options, memory_limit_bytes=20 << 20), "", "more than the limit"),
    ]
    for number in range(20):
        chosen, knob, words = ends[number % len(ends)]
        with monkeypatch.context() as patch:
            if knob:
                patch.setenv(f"REPLAY_EMULATOR_{knob}", ".*")
            with pytest.raises(WorkerError, match=words) if words else nullcontext():
                assert run_snapshot("x.rsnap", chosen).verification.verdict == "match"
    marked.nothing_is_left()


def start_hanging(replay, monkeypatch, *arguments):
    monkeypatch.setenv("REPLAY_EMULATOR_HANG", ".*")
    quick = ("--driver", "emulator", "--no-timing", "--timeout", "50")
    return replay.start(replay.command("run", "x.rsnap", *quick, *arguments))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_command_that_is_ended_leaves_nothing(replay, marked, monkeypatch, how):
    process = start_hanging(replay, monkeypatch, "--counters")
    worker = marked.wait_for_worker()
    limits = Path(f"/proc/{worker}/limits").read_text()
    assert "Max core file size        1                    1" in limits
    process.send_signal(how)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    if how == signal.SIGINT:
        assert process.returncode == 130
    assert "Traceback" not in errors
    marked.nothing_is_left()


def test_worker_that_holds_too_much_memory_is_killed_and_both_figures_told(replay, marked):
    done = replay(
        "run", "x.rsnap", "--driver", "emulator", "--memory-limit", "20M", status=ExitCode.COULD_NOT
    )
    assert "of the host's memory while" in done.stderr
    assert "the limit of 20 MiB" in done.stderr
    assert "--memory-limit SIZE allows more" in done.stderr
    marked.nothing_is_left()


def test_size_that_is_none_is_a_usage_error(replay, marked):
    done = replay("run", "x.rsnap", "--memory-limit", "lots", status=ExitCode.USAGE)
    assert "give for example 500M or 16G" in done.stderr


def test_log_of_the_worker_is_kept_on_request(replay, marked, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_TRACE", "1")
    replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--logs", "kept")
    steps = (replay.folder / "kept" / "worker.log").read_text()
    assert "replaying the window" in steps
    assert steps.rstrip().endswith("ended with a result")
    assert "cuLaunchKernel" in (replay.folder / "kept" / "worker.out").read_text()


def test_log_of_a_worker_that_failed_says_how_it_ended(replay, marked, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_SEGV", ".*")
    arguments = ("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--logs", "kept")
    replay(*arguments, status=ExitCode.COULD_NOT)
    assert "SIGSEGV" in (replay.folder / "kept" / "worker.log").read_text().splitlines()[-1]
