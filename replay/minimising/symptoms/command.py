"""A command of the user's own, which says whether a snapshot shows the symptom."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress

from replay.errors import EngineError
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom

SKIP, LIMIT = 125, 128  # as `git bisect run` takes them


class Command(Symptom):
    """Status 0: it shows it; 125: cannot be told; 1 to 127: it does not; anything else ends the search."""

    compares = False

    def __init__(self, command: str, timeout_s: float) -> None:
        super().__init__(f"exec={command}")
        self._command, self._timeout_s = command, timeout_s

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """Run it once, with the path as its last argument. Raises EngineError."""
        self.others += 1
        log = candidate.folder / "log"
        try:
            with open(log, "wb") as file:
                process = subprocess.Popen(
                    [*shlex.split(self._command), str(candidate.path)], stdin=subprocess.DEVNULL,
                    stdout=file, stderr=file, start_new_session=True,
                )  # fmt: skip
                try:
                    status = process.wait(self._timeout_s)
                finally:
                    _end(process)
        except subprocess.TimeoutExpired:
            return Sighting(False, f"the command did not end within {self._timeout_s:g} s")
        except ValueError as error:
            raise EngineError(f"is no command ({error})", where=self._command) from None
        except OSError as error:
            raise EngineError(f"cannot be started ({error.strerror})", where=self._command) from None
        if status < 0 or status >= LIMIT:
            failure = EngineError(
                f"ended with status {status}, which says neither yes nor no", where=self._command,
                next="0: the symptom is there; 1 to 127: it is not; 125: cannot be told",
            )  # fmt: skip
            with open(log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
                failure.details = file.read().decode("utf-8", "replace").strip()
            raise failure
        return Sighting(status == 0, f"the command ended with status {status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of what the command started in its process group is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
