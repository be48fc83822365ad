"""Evaluates candidates for a captured kernel, and shows what was found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from replay.compare.rounds import RoundLimits
from replay.errors import ErrorPrinted, FileError
from replay.library.found import Found
from replay.results import documents
from replay.results.evaluation import Evaluated, MovedCounter
from replay.results.run.trust import Trust
from replay.results.run.verification import OutputDifference

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.text import Screen

DEFAULT_EFFECT = 0.01


class Evaluation(Found[Evaluated]):
    """What became of one candidate: correct or not and where, its time beside the captured kernel, what moved, and what
    to do next."""

    document = documents.EVALUATION

    @property
    def verdict(self) -> str:
        """FASTER, SLOWER, SAME, UNSURE, WRONG (outputs differ) or FAILED (it does not compile, fit or end)."""
        return self.data.verdict

    @property
    def correct(self) -> bool:
        """Whether outputs were compared, and all of them are the captured ones."""
        return self.data.correct

    @property
    def where(self) -> str:
        """The first place of outputs that are wrong, in a sentence; "" where none are."""
        return self.data.where

    @property
    def differences(self) -> list[OutputDifference]:
        """The first buffers that differ."""
        return self.data.differences

    @property
    def ratio(self) -> float | None:
        """Time of the candidate over that of the captured kernel; None where nothing was timed."""
        return self.data.ratio

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the ratio; None where there is none."""
        if self.data.low is None or self.data.high is None:
            return None
        return self.data.low, self.data.high

    @property
    def counters(self) -> list[MovedCounter]:
        """What was counted for both kernels and moved, the largest change first."""
        return self.data.counters

    @property
    def hint(self) -> str:
        """What to do next, in one sentence."""
        return self.data.hint

    @property
    def trust(self) -> Trust | None:
        """What an untrusted candidate was confronted with, and what was found; None for a trusted one."""
        return self.data.trust

    @property
    def error(self) -> ErrorPrinted | None:
        """Why it FAILED, with the fields of an error; None where it did not."""
        return self.data.error

    def _text(self, screen: Screen) -> str:
        from replay.report.evaluation import render_evaluation

        return render_evaluation(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(evaluations=[self.data])

    def __repr__(self) -> str:
        from replay.report.evaluation import headline

        return f"<evaluation: {headline(self.data)}>"


def limits_of(
    minimum_effect: float = DEFAULT_EFFECT, rounds: int | None = None, budget_s: float | None = None
) -> RoundLimits:
    """When a comparison of the two ends."""
    return RoundLimits(minimum_effect, rounds, budget_s)


def candidate_at(path: str | os.PathLike[str]) -> Path:
    """A candidate's file. Raises FileError where there is none."""
    found = Path(path)
    if not found.is_file():
        what = "is a folder" if found.is_dir() else "there is no such file"
        raise FileError(what, where=path, next="name a .cu, PTX, cubin or fat binary")
    return found
