"""Runs a compiler: with a time limit, in a folder that is gone afterwards, and never through a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO

from replay import interrupts
from replay.errors import BuildError, EngineError
from replay.records import dataclass

TIMEOUT_S = 900
SHOWN_LOG_LINES = 20
MAXIMUM_SAID_BYTES = 4 << 20  # of each of its streams
_LOOK_S, _READ_S = 0.01, 5.0
_SHOWN_LINE = 300


@dataclass(frozen=True)
class Ran:
    """How it ended and all that it said."""

    status: int
    log: str
    output: bytes = b""

    @property
    def first_error(self) -> str:
        """The line that says what is wrong, for a message of one line."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return next(
            (line for line in lines if "error" in line.lower() or "fatal" in line.lower()),
            lines[0] if lines else "",
        )[:_SHOWN_LINE]


def refusal(what: str, ran: Ran, *, where: object = None, next: str | None = None) -> BuildError:
    """The error with the beginning of what the compiler said."""
    error = BuildError(what, where=where, next=next)
    error.details = "\n".join(line[:_SHOWN_LINE] for line in ran.log.splitlines()[:SHOWN_LOG_LINES])
    return error


def run_tool(
    command: Sequence[str], timeout_s: float = TIMEOUT_S, advice: str = "try another version of it"
) -> Ran:
    """Nothing of its process group is left afterwards, and of what it says the beginning is kept. Raises EngineError
    when it cannot be started or does not end, and then with this advice, CancelledError."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"cannot be started ({error.strerror})", where=command[0]) from None
    said = bytearray(), bytearray()
    streams = process.stdout, process.stderr
    readers = [
        threading.Thread(target=_read, args=pair, daemon=True) for pair in zip(streams, said, strict=True)
    ]
    deadline_s = time.monotonic() + timeout_s
    try:
        for reader in readers:
            reader.start()
        # Not reaped before its group is ended: its number is nobody else's until then.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            interrupts.check_cancelled()
            if time.monotonic() > deadline_s:
                raise EngineError(f"did not end within {timeout_s:g} s", where=command[0], next=advice)
            time.sleep(_LOOK_S)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for reader in readers:
            reader.join(_READ_S)
    return Ran(process.returncode, bytes(said[1]).decode("utf-8", "replace"), bytes(said[0]))


def _read(stream: IO[bytes], said: bytearray) -> None:
    """All that comes is taken, so that the tool does not wait."""
    with stream, contextlib.suppress(OSError, ValueError):
        while data := os.read(stream.fileno(), 1 << 16):
            said += data[: max(0, MAXIMUM_SAID_BYTES - len(said))]
