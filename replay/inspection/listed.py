"""What `replay info`, `ls`, `verify` and `extract` print with --json. Fields are only added."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from replay.inspection.requirements import Requirements
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.container import VerifyReport
from replay.snapshot.contents import SnapshotInfo


@dataclass(frozen=True)
class InfoPrinted(SnapshotInfo):
    """What is in a snapshot. requirements: what it asks of a device and a driver, as far as a glance shows; null for a
    damaged file, for several windows without --window, and with -q."""

    requirements: Requirements | None = None


@dataclass(frozen=True)
class VerifyPrinted:
    """Whether a snapshot is whole. good: every checksum holds, and nothing is missing. missing: memory and images whose
    contents are damaged or not in the file. elsewhere: what is wrong with contents that are in a store or in weights,
    null where these were not looked at (no --store, no --weights)."""

    good: bool
    path: str
    report: VerifyReport
    missing: list[str]
    elsewhere: list[str] | None = None


@dataclass(frozen=True)
class ExtractPrinted:
    """A window as a file of its own. path: of that file. window: the number it had."""

    path: Path
    window: int
    file_bytes: int


@dataclass(frozen=True)
class ListedCall(schema.Call):
    """A driver call in a list. kernel: what it launches, mangled, "" for other calls. image: digest of its module's
    image. origin: the Python frames that a launch came from, the innermost first,
    and the NVTX ranges around it, likewise; empty: not known. window: number of
    the one that it is from, null in a snapshot with one."""

    kernel: str = ""
    image: str = ""
    origin: list[schema.Frame] = field(default_factory=list)
    window: int | None = None


@dataclass(frozen=True)
class ListedKernel(schema.Kernel):
    """A kernel in a list. window: number of the one that launches it, null in a snapshot with one."""

    window: int | None = None


@dataclass(frozen=True)
class ListedRange(schema.Range):
    """An allocation in a list. window: number of the one that touched it, null in a snapshot with one."""

    window: int | None = None


@dataclass(frozen=True)
class ListedImage(schema.Image):
    """A module image in a list. holds: targets and number of kernels, or why it cannot be read. window: number of the
    one that needs it, null in a snapshot with one. compilation: how a compiler made it, null where it was not kept."""

    holds: str = ""
    window: int | None = None
    compilation: schema.Compilation | None = None


@dataclass(frozen=True)
class ListedNote(schema.Note):
    """A note in a list. window: number of the one it is about, null in a snapshot with one."""

    window: int | None = None
