"""What `replay capture`, `capture --list` and `pack` print with --json. Fields are only added."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from replay.pack.report import PackedSnapshot
from replay.records import dataclass
from replay.snapshot.schema import Frame
from replay.store.taking import Taken


@dataclass(frozen=True)
class ApplicationEnd:
    """How the application ended. exit_status: its own, or minus the signal that killed it."""

    pid: int
    exit_status: int


@dataclass(frozen=True)
class ChosenDriver:
    """The driver that the application got. name: "system", "emulator", or the folder that was named. library: its
    file. emulated: it is the built-in CPU driver, whose times are modelled."""

    name: str
    library: Path
    emulated: bool


@dataclass(frozen=True)
class CapturePrinted:
    """What became of a capture. selection: as it was asked for. raw: the raw capture, null when it was not kept.
    failure: why there is no snapshot, "" when there is one. advice: what to do about that. processes_without_window:
    a line for each process that left none. problems: what went wrong, a line each. elsewhere: what was put into a
    store or found in weights, null where that was not asked for."""

    application: ApplicationEnd
    driver: ChosenDriver
    selection: str
    snapshots: list[PackedSnapshot]
    raw: Path | None
    failure: str
    advice: str
    processes_without_window: list[str]
    problems: list[str]
    elsewhere: Taken | None = None


@dataclass(frozen=True)
class LaunchesRow:
    """Launches of one kernel with one geometry, from one place. kernel: mangled. first: number of the first of them
    among all launches of the kernel, from 1, as --launch takes it. grid, block: of these launches, x, y, z.
    shared_bytes: dynamic. timed: how many were timed. mean_ns, shortest_ns, longest_ns: GPU time of those, null when
    none was timed. command: what captures the first one. origin: its place in the origins of the process, from 0; null:
    not known, or not asked for."""

    kernel: str
    demangled: str
    launches: int
    first: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    timed: int
    mean_ns: float | None
    shortest_ns: int | None
    longest_ns: int | None
    command: str
    origin: int | None = None


@dataclass(frozen=True)
class LaunchesOfProcess:
    """What one process launched. launches_in_graphs: of all, those by launches of graphs, not timed one by one.
    launches_unlisted: those that the list had no room for. rows: longest total time first. origins: from where rows
    were launched: Python frames, the innermost first, then NVTX ranges; longest total time first."""

    pid: int
    launches: int
    launches_in_graphs: int
    launches_unlisted: int
    rows: list[LaunchesRow]
    origins: list[list[Frame]] = field(default_factory=list)


@dataclass(frozen=True)
class LaunchesPrinted:
    """The launches of an application. times_are_modelled: they are of the CPU driver, and no measurement. failure: why
    there are none, "" when there are. advice: what to do about that. problems: lists that could not be read."""

    application: ApplicationEnd
    driver: ChosenDriver
    times_are_modelled: bool
    processes: list[LaunchesOfProcess]
    failure: str
    advice: str
    problems: list[str]


@dataclass(frozen=True)
class PackPrinted:
    """Snapshots of a raw capture. processes_without_window: a line for each process that left none. problems: what
    went wrong, a line each. elsewhere: what was put into a store or found in weights, null where that was not asked
    for."""

    snapshots: list[PackedSnapshot]
    processes_without_window: list[str]
    problems: list[str]
    elsewhere: Taken | None = None
