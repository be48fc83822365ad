"""Commands of replay as child processes: started, looked at, cancelled, and gone when this process is.

A child is in a process group of its own, and ends when its standard input does: also where this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from replay.errors import LimitError, UsageError

MAXIMUM_RUNNING = 4
MAXIMUM_KEPT = 64
MAXIMUM_OUTPUT_BYTES = 16 << 20
_GRACE_S = 5.0  # in which a command that was interrupted removes what it began

_BOOTSTRAP = """
import os, signal, sys, threading
def watch(stream=os.dup(0)):
    while os.read(stream, 1): pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.path[:] = {path!r}
sys.argv[0] = "replay"
from replay.__main__ import run
sys.exit(run())
"""


class Job:
    """One command. words: after `replay`."""

    def __init__(self, number: int, words: Sequence[str], folder: Path) -> None:
        self.number, self.words = number, list(words)
        self.cancelled = False
        self._begin_s, self._end_s = time.monotonic(), 0.0
        path = [entry for entry in sys.path if entry]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP.format(path=path), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, start_new_session=True,
            env={**os.environ, "REPLAY_OFFLINE": "1", "REPLAY_SANDBOX": "1"},
        )  # fmt: skip
        self._said = [bytearray(), bytearray()]
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [
            threading.Thread(target=_read, args=(stream, said), daemon=True)
            for stream, said in zip(streams, self._said, strict=True)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int:
        """Once it has ended."""
        return self._process.returncode

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (time.monotonic() if self.running or not self._end_s else self._end_s) - self._begin_s

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended, after at most so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            self._end_s = self._end_s or time.monotonic()
            for reader in self._readers:
                reader.join(_GRACE_S)
        return not self.running

    def cancel(self) -> None:
        """End it: as Ctrl-C does, and if that takes too long at once."""
        if self.running:
            self.cancelled = True
            self._signal(signal.SIGINT)
            if not self.wait(_GRACE_S):
                self._signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Nothing of its group is left afterwards."""
        self._signal(signal.SIGKILL)
        self.wait(_GRACE_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()

    def output(self) -> str:
        """What it printed; where it failed, what it said of it as well."""
        printed, said = (bytes(part).decode("utf-8", "replace") for part in self._said)
        return printed if not said or (printed and self.exit_code == 0) else f"{printed}\n{said}".strip()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:  # else its number may be another's by now
                os.killpg(self._process.pid, number)


def _read(stream: IO[bytes], said: bytearray) -> None:
    """All that comes is taken, so that nobody waits; as much as is bounded is kept."""
    with contextlib.suppress(OSError, ValueError):
        while data := os.read(stream.fileno(), 1 << 16):
            said += data[: max(0, MAXIMUM_OUTPUT_BYTES - len(said))]


class Jobs:
    """Those of one server. A context manager: at its end all are gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[int, Job] = {}
        self._last = 0
        self._lock = threading.Lock()

    def start(self, words: Sequence[str]) -> Job:
        """Raises LimitError where too many run."""
        with self._lock:
            if sum(job.running for job in self._jobs.values()) >= MAXIMUM_RUNNING:
                raise LimitError(f"{MAXIMUM_RUNNING} jobs run already", next="poll or cancel one of them")
            for number in [number for number, job in self._jobs.items() if not job.running][
                : -MAXIMUM_KEPT or None
            ]:
                self._jobs.pop(number).close()
            self._last += 1
            self._jobs[self._last] = Job(self._last, words, self._folder)
            return self._jobs[self._last]

    def find(self, number: int) -> Job:
        """Raises UsageError."""
        if number not in self._jobs:
            raise UsageError(
                "there is no such job",
                where=f"job {number}",
                next="run, compare, bisect and evaluate start one",
            )
        return self._jobs[number]

    def forget(self, job: Job) -> None:
        """End one of which nobody will ask again."""
        with self._lock:
            self._jobs.pop(job.number, None)
        job.close()

    def close(self) -> None:
        """End all."""
        with self._lock:
            for job in self._jobs.values():
                job.close()

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()
