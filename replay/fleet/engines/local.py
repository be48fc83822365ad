"""All devices of this machine, a process for each."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from typing import BinaryIO

from replay.fleet.engines import Running, worker_words
from replay.fleet.laboratory import devices_here
from replay.fleet.matrix import Kind
from replay.fleet.night import Night

_STOPPED = 130
_LAST_BYTES = 2000


class _Process:
    def __init__(self, command: list[str]) -> None:
        self._said: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 closed with it
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said
        )

    def ended(self) -> str | None:
        status = self._process.poll()
        if status is None:
            return None
        if status in (0, _STOPPED):
            return ""
        end = self._said.seek(0, 2)
        self._said.seek(max(0, end - _LAST_BYTES))
        lines = self._said.read().decode("utf-8", "replace").splitlines()
        return lines[-1] if lines and status > 0 else f"a worker was ended by signal {-status}"

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        self._process.wait()


class _Local:
    def slots(self, kind: Kind) -> int:
        return devices_here(kind)

    def start(self, night: Night, kind: Kind, slot: int) -> Running:
        return _Process([sys.executable, "-m", "replay", *worker_words(night, kind, slot)])

    def close(self) -> None:
        """Its processes are stopped one by one."""


def begin() -> _Local:
    """Nothing has to be begun."""
    return _Local()
