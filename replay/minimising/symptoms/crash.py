"""Errors: of a kernel, of a call, of the worker; and those that the CPU driver's checks find."""

from __future__ import annotations

import re

from replay.engine.faults import place_of
from replay.errors import EngineError, HangError, WorkerError
from replay.minimising.symptoms.side import Side
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom
from replay.results.run.verification import Fault

_ERROR = re.compile(r"CUDA_ERROR_\w+")
_SIGNAL = re.compile(r"was ended by (\w+)")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


class Crash(Symptom):
    """finding: only what the checks of the CPU driver name a kernel and an instruction for."""

    compares = False

    def __init__(self, side: Side, finding: bool = False) -> None:
        super().__init__("finding" if finding else "crash", side)
        self._side, self._finding = side, finding

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """One replay."""
        try:
            result = self._side.replay(candidate)
        except EngineError as error:
            return self._of_error(error)
        verification = result.verification
        if verification.fault is not None and verification.fault.found:
            return self._of_fault(verification.fault)
        return Sighting(False, f"the replay ends without an error, outputs {verification.verdict}")

    def _of_fault(self, fault: Fault) -> Sighting:
        return self._sighting(fault.found, fault.words or fault.found, fault.kernel)

    def _of_error(self, error: EngineError) -> Sighting:
        if isinstance(error, WorkerError):
            ended = _SIGNAL.search(error.what)
            if ended is None and not isinstance(error, HangError):
                return Sighting(False, error.what)
            if self._finding:
                return Sighting(False, f"{error.what}; that is no finding of the CPU driver")
            return Sighting(True, error.what, [ended[1] if ended else "hang"])
        found = _ERROR.search(error.what)
        if found is None or "returned" not in error.what:
            return Sighting(False, f"it cannot be replayed: {error.what}", could_not=True)
        words = error.what.partition("(")[2].removesuffix(")")  # of the driver; which call met it is chance
        return self._sighting(found[0], words or error.what, "")

    def _sighting(self, error: str, words: str, kernel: str) -> Sighting:
        place = place_of(words)
        if self._finding and place is None:
            return Sighting(False, f"{words}; no instruction is named")
        key = [error, place["kernel"] if place else kernel]
        if place is not None:  # where it was is a part of it, and how far from an allocation
            key += [place["line"], _NUMBER.sub("N", words[: place.start()].partition(";")[0])]
        return Sighting(True, words if error in words else f"{error}: {words}", key)
