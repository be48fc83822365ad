"""What `replay run --dry-run` finds: `replay.run.preflight/1` with a `schema` in front. docs/run.md describes it."""

from __future__ import annotations

from typing import Literal

from replay.records import dataclass
from replay.results.run.origin import DriverFacts, SnapshotFacts


@dataclass(frozen=True)
class Finding:
    """One thing that a snapshot needs, and what there is. state: ok, lacking (it cannot be replayed here), differs
    (it can, but not as in the application), unknown. text: the lack in words; advice: what to do about it."""

    item: str
    needs: str
    here: str
    state: Literal["ok", "lacking", "differs", "unknown"]
    text: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Preflight:
    """`replay run --dry-run`: whether a snapshot can be replayed on a driver and device, item by item."""

    snapshot: SnapshotFacts
    driver: DriverFacts
    device: str
    device_ordinal: int
    findings: list[Finding]
    can_run: bool  # nothing is lacking
