"""What one look at a snapshot found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from replay.minimising.candidates.writing import Outputs


@dataclass(frozen=True)
class Sighting:
    """shown: whether the symptom was there. what: it, or what was there instead, for people. key: what must be equal
    where it is the same symptom. change: its size, with its sign, where it has one; at least half of it must stay.
    place: captured address and bytes of where it is seen, call: number of the launch that is at fault, where these are
    known. could_not: no replay came so far."""

    shown: bool
    what: str
    key: list[str] = field(default_factory=list)
    change: float = 0.0
    place: tuple[int, int] | None = None
    call: int | None = None
    could_not: bool = False

    def why_not(self, now: Sighting) -> str:
        """Why another one is not the same; "" where it is."""
        if not now.shown:
            return now.what
        if self.key != now.key:
            return f"another symptom: {now.what}"
        if self.change and (now.change * self.change < 0 or abs(now.change) < abs(self.change) / 2):
            return f"less than half of it: {now.what}"
        return ""


@dataclass
class Candidate:
    """A snapshot that is looked at. remake: writes it again with the outputs that a replay left. folder: for files of
    a look, private and empty."""

    path: Path
    folder: Path
    remake: Callable[[Outputs], None]
    window: int | None = None


class Counted(Protocol):
    """What says how many replays it made."""

    replays: int


class Symptom(ABC):
    """name: as it was asked for. noisy: it may come and go by its nature. compares: outputs belong to it. others:
    replays, or runs of a command, that none of the sides made."""

    name: str
    noisy = False
    compares = True
    others = 0

    def __init__(self, name: str, *sides: Counted) -> None:
        self.name, self._sides = name, sides

    @property
    def replays(self) -> int:
        """How many there were."""
        return self.others + sum(side.replays for side in self._sides)

    @abstractmethod
    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """One look. first: what was seen at the start. May remake the candidate. Raises what no replay can cure."""
