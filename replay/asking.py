"""Asks a command of the user's own; its status is the answer, as `git bisect run` takes it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from replay.errors import EngineError

YES, CANNOT_TELL, LIMIT = 0, 125, 128
MAXIMUM_LOG_BYTES = 4000  # of what it wrote, from the end


@dataclass(frozen=True)
class Answer:
    """status: from 0 to 127; None: it did not end within its time. log: the end of what it wrote."""

    status: int | None
    log: str


def ask(
    command: str, argument: str, timeout_s: float | None = None, environment: Mapping[str, str] | None = None
) -> Answer:
    """Run `command` with one more argument. Nothing of what it started in its process group is left after that.

    Raises EngineError when it cannot be started, is ended by a signal, or ends with 128 or more.
    """
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                [*shlex.split(command), argument], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip
        except ValueError as error:
            raise EngineError(f"is no command ({error})", where=command) from None
        except OSError as error:
            raise EngineError(f"cannot be started ({error.strerror})", where=command) from None
        status = None
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout_s)
        finally:
            _end(process)
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - MAXIMUM_LOG_BYTES))
        written = log.read().decode("utf-8", "replace")
    if status is not None and not 0 <= status < LIMIT:
        failure = EngineError(
            f"ended with status {status}, which is no answer", where=command,
            next="0 to 127 are answers, of which 125 says that it cannot tell",
        )  # fmt: skip
        failure.details = written.strip()
        raise failure
    return Answer(status, written)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
