"""A command of the user's own, which says whether a snapshot shows the symptom."""

from __future__ import annotations

import os
import shlex
import subprocess

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
                done = subprocess.run(
                    [*shlex.split(self._command), str(candidate.path)], stdin=subprocess.DEVNULL, check=False,
                    stdout=file, stderr=file, timeout=self._timeout_s, start_new_session=True,
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Sighting(False, f"the command did not end within {self._timeout_s:g} s")
        except OSError as error:
            raise EngineError(f"cannot be started ({error.strerror})", where=self._command) from None
        if done.returncode < 0 or done.returncode >= LIMIT:
            failure = EngineError(
                f"ended with status {done.returncode}, which says neither yes nor no", where=self._command,
                next="0: the symptom is there; 1 to 127: it is not; 125: cannot be told",
            )  # fmt: skip
            with open(log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
                failure.details = file.read().decode("utf-8", "replace").strip()
            raise failure
        return Sighting(done.returncode == 0, f"the command ended with status {done.returncode}")
