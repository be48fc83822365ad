"""What the gate found: `replay.check/1`. docs/check.md describes every field. Fields are only added, with defaults."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass

FORMAT = "replay.check/1"


@dataclass(frozen=True)
class CheckedPoint:
    """One earlier result of the same series."""

    created_utc: str
    median_ns: float


@dataclass(frozen=True)
class CheckedCase:
    """One window of one snapshot. snapshot: path in the corpus. time_ns: median of the first replay.

    verdict: PASS, SLOWER, FASTER, WRONG, FAILED (it could not be replayed),
    UNSURE (outputs differ, and the capture itself is in doubt; or nothing was compared; or, where there is a ratio, how
    far days lie apart is not known, which is no alert), FAULT (the window ended in an
    error in the application, and does so again), NOISY (the replays disagree), NEW (nothing
    to hold it against). alert: it fails the gate. replays: how many were done; a finding is only kept when independent
    replays agree. device, driver_version, outputs: of the first replay. quarantined: why it does not count, "" when it
    does. course: the newest results of its series in the history of the baseline, oldest first. cause: the first bad
    candidate that a search found for it.
    """

    snapshot: str
    window: int | None
    kernel: str
    verdict: str
    reason: str = ""
    ratio: float | None = None
    time_ns: float | None = None
    baseline_ns: float | None = None
    source: str = ""
    replays: int = 0
    alert: bool = False
    quarantined: str = ""
    team: str = ""
    link: str = ""
    wall_s: float = 0.0
    device: str = ""
    driver_version: int = 0
    outputs: str = ""
    course: list[CheckedPoint] = field(default_factory=list)
    cause: str = ""


@dataclass(frozen=True)
class Check:
    """All cases. command: the words that were typed after `replay`."""

    format: str
    tool_version: str
    created_utc: str
    corpus: str
    baseline: str
    cases: list[CheckedCase]
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    command: list[str] = field(default_factory=list)

    @property
    def alerts(self) -> list[CheckedCase]:
        """What fails the gate."""
        return [case for case in self.cases if case.alert]
