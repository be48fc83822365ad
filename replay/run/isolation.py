"""Keeps a worker from harming the machine, and what it said: memory it holds, its log. For the parent process.

Address space is no measure of memory (drivers reserve terabytes of it), so a limit on that would end every worker. What
it holds is looked at from outside, often, and a worker that holds too much is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from replay.errors import FileError

SAMPLE_INTERVAL_S = 0.05  # between two looks at the memory of a worker; it can touch some 0.2 GiB meanwhile
DEFAULT_SHARE = 0.9  # of the machine's memory, or of what a container may have
MAXIMUM_LOG_BYTES = 64 << 20  # of what a worker printed

_STATUS = re.compile(rb"^(VmRSS|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_SHARES = re.compile(rb"^(Pss|SwapPss):\s*(\d+) kB$", re.MULTILINE)


def default_memory_limit() -> int:
    """Most of what this machine, or the container that this process is in, has."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            total = min(total, int(Path(path).read_text()))
    return int(DEFAULT_SHARE * total)


def held_bytes(process_id: int, limit: int) -> int:
    """Memory that a process holds, in RAM or swapped out; 0 when it is gone.

    A page that is mapped at two addresses counts twice in the figure that is cheap to have, so beyond `limit` the exact
    one is asked for.
    """
    held = _sum(f"/proc/{process_id}/status", _STATUS)
    if held > limit:
        return min(held, _sum(f"/proc/{process_id}/smaps_rollup", _SHARES) or held)
    return held


def _sum(path: str, pattern: re.Pattern[bytes]) -> int:
    try:
        with open(path, "rb") as file:
            return sum(int(kilobytes) << 10 for _, kilobytes in pattern.findall(file.read()))
    except OSError:
        return 0


class MemoryWatch:
    """Looks at one process now and then. limit_bytes: None for the default."""

    def __init__(self, process_id: int, limit_bytes: int | None) -> None:
        self.limit_bytes = default_memory_limit() if limit_bytes is None else limit_bytes
        self._process_id = process_id
        self._next_s = 0.0

    def exceeded(self) -> int:
        """How many bytes it holds if that is too much, else 0. Cheap when called often."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return 0
        self._next_s = now_s + SAMPLE_INTERVAL_S
        held = held_bytes(self._process_id, self.limit_bytes)
        return held if held > self.limit_bytes else 0


class WorkerLog:
    """`NAME.log` (steps and how the worker ended, with times) and `NAME.out` (what it and the driver printed) in a
    folder. folder None: nothing is kept. Raises FileError when they cannot be created; later trouble is `problem`."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self.problem = ""
        self._begin_s = time.monotonic()
        self._room = MAXIMUM_LOG_BYTES
        self._last = ""
        self._steps: BinaryIO | None = None
        self._printed: BinaryIO | None = None
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._steps = open(folder / f"{name}.log", "wb", buffering=0)  # noqa: SIM115, closed by `close`
            self._printed = open(folder / f"{name}.out", "wb", buffering=0)  # noqa: SIM115
        except OSError as error:
            self.close()
            raise FileError.of(error, folder, "choose another folder") from None

    def step(self, text: str) -> None:
        """The worker went on to something, or ended. The same again is left out."""
        if self._steps is not None and text != self._last:
            self._last = text
            steps = self._steps
            line = f"{time.monotonic() - self._begin_s:10.3f} s  {text}\n".encode("utf-8", "backslashreplace")
            self._try(lambda: steps.write(line))

    def printed(self, data: bytes) -> None:
        """What it wrote to stdout or stderr."""
        if self._printed is None or not self._room:
            return
        printed, kept = self._printed, data[: self._room]
        self._room -= len(kept)
        self._try(lambda: printed.write(kept))
        if not self._room:
            self.step(f"printed more than {MAXIMUM_LOG_BYTES >> 20} MiB, the rest is not kept")

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self.problem = f"the worker's log is incomplete: {error.strerror}"

    def close(self) -> None:
        """Nothing more will be written."""
        for file in (self._steps, self._printed):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
