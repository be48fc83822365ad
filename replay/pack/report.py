"""What became of a raw capture."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from replay.records import dataclass
from replay.snapshot import schema
from replay.store.taking import Taken


@dataclass(frozen=True)
class PackedSnapshot:
    """One snapshot that was written. summary: of all its windows together. windows: one, or several. rank: of the
    process in a distributed program, "" if it has none."""

    path: Path
    pid: int
    file_bytes: int
    summary: schema.Summary
    windows: list[schema.Window]
    rank: str = ""


@dataclass
class PackReport:
    """What became of a raw capture.

    skipped: one line for each process without a snapshot. problems: what went wrong, one line each.
    matched_launches: launches that the selection matched, in all processes. kernels_seen: the first kernels that were
    looked up by name. used_cuda: some process called the driver. loaded_driver: some process loaded it. init_failure:
    what cuInit answered where it never succeeded in any process, 0 where it did or was not called. elsewhere: what was
    put into a store or found in weights, None where that was not asked for.
    """

    snapshots: list[PackedSnapshot] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    matched_launches: int = 0
    kernels_seen: list[str] = field(default_factory=list)
    used_cuda: bool = False
    loaded_driver: bool = False
    init_failure: int = 0
    calls: int = 0
    elsewhere: Taken | None = None
