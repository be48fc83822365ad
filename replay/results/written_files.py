"""JSON about files and beside them: `replay report`, `dump`, `run --save-outputs`, the CPU driver.

Fields are only added.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from replay.records import dataclass
from replay.results.run.timing import AccessCounters


@dataclass(frozen=True)
class DumpedParameter:
    """One parameter of a launch. offset, size: in bytes, in the parameter buffer. bytes: in hex. points_to: which
    memory, null when it is no address of any."""

    offset: int
    size: int
    bytes: str
    points_to: str | None


@dataclass(frozen=True)
class DumpedLaunch:
    """A launch of a window. call: its number. kernel: mangled, "" when no recorded call names it. image: digest of its
    module's image. grid, block: x, y, z. shared_bytes: dynamic. parameters: null when they were not captured."""

    call: int
    kernel: str
    image: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: list[DumpedParameter] | None


@dataclass(frozen=True)
class EmulatorCounters:
    """What the built-in CPU driver counted in one launch. process: its id. launch: number in the process, from 0.
    kernel: mangled. grid, block: x, y, z. dynamic_shared_bytes: of a block. ok: it ended well; otherwise counters is
    empty. counters: names as in docs/cpu-driver.md. parts_ns: what the time is made of. accesses: the dearest first;
    of the first 4,096 launches of a process."""

    process: int
    launch: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    ok: bool
    modelled_ns: int
    counters: dict[str, int]
    parts_ns: dict[str, float]
    accesses: list[AccessCounters]


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written. kind: page or trace."""

    path: Path
    kind: Literal["page", "trace"]
    size_bytes: int


@dataclass(frozen=True)
class ReportPrinted:
    """What a report was made into. markdown: with --markdown, the text; otherwise empty."""

    files: list[WrittenFile]
    markdown: str = ""


@dataclass(frozen=True)
class SavedFile:
    """A file with outputs. side: expected or actual. dtype, source, origin: of an array of a known type, as in the
    `elements` of a result; offset_bytes: where it begins in the buffer. All four are null for raw bytes."""

    file: str
    side: str
    dtype: str | None = None
    source: str | None = None
    origin: str | None = None
    offset_bytes: int | None = None


@dataclass(frozen=True)
class SavedBuffer:
    """A buffer whose outputs were saved. address: captured, in hex. host: it is memory of the host that a call wrote.
    files: in the folder."""

    label: str
    address: str
    size_bytes: int
    differing_bytes: int
    host: bool
    files: list[SavedFile]


@dataclass(frozen=True)
class OutputsManifest:
    """The files of --save-outputs. skipped: what was left out, and why."""

    buffers: list[SavedBuffer]
    skipped: list[str]
