"""Tries candidates: writes each, looks at it, and keeps it as the output where it shows the same symptom."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from replay import interrupts
from replay.errors import EngineError, GateFailed, ImageError, UsageError
from replay.minimising.candidates.cuts import Cuts
from replay.minimising.candidates.writing import Outputs, write_candidate
from replay.minimising.model import PassDone
from replay.minimising.state_file import State
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom
from replay.text import number, size

MAXIMUM_LOOKS = 8  # at a start that does not always show it
MAXIMUM_VOTES = 16
_OUTPUTS_BYTES = 4096  # a candidate that is larger by no more is looked at all the same
MISSED = 0.01  # probability that a candidate is given up that would have shown it


class BudgetOver(Exception):  # noqa: N818 (no error: what is there is kept)
    """No candidate is tried any more; the text says why."""


@dataclass
class Laboratory:
    """maximum_replays, budget_s: in this command; None: no limit. best: the smallest file so far, the source or the
    output."""

    source: Path
    output: Path
    folder: Path
    symptom: Symptom
    state: State
    progress: Callable[[str], None]
    maximum_replays: int | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        self._begin_s = time.monotonic()
        self._before = self.state.replays  # of earlier commands
        self.best = self.output if any(self.state.tried.values()) else self.source
        self.original_bytes = os.stat(self.source).st_size
        self.bytes = os.stat(self.best).st_size
        self._tried = self._kept = 0
        self._name = ""

    @property
    def first(self) -> Sighting:
        """What the start showed."""
        assert self.state.first is not None
        return self.state.first

    @property
    def cuts(self) -> Cuts:
        """What is gone from the best file."""
        return self.state.cuts

    @property
    def votes(self) -> int:
        """Looks at a candidate, of which one must show the symptom."""
        if self.state.rate >= 1:
            return 3 if self.symptom.noisy else 1
        return min(MAXIMUM_VOTES, math.ceil(math.log(MISSED) / math.log(1 - self.state.rate)))

    @property
    def replays(self) -> int:
        """In all, with those of earlier commands."""
        return self._before + self.symptom.replays

    def begin(self, windows: list[int | None]) -> None:
        """Look at the start, window by window. Raises GateFailed where none shows the symptom, EngineError where none
        can be replayed."""
        seen: list[tuple[int | None, Sighting]] = []
        for window in windows:
            self.progress(f"looking for the symptom{'' if window is None else f' in window {window}'}")
            found = self._first_look(window)
            seen.append((window, found))
            if found.shown:
                self.state.first, self.state.replays = found, self.replays
                self.state.cuts = Cuts(window=window)
                return
        instead = "; ".join(
            found.what if window is None else f"window {window}: {found.what}" for window, found in seen[:4]
        )
        if all(found.could_not for _, found in seen):
            raise EngineError(instead, where=self.source, next="`replay run` says more")
        raise GateFailed(
            f"does not show the symptom ({self.symptom.name}): {instead}", where=self.source,
            next="`replay run` or `replay compare` show what it does",
        )  # fmt: skip

    def go_on(self) -> None:
        """Look at the output of an earlier command, which may have been replaced since, and the machine as well. Raises
        GateFailed where it does not show the symptom."""
        if self.best == self.source:
            return
        self.progress("looking at what is there")
        why = ""
        for _ in range(self.votes):
            why = self.first.why_not(
                self.symptom.look(Candidate(self.output, self.folder, _keep), self.first)
            )
            if not why:
                return
        raise GateFailed(f"does not show the symptom any more: {why}", where=self.output,
                         next=f"remove it and {self.state.path.name} to begin again")  # fmt: skip

    def _first_look(self, window: int | None) -> Sighting:
        """As often as it takes to know how often it is shown."""
        candidate = Candidate(self.source, self.folder, _keep, window)
        found = self.symptom.look(candidate, None)
        if self.symptom.name == "slower" or found.could_not or (found.shown and not self.symptom.compares
                                                                and self.symptom.name.startswith("exec=")):  # fmt: skip
            return found
        looks = [found]
        while len(looks) < MAXIMUM_LOOKS:
            shown = [one for one in looks if one.shown]
            alike = len(shown) == len(looks) and all(one.key == shown[0].key for one in shown)
            if len(looks) >= 2 and alike:
                break
            if len(looks) >= (MAXIMUM_LOOKS if self.symptom.noisy else 3) and not shown:
                break
            looks.append(self.symptom.look(candidate, None))
        keys = [tuple(one.key) for one in looks if one.shown]
        if not keys:
            return found
        usual = max(keys, key=keys.count)
        self.state.rate = keys.count(usual) / len(looks)
        return next(one for one in looks if one.shown and tuple(one.key) == usual)

    def run_pass(self, name: str, do: Callable[[], None]) -> None:
        """Everything that one pass tries, unless an earlier command has done it. Raises BudgetOver."""
        if any(item.name == name for item in self.state.passes):
            return
        self._name, self._tried, self._kept = name, 0, 0
        do()
        self.state.passes.append(self._done())
        self.state.save()

    def _done(self) -> PassDone:
        return PassDone(self._name, self._tried, self._kept, self.bytes)

    def passes(self, finished: bool) -> list[PassDone]:
        """What each did. finished: whether the last one came to its end."""
        return self.state.passes if finished else [*self.state.passes, self._done()]

    def attempt(self, cuts: Cuts, *, smaller: bool = True) -> bool:
        """Whether the symptom is still there with these cuts, which are kept then. smaller: the file must be no larger
        than before. Raises BudgetOver."""
        if cuts == self.cuts:
            return True
        key = cuts.digest()
        if key not in self.state.tried:
            self._require_budget()
            self._tried += 1
            self.progress(
                f"{self._name}: {size(self.bytes)} of {size(self.original_bytes)}, {number(self.replays, 'replay')}, "
                f"{self._kept} of {number(self._tried, 'step')} kept"
            )
            kept = self._is_kept(cuts, smaller)
            self._kept += kept
            self.state.tried[key], self.state.replays = kept, self.replays
            if kept:
                self.state.cuts = cuts
            self.state.save()
        return self.state.tried[key] and cuts == self.cuts

    def _require_budget(self) -> None:
        if self.maximum_replays is not None and self.symptom.replays >= self.maximum_replays:
            raise BudgetOver(f"its budget of {number(self.maximum_replays, 'replay')} is over")
        if self.budget_s is not None and time.monotonic() - self._begin_s >= self.budget_s:
            raise BudgetOver(f"its budget of {self.budget_s:.3g} s is over")

    def _is_kept(self, cuts: Cuts, smaller: bool) -> bool:
        path = self.folder / "candidate.rsnap"
        try:
            write_candidate(self.best, path, cuts)
        except ImageError:
            return False
        limit = (self.bytes if smaller else self.original_bytes) + 1
        # Expected outputs may shrink when they are made again.
        if os.stat(path).st_size >= limit + (_OUTPUTS_BYTES if self.symptom.compares else 0):
            return False

        def remake(outputs: Outputs) -> None:
            made = self.folder / "remade.rsnap"
            write_candidate(path, made, cuts, outputs)
            os.replace(made, path)

        for _ in range(self.votes):
            try:
                found = self.symptom.look(Candidate(path, self.folder, remake), self.first)
            except UsageError:  # the variant does not fit what is left
                return False
            if not self.first.why_not(found):
                break
        else:
            return False
        if os.stat(path).st_size >= limit:
            return False
        with interrupts.held():
            os.replace(path, self.output)
        self.best, self.bytes = self.output, os.stat(self.output).st_size
        return True

    def finish(self) -> tuple[int, int]:
        """Look at the output once more; how often, and how often it showed the symptom. Raises EngineError."""
        if self.best == self.source:
            made = self.folder / "copy.rsnap"
            shutil.copyfile(self.source, made)
            os.replace(made, self.output)
        self.progress("looking at what is left")
        looks = self.votes
        window = self.cuts.window if self.best == self.source else None
        candidate = Candidate(self.output, self.folder, _keep, window)
        first = self.first if self.best == self.output else None
        shown = sum(not self.first.why_not(self.symptom.look(candidate, first)) for _ in range(looks))
        self.state.replays = self.replays
        return looks, shown


def _keep(outputs: Outputs) -> None:
    """What is looked at is not written again."""
