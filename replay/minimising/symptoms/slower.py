"""Side B is slower than side A, by the rule of `compare`."""

from __future__ import annotations

import math
from collections.abc import Callable

from replay.compare.replayed import SideOptions, compare_windows
from replay.compare.rounds import RoundLimits
from replay.compare.sides import windows_at
from replay.errors import ReplayError
from replay.minimising.symptoms.side import Side
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom
from replay.minimising.symptoms.wrong import take_outputs


class Slower(Symptom):
    """The kernel that most of the change comes from must stay, with at least half of the change. Its noise is in the
    intervals of the comparison."""

    def __init__(self, a: Side, b: Side, limits: RoundLimits, progress: Callable[[str], None]) -> None:
        super().__init__("slower", a, b)
        self._a, self._b, self._limits, self._progress = a, b, limits, progress

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """A comparison, after a replay of A whose outputs become the expected ones."""
        try:
            if first is not None and (why := take_outputs(self._a, candidate)):
                return Sighting(False, f"A: {why}")
            window = next(item for item in windows_at(candidate.path) if item.window == candidate.window)
            a, b = (SideOptions(side.options, side.text) for side in (self._a, self._b))
            row = compare_windows([(window, window)], a, b, self._limits, progress=self._progress).rows[0]
        except ReplayError as error:
            return Sighting(False, f"it cannot be compared: {error.what}", could_not=True)
        rounds = len(row.rounds) + len(row.spoiled)
        self._a.replays += rounds
        self._b.replays += rounds
        if row.verdict != "SLOWER" or row.ratio is None:
            return Sighting(False, f"{row.verdict}{f' ({row.reason})' if row.reason else ''}")
        kernel = row.launches[0].kernel if row.launches else row.kernel
        what = f"{kernel} is slower: {(row.ratio - 1) * 100:+.2f} % of the window"
        call = row.launches[0].call if row.launches else None
        return Sighting(True, what, [kernel], math.log(row.ratio), call=call)
