"""Kills a worker of a fleet in the middle of a unit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

LONGEST_S = 400  # Ray takes minutes to begin on a busy machine


MARK = "REPLAY_TEST_FLEET"  # a variable of what may be killed and is not under this process, as Slurm has it


def kill_one(folder: Path, words: bytes, coordinator: subprocess.Popen[str], results: str = "r") -> bool:
    """With SIGKILL one of the processes whose command line has these words, of the test with this folder, when a unit
    was begun. results: the folder of all nights in it, a pattern."""
    marked = f"{MARK}={folder}\0".encode()
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline and coordinator.poll() is None:
        if any(folder.glob(f"{results}/*/attempts/*.json")):
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                if words in _read(pid, "cmdline") and (
                    marked in _read(pid, "environ") or _is_under(int(pid), os.getpid())
                ):
                    os.kill(int(pid), signal.SIGKILL)
                    return True
        time.sleep(0.01)
    return False


def _is_under(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        fields = _read(str(pid), "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if fields else 0
    return False


def _read(pid: str, name: str) -> bytes:
    try:
        return Path("/proc", pid, name).read_bytes()
    except OSError:
        return b""
