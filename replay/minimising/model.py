"""What `replay minimise` did, as it prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class PassDone:
    """One pass. name: as docs/minimise.md has it. tried: how many smaller snapshots it looked at; kept: how many of
    them showed the symptom. bytes: of the file after it."""

    name: str
    tried: int
    kept: int
    bytes: int


@dataclass(frozen=True)
class Minimisation:
    """A snapshot that was made smaller. path: of the new file. original_bytes: size of what it was made of. symptom:
    as it was asked for; what: as it was seen. passes: what was tried, in order. looks, shown: at the new file in the
    end. votes: looks after which a candidate was given up. replays: in all, of earlier commands that were
    interrupted, too. finished: whether all passes came to their end; reason: why not. calls, ranges: in the window
    and in memory, before and after. notes: what could not be used."""

    path: Path
    symptom: str
    what: str
    original_bytes: int
    file_bytes: int
    looks: int
    shown: int
    votes: int
    replays: int
    wall_s: float
    finished: bool
    reason: str
    calls: tuple[int, int]
    ranges: tuple[int, int]
    passes: list[PassDone] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
