"""Runs a compiler: with a time limit, in a folder that is gone afterwards, and never through a shell."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from replay.errors import EngineError
from replay.records import dataclass

TIMEOUT_S = 900
SHOWN_LOG_LINES = 20
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


class BuildError(EngineError):
    """A compiler refused a source. `details` is the beginning of what it said."""

    def __init__(self, what: str, ran: Ran, *, where: object = None, next: str | None = None) -> None:
        self.details = "\n".join(line[:_SHOWN_LINE] for line in ran.log.splitlines()[:SHOWN_LOG_LINES])
        super().__init__(what, where=where, next=next)


def run_tool(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> Ran:
    """Raises EngineError when it cannot be started or does not end."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"did not end within {timeout_s:g} s", where=command[0]) from None
    except OSError as error:
        raise EngineError(f"cannot be started ({error.strerror})", where=command[0]) from None
    return Ran(done.returncode, done.stderr.decode("utf-8", "replace"), done.stdout)
