"""The worker process of a replay: hangs, faults and kills end only it, and it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replay.errors import WorkerError
from replay.run import supervisor
from replay.run.parent import RunOptions, run_snapshot
from replay.run.supervisor import WorkerProcess

from ...helpers.small_snapshots import increment


def children():
    """Processes whose parent is this one. Those of fixtures live longer than a test."""
    mine = str(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1] == mine and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_hanging_kernel_is_killed_and_reported(replayed, monkeypatch, patient_start):
    before = children()
    monkeypatch.setenv("REPLAY_EMULATOR_HANG", "increment")
    begin = time.monotonic()
    with pytest.raises(WorkerError, match="no progress for 1 s while replaying the window"):
        replayed(increment(), timeout_s=1.0)
    assert time.monotonic() - begin < 100
    assert children() == before


def test_fault_in_the_driver_is_reported_with_its_signal(replayed, monkeypatch, tmp_path):
    before = children()
    monkeypatch.setenv("REPLAY_EMULATOR_SEGV", "increment")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkerError, match="was ended by SIGSEGV while replaying the window"):
        replayed(increment())
    assert [path.name for path in tmp_path.iterdir()] == ["x.rsnap"]  # no core file, no folder
    assert children() == before


def test_killed_worker_is_reported(replayed, monkeypatch):
    start = WorkerProcess._start

    def start_and_kill(self):
        started = start(self)
        started.process.send_signal(signal.SIGKILL)
        return started

    monkeypatch.setattr(WorkerProcess, "_start", start_and_kill)
    with pytest.raises(WorkerError, match="SIGKILL"):
        replayed(increment())


def test_worker_dies_with_the_command(tmp_path, emulator):
    """kill -9 of the command leaves no hanging worker."""
    path = increment().write(tmp_path / "x.rsnap")
    environment = {**os.environ, "REPLAY_EMULATOR_HANG": "increment"}
    command = subprocess.Popen([sys.executable, "-m", "replay", "run", str(path), "--driver", emulator],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        deadline = time.monotonic() + 100
        children = []
        while not children and time.monotonic() < deadline:
            listed = Path(f"/proc/{command.pid}/task/{command.pid}/children")
            children = [pid for pid in listed.read_text().split() if has_loaded_a_driver(pid)]
            time.sleep(0.05)
        assert children
    finally:
        command.kill()
        command.communicate()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in children):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def has_loaded_a_driver(pid):
    try:
        return "libcuda.so" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it has ended
        return False


def test_a_worker_that_was_started_ahead_is_used_or_ended(replayed, emulator):
    before = children()
    supervisor.start_ahead(emulator)
    started = supervisor._ahead[0].process.pid
    assert sorted(children()) == sorted([*before, started])
    assert replayed(increment()).verification.verdict == "match"
    assert not supervisor._ahead
    assert children() == before
    supervisor.start_ahead(emulator)
    assert replayed(increment(), trust=True).verification.verdict == "match"  # of another kind
    assert children() == before
    supervisor.start_ahead(emulator)
    supervisor.end_ahead()
    assert children() == before


def test_a_module_that_is_not_found_is_looked_for_by_site(sabotage, replayed):
    """As packages are that are installed in a way that needs code at the start of Python."""
    own = (
        "sys.path[:] = [one for one in sys.path if one.startswith(sys.base_prefix) and 'packages' not in one]"
    )
    sabotage(own)
    assert replayed(increment()).verification.verdict == "match"
    sabotage(f"{own}; sys.meta_path.remove(Site)")
    with pytest.raises(WorkerError, match="No module named 'replay'"):
        replayed(increment())


def test_modules_in_the_current_folder_are_not_run(replayed, tmp_path, monkeypatch):
    (tmp_path / "msgpack.py").write_text("raise SystemExit('ran a module of the current folder')")
    (tmp_path / "json.py").write_text("raise SystemExit('ran a module of the current folder')")
    monkeypatch.chdir(tmp_path)
    assert replayed(increment()).verification.verdict == "match"


def test_progress_names_the_steps(tmp_path, emulator):
    seen = []
    path = increment().write(tmp_path / "x.rsnap")
    run_snapshot(path, RunOptions(driver=emulator), seen.append)
    steps = [
        "loading the driver",
        "placing memory",
        "replaying the window",
        "comparing outputs",
        "timing the window with cold caches",
        "timing the window with hot caches",
    ]
    assert [step for step in dict.fromkeys(seen) if step in steps] == steps
