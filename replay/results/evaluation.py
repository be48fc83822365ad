"""What became of a candidate for a captured kernel: `replay.evaluation/1`. docs/evaluate.md describes every field.

Small on purpose: programs that write kernels read one of these for each. Fields are only added, with defaults.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.errors import ErrorPrinted
from replay.records import dataclass
from replay.results.run.trust import Trust
from replay.results.run.verification import OutputDifference

FORMAT = "replay.evaluation/1"


@dataclass(frozen=True)
class MovedCounter:
    """Something that was counted for both kernels, and is not the same. name: for people and programs; docs/evaluate.md
    lists them. captured, candidate: the figure of each kernel."""

    name: str
    captured: float
    candidate: float


@dataclass(frozen=True)
class Evaluated:
    """A candidate beside the captured kernel, on the captured memory.

    verdict: WRONG (outputs are not the captured ones, or not computed), FAILED (`error` says how: it does not compile,
    fit, end, or it faults), else that of its time: FASTER, SLOWER, SAME or UNSURE. outputs: match, wrong,
    nondeterministic, unsure or not_compared; "" where it failed before that. where: in a sentence, the first place of
    outputs that are wrong. differences: of the first buffers that differ. more_differences: how many others do.

    captured_ns, candidate_ns: medians over the rounds, null where nothing was timed; low .. high: interval of ratio.
    exact: they come from a deterministic clock, so there is no noise. error: as of a command that could
    not do it. counters: what moved, the largest change first; counters_reason: why there are none. hint: what to do
    next, in a sentence.

    trust: what it was confronted with before it was timed, and what was found; null for a trusted one.
    candidate: name of its file; candidate_digest: of its contents. compiler: what made an image of it, "" nothing.
    """

    format: str
    tool_version: str
    created_utc: str
    snapshot: str
    file: str
    window: int | None
    kernels: list[str]
    candidate: str
    candidate_digest: str
    verdict: str
    reason: str = ""
    outputs: str = ""
    where: str = ""
    differences: list[OutputDifference] = field(default_factory=list)
    more_differences: int = 0
    captured_ns: float | None = None
    candidate_ns: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    time: Literal["GPU time", "host time"] = "GPU time"
    source: Literal["measured", "modelled"] = "measured"
    exact: bool = False
    minimum_effect: float = 0.01
    counters: list[MovedCounter] = field(default_factory=list)
    counters_reason: str = ""
    hint: str = ""
    error: ErrorPrinted | None = None
    compiler: str = ""
    device: str = ""
    driver: str = ""
    driver_version: int = 0
    trust: Trust | None = None
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    command: list[str] = field(default_factory=list)

    @property
    def correct(self) -> bool:
        """Whether outputs were compared, all are the captured ones, and nothing says that they are not computed."""
        return self.outputs == "match" and self.verdict not in ("WRONG", "FAILED")
