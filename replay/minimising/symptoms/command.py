"""A command of the user's own, which says whether a snapshot shows the symptom."""

from __future__ import annotations

from replay.asking import YES, ask
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom


class Command(Symptom):
    """Status 0: it shows it; 125: cannot be told; 1 to 127: it does not; anything else ends the search."""

    compares = False

    def __init__(self, command: str, timeout_s: float) -> None:
        super().__init__(f"exec={command}")
        self._command, self._timeout_s = command, timeout_s

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """Run it once, with the path as its last argument. Raises EngineError."""
        self.others += 1
        status = ask(self._command, str(candidate.path), self._timeout_s).status
        if status is None:
            return Sighting(False, f"the command did not end within {self._timeout_s:g} s")
        return Sighting(status == YES, f"the command ended with status {status}")
