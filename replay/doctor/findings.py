"""What was found about a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Level(str, Enum):
    """OK; NOTE: worth knowing; PROBLEM: something will not work, or will give figures that mislead."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One fact. area: as the table shows it. cure: what to do about a problem."""

    area: str
    level: Level
    text: str
    cure: str = ""


def ok(area: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(area, Level.OK, text)


def note(area: str, text: str, cure: str = "") -> Finding:
    """Worth knowing."""
    return Finding(area, Level.NOTE, text, cure)


def problem(area: str, text: str, cure: str = "") -> Finding:
    """Needs the cure."""
    return Finding(area, Level.PROBLEM, text, cure)


@dataclass(frozen=True)
class Examination:
    """All findings, in the order in which a reader needs them."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """How many need a cure."""
        return sum(finding.level is Level.PROBLEM for finding in self.findings)
