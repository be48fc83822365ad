"""The launches that an application made, by kernel, geometry and, where asked for, origin, as `replay capture --list`
shows them.

The interposer counts into `launches.<pid>.bin` (FORMAT.md); nothing else of the application is read. Numbers in that
file come from another process that may have been killed at any moment, so each is checked before it is used.
"""

from __future__ import annotations

import re
import shlex
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from replay.capture.launcher import Ended, make_raw_folder, run_application
from replay.capture.selection import Selection
from replay.capture.session import default_output, explain_absence
from replay.drivers import Driver
from replay.errors import FormatError, ReplayError
from replay.images.demangle import demangle
from replay.pack import PackReport, loaded_driver
from replay.pack.origins import KeptOrigins, stacks_of
from replay.pack.texts import Texts
from replay.reading import read_file
from replay.snapshot.schema import Frame

MAXIMUM_LIST_BYTES = 256 << 20  # of one process
HEADER = struct.Struct("<8sIIIIQQQQ8x")
ROW = struct.Struct("<QQQQQQ3I3IIIII36xI")
MAGIC = b"RCAPLIST"
VERSION = 1
FILE_BYTES = 2 << 20
_NO_TIME = (1 << 64) - 1


@dataclass(frozen=True)
class ListedLaunch:
    """Launches of one kernel with one geometry, from one place.

    first: number of the first of them among all launches of kernels of this name, from 1: what `--launch` takes.
    timed: how many of them were timed by events; mean_ns, shortest_ns, longest_ns: GPU time of these, in ns, None
    when none was timed. origin: Python frames, the innermost first, then NVTX ranges; empty: not known, or not asked
    for.
    """

    name: str
    launches: int
    first: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    timed: int
    mean_ns: float | None
    shortest_ns: int | None
    longest_ns: int | None
    origin: tuple[Frame, ...] = ()

    @property
    def demangled(self) -> str:
        """The name as people write it."""
        return demangle(self.name)

    @property
    def total_ns(self) -> float | None:
        """An estimate: the mean of those that were timed, times the number of launches."""
        return None if self.mean_ns is None else self.mean_ns * self.launches


@dataclass
class LaunchList:
    """What one process launched. Longest total time first, then most launches.

    unlisted: launches for which the list had no room. in_graphs: of all, those by launches of graphs, which are not
    timed one by one.
    """

    pid: int
    launches: int
    unlisted: int
    in_graphs: int
    rows: list[ListedLaunch]

    @property
    def places(self) -> list[Place]:
        """Where they came from, longest total time first, then most launches; what is not known last."""
        found: dict[tuple[Frame, ...], Place] = {}
        for row in self.rows:
            place = found.setdefault(row.origin, Place(row.origin))
            place.launches += row.launches
            if row.total_ns is not None:
                place.total_ns = (place.total_ns or 0) + row.total_ns
        return sorted(
            found.values(), key=lambda place: (not place.origin, -(place.total_ns or 0), -place.launches)
        )


@dataclass
class Place:
    """Where launches came from. total_ns: an estimate, of those whose rows were timed; None: of none."""

    origin: tuple[Frame, ...]
    launches: int = 0
    total_ns: float | None = None


@dataclass
class ListReport:
    """What became of `replay capture --list`.

    driver_option: the driver as it was asked for, "" when it was not. problems: lists that could not be read, and why
    places are not known.
    """

    application: Ended
    driver: Driver
    command: list[str]
    selection: Selection
    driver_option: str = ""
    processes: list[LaunchList] = field(default_factory=list)
    failure: str = ""
    advice: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The application's own when it failed; 3 when it launched nothing; else 0."""
        return self.application.exit_code or (3 if self.failure else 0)

    def capture_command(self, row: ListedLaunch) -> str:
        """The command line that captures the first launch of a row."""
        pattern = re.sub(r"([][.*^$+?(){}|\\])", r"\\\1", row.name)
        words = ["replay", "capture", *self.selection.bounds(), "--kernel", f"^{pattern}$"]
        words += ["--source", self.selection.source] if self.selection.source else []
        words += ["--launch", str(row.first), *self.selection.stacks()]
        if self.driver_option:
            words += ["--driver", self.driver_option]
        return shlex.join([*words, "--", *self.command])


def list_launches(
    command: Sequence[str], selection: Selection, driver: Driver, driver_option: str = ""
) -> ListReport:
    """Run `command` and list what it launches.

    Raises CaptureError when it cannot be started, FileError when the current folder cannot be written.
    """
    raw = make_raw_folder(default_output(command))
    try:
        ended = run_application(command, replace(selection, listing=True), driver, raw)
        report = ListReport(ended, driver, list(command), selection, driver_option)
        paths = sorted(raw.glob("launches.*.bin"))
        for path in paths:
            try:
                origins = _origins(path, report.problems) if selection.keeps_origins else None
                found = read_launches(read_file(path, MAXIMUM_LIST_BYTES), origins)
            except (OSError, ReplayError) as error:
                report.problems.append(f"{path.name}: {error}")
                continue
            if found.launches:
                report.processes.append(found)
        report.processes.sort(key=lambda process: (process.pid != ended.pid, process.pid))
        if not report.processes:
            seen = PackReport(
                used_cuda=bool(paths), loaded_driver=loaded_driver(raw), problems=report.problems
            )
            report.failure, report.advice = explain_absence(
                seen, str(selection), command, ended.running, failed=ended.status != 0
            )
            if paths and not report.problems:
                report.failure, report.advice = "it used CUDA and launched no kernel", "nothing to capture"
                if selection.kernel or selection.source:
                    report.failure = f"no launch matched {selection}"
                    report.advice = "leave out --kernel and --source to see all"
        return report
    finally:
        shutil.rmtree(raw, ignore_errors=True)


def _origins(path: Path, problems: list[str]) -> KeptOrigins:
    """Of the process that this list is of. Raises FormatError, OSError."""
    stacks, reasons = stacks_of(path.with_name(path.name.replace("launches.", "calls.", 1)))
    problems += reasons
    return KeptOrigins(stacks, Texts(keep=False))


def read_launches(data: bytes, origins: KeptOrigins | None = None) -> LaunchList:
    """The list in the bytes of a `launches.<pid>.bin`. origins: of the same process, None: not asked for.

    Raises FormatError when they are none."""
    if not data.strip(b"\0"):
        return LaunchList(0, 0, 0, 0, [])  # killed before the header was written
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise FormatError("not a list of launches")
    _, version, pid, row_bytes, capacity, names_offset, launches, unlisted, in_graphs = HEADER.unpack_from(
        data
    )
    if version != VERSION:
        raise FormatError(f"list of launches of version {version}, and this replay reads {VERSION}")
    if row_bytes != ROW.size or HEADER.size + capacity * row_bytes > names_offset or names_offset > len(data):
        raise FormatError("a list of launches whose parts overlap")
    merged: dict[object, ListedLaunch] = {}
    known: dict[int, tuple[Frame, ...]] = {}
    for place in range(capacity):
        row, stack = _row(data, HEADER.size + place * row_bytes, names_offset)
        if row is None:
            break
        if row.launches:
            if origins is not None and stack not in known:
                known[stack] = tuple(origins.frames(stack))
            row = replace(row, origin=known.get(stack, ()))
            key = (row.name, row.grid, row.block, row.shared_bytes, row.origin)
            merged[key] = _together(merged[key], row) if key in merged else row
    rows = sorted(merged.values(), key=lambda row: (-(row.total_ns or 0), -row.launches, row.name, row.first))
    return LaunchList(pid, launches, unlisted, in_graphs, rows)


def _together(one: ListedLaunch, other: ListedLaunch) -> ListedLaunch:
    """Kernels of equal name and geometry out of several modules: a regular expression cannot tell them apart."""
    timed = one.timed + other.timed
    total = (one.mean_ns or 0) * one.timed + (other.mean_ns or 0) * other.timed
    shortest = [value for value in (one.shortest_ns, other.shortest_ns) if value is not None]
    longest = [value for value in (one.longest_ns, other.longest_ns) if value is not None]
    return replace(
        one,
        launches=one.launches + other.launches,
        first=min(one.first, other.first),
        timed=timed,
        mean_ns=total / timed if timed else None,
        shortest_ns=min(shortest, default=None),
        longest_ns=max(longest, default=None),
    )


def _row(data: bytes, offset: int, names_offset: int) -> tuple[ListedLaunch | None, int]:
    """A row, None where the list ends, and the number of its stack."""
    count, timed, total, shortest, longest, first, *rest, shared, name_at, _, stack, whole = ROW.unpack_from(
        data, offset
    )
    if whole != 1:
        return None, 0
    if names_offset + name_at > len(data):
        raise FormatError("a name outside its list of launches")
    end = data.find(b"\0", names_offset + name_at)
    name = data[names_offset + name_at : end if end >= 0 else len(data)].decode("utf-8", "replace")
    has_time = timed > 0 and shortest != _NO_TIME
    row = ListedLaunch(
        name=name,
        launches=count,
        first=first,
        grid=(rest[0], rest[1], rest[2]),
        block=(rest[3], rest[4], rest[5]),
        shared_bytes=shared,
        timed=timed if has_time else 0,
        mean_ns=total / timed if has_time else None,
        shortest_ns=shortest if has_time else None,
        longest_ns=longest if has_time else None,
    )
    return row, stack


__all__ = ["LaunchList", "ListReport", "ListedLaunch", "Place", "list_launches", "read_launches"]
