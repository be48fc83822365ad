"""A folder of result files, and an index of it that can always be made again.

The files are the truth: they are only added, never changed. The index (`index.py`) holds what lists and plots need, so
that millions of results can be looked at without reading them; it is brought up to date by name, size and time of each
file. Bringing it up to date may be interrupted: what was read until then is kept.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from replay.beside import require_place
from replay.errors import FileError, ReplayError, UsageError
from replay.harmless import escaped
from replay.history.index import index_file
from replay.history.packs import COLUMNS, make_pack, read_table
from replay.results.schema import RunResult
from replay.results.store import read_fields, result_data, write_whole
from replay.timing.statistics import quantile

INDEX_VERSION = 5
MAXIMUM_RESULTS = 20_000_000
PACK_ENDING = ".rpack"
_BATCH = 10_000  # results that are committed at once
_MOST_TEXT = 1000  # of where kernels were launched
_LARGEST = 1 << 63  # an integer of SQLite
_COLUMNS = (
    "path", "size_bytes", "modified_ns", "created_utc", "kernel", "snapshot", "window", "device", "driver",
    "driver_version", "source", "variant", "median_ns", "samples", "outputs", "launched_from", "problem",
)  # fmt: skip
_FACTS = len(_COLUMNS) - 4  # without what the folder says, and `problem`

# Kernels, snapshot, window, device, source and variant: what results must have in common to be compared over time
SeriesKey = tuple[str, str, int, str, str, str]


@dataclass(frozen=True)
class Entry:
    """One result as the index has it. path: relative to the folder. snapshot: identity. window: 0 for the only one.
    source: measured or modelled. median_ns: of the cold GPU times, else of host times; None when it was not timed.
    launched_from: where the kernels were launched, in words; "": not known."""

    path: str
    created_utc: str
    kernel: str
    snapshot: str
    window: int
    device: str
    driver: str
    driver_version: int
    source: str
    variant: str
    median_ns: float | None
    samples: int
    outputs: str
    launched_from: str = ""

    @property
    def series(self) -> SeriesKey:
        """What results must have in common to be compared over time."""
        return self.kernel, self.snapshot, self.window, self.device, self.source, self.variant


def series_of(result: RunResult) -> SeriesKey | None:
    """Of a result that has times."""
    if result.timing is None:
        return None
    variant = result.variant.text if result.variant is not None else ""
    return (
        ", ".join(result.window.kernels), result.snapshot.identity, result.snapshot.window or 0, result.device.name,
        result.timing.source, variant,
    )  # fmt: skip


def require_room(folder: Path) -> None:
    """Raise FileError if no result can be added to a folder, which `append` may have to make."""
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    try:
        require_place(there / "result.rres")
    except FileError as error:
        raise FileError(error.what, where=folder, next=error.next) from None


def append(folder: Path, result: RunResult, write: Callable[[Path, bytes], None] = write_whole) -> Path:
    """Add a result under a name of its own, sorted by time. write: puts a file there as a whole. Raises FileError."""
    folder.mkdir(parents=True, exist_ok=True)
    when = re.sub(r"[^0-9]", "", result.created_utc)[:14] or "0"
    path = folder / f"{when}-{result.snapshot.identity[:8]}-{secrets.token_hex(4)}.rres"
    write(path, result_data(result))
    return path


# From one name to the next by the index: SELECT DISTINCT looks at every result.
_KERNELS = """WITH RECURSIVE names(kernel) AS (
    SELECT min(kernel) FROM results
    UNION ALL SELECT (SELECT min(kernel) FROM results WHERE kernel > names.kernel) FROM names WHERE names.kernel NOTNULL
) SELECT kernel FROM names WHERE kernel NOTNULL"""
_OF_KERNEL = f"SELECT {', '.join(Entry.__dataclass_fields__)} FROM results WHERE problem = '' AND kernel = ?"


class History:
    """The index of a folder. A context manager. Raises UsageError when there is no such folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(
                "is no folder of results", where=folder, next="`replay run SNAP --history DIR` makes one"
            )
        self.folder = folder
        self.problems: list[tuple[str, str]] = []  # files that are no results, and why
        try:
            self._database = self._open(str(index_file(folder)))
        except (sqlite3.Error, OSError, RuntimeError):
            self._database = self._open(":memory:")  # no place for it, or a damaged index

    def __enter__(self) -> History:
        return self

    def __exit__(self, *ending: object) -> None:
        self._database.close()

    def _open(self, name: str) -> sqlite3.Connection:
        database = sqlite3.connect(name, timeout=30)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != INDEX_VERSION:
                for name in ("results", "packs", "packed"):
                    database.execute(f"DROP TABLE IF EXISTS {name}")
                database.execute(
                    "CREATE TABLE packs (path PRIMARY KEY, size_bytes, modified_ns, results, problem)"
                )
                # Of each series in a pack one row: its facts, as `packs.COLUMNS` has them
                database.execute("CREATE TABLE packed (path, kernel, device, facts)")
                database.execute("CREATE INDEX by_kernel ON packed (kernel)")
                database.execute(f"CREATE TABLE results ({', '.join(_COLUMNS)}, PRIMARY KEY (path))")
                database.execute(
                    "CREATE INDEX IF NOT EXISTS by_series ON results (kernel, device, created_utc)"
                )
                database.execute(
                    "CREATE INDEX IF NOT EXISTS by_problem ON results (path, problem) WHERE problem != ''"
                )
                database.execute(f"PRAGMA user_version = {INDEX_VERSION}")
                database.commit()
            else:
                database.execute("SELECT path FROM results LIMIT 1").fetchone()
        except sqlite3.Error:
            database.close()
            raise
        return database

    def update(self) -> int:
        """Read what is new or changed, forget what is gone. Returns how many results were read."""
        (last,) = self._database.execute("SELECT coalesce(max(rowid), 0) FROM results").fetchone()
        gone = bytearray(b"\1") * (last + 1)  # for each row whether its file is not there
        known = "SELECT rowid, size_bytes, modified_ns FROM results WHERE path = ?"
        insert = f"INSERT OR REPLACE INTO results VALUES ({', '.join('?' * len(_COLUMNS))})"
        read = 0
        packs: dict[str, os.stat_result] = {}
        files = _results_in(self.folder)
        while batch := list(itertools.islice(files, _BATCH)):
            rows = []
            for path, status in batch:
                if path.endswith(PACK_ENDING):
                    packs[path] = status
                    continue
                found = self._database.execute(known, (path,)).fetchone() if last else None
                row, size_bytes, modified_ns = found or (0, -1, 0)
                if (size_bytes, modified_ns) != (status.st_size, status.st_mtime_ns):
                    rows.append(_row(self.folder, path, status))
                gone[row] = 0
            with self._database:
                self._database.executemany(insert, rows)
            read += len(rows)
        gone[0] = 0
        with self._database:
            self._database.executemany(
                "DELETE FROM results WHERE rowid = ?", ((row.start(),) for row in re.finditer(b"\1", gone))
            )
        read += self._update_packs(packs)
        self.problems = [
            problem
            for table in ("results", "packs")
            for problem in self._database.execute(
                f"SELECT path, problem FROM {table} WHERE problem != '' ORDER BY path"
            )
        ]
        return read

    def _update_packs(self, packs: dict[str, os.stat_result]) -> int:
        """Each is read by itself, so that what an interruption leaves is whole packs."""
        database, read = self._database, 0
        known = {
            path: facts
            for path, *facts in database.execute("SELECT path, size_bytes, modified_ns FROM packs")
        }
        now = {path: [status.st_size, status.st_mtime_ns] for path, status in packs.items()}
        for path in [path for path, facts in known.items() if now.get(path) != facts]:
            with database:
                database.execute("DELETE FROM packed WHERE path = ?", (path,))
                database.execute("DELETE FROM packs WHERE path = ?", (path,))
        for path in [path for path, facts in now.items() if known.get(path) != facts]:
            rows, count, problem = [], 0, ""
            try:
                for item in read_table(self.folder / path):
                    count += len(item["name"])
                    texts = escaped(item["kernel"]), escaped(item["device"])
                    rows.append((path, *texts, msgpack.packb(item)))
            except ReplayError as error:
                rows, count, problem = [], 0, error.what
            with database:
                database.executemany("INSERT INTO packed VALUES (?, ?, ?, ?)", rows)
                database.execute(
                    "INSERT INTO packs VALUES (?, ?, ?, ?, ?)", (path, *now[path], count, problem)
                )
            read += count
        return read

    def pack(self) -> tuple[int, int]:
        """Put the results that are files of their own into packs (`packs.py`), after `update`. Returns how many results
        are in how many new packs. Raises FileError."""
        query = "SELECT path FROM results WHERE problem = '' ORDER BY path"
        names = [path for (path,) in self._database.execute(query)]
        packed = made = 0
        while names and (done := make_pack(self.folder, names, _facts)):
            inside = {*done[1]}
            names = [name for name in names[names.index(done[1][-1]) + 1 :] if name not in inside]
            packed, made = packed + len(inside), made + 1
        return packed, made

    def packs(self) -> list[Path]:
        """The packs of the folder, after `update`."""
        query = "SELECT path FROM packs WHERE problem = '' ORDER BY path"
        return [self.folder / path for (path,) in self._database.execute(query)]

    def entries(self, kernel: str = "", device: str = "") -> list[Entry]:
        """Results in the order of their time. kernel, device: regular expressions that are searched for."""
        try:
            kernels, devices = re.compile(kernel), re.compile(device)
        except re.error as error:
            raise UsageError(f"is no regular expression ({error})", where=kernel or device) from None
        everywhere = itertools.chain(
            self._database.execute(_KERNELS), self._database.execute("SELECT DISTINCT kernel FROM packed")
        )
        found: list[Entry] = []
        for name in {
            name for (name,) in everywhere if kernels.search(name)
        }:  # of many results a kernel has a few
            of_kernel = [Entry(*row) for row in self._database.execute(_OF_KERNEL, (name,))]
            of_kernel += self._packed(name, {entry.path for entry in of_kernel})
            found += of_kernel
        found = [entry for entry in found if devices.search(entry.device)]
        return sorted(found, key=lambda entry: (entry.created_utc, entry.path))

    def _packed(self, kernel: str, known: set[str]) -> Iterator[Entry]:
        """Of a kernel what is in packs. known: results that count once, as packing may have been cut short."""
        query = "SELECT path, facts FROM packed WHERE kernel = ? ORDER BY path"
        for path, facts in self._database.execute(query, (kernel,)).fetchall():
            item = msgpack.unpackb(facts)
            snapshot, device, source, variant = (
                escaped(item[name]) for name in ("snapshot", "device", "source", "variant")
            )
            launched_from = escaped(item.get("launched_from", ""))[:_MOST_TEXT]
            texts = {text: escaped(text) for name in ("driver", "outputs") for text in {*item[name]}}
            for name, created, driver, version, median, samples, outputs, *_ in zip(
                *(item[column] for column in COLUMNS), strict=True
            ):
                if name not in known:
                    known.add(name)
                    yield Entry(
                        f"{path}/{name}", escaped(created), kernel, snapshot, item["window"], device, texts[driver],
                        version, source, variant, median, samples, texts[outputs], launched_from,
                    )  # fmt: skip


def by_series(entries: list[Entry]) -> dict[SeriesKey, list[Entry]]:
    """Entries that can be compared over time: only those with times."""
    found: dict[SeriesKey, list[Entry]] = {}
    for entry in entries:
        if entry.median_ns:
            found.setdefault(entry.series, []).append(entry)
    return found


def _results_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Result files and packs, those in folders inside as well; links are not followed."""
    count = 0
    prefix = len(os.path.join(folder, ""))
    waiting = [os.fspath(folder)]
    while waiting:
        folders = []
        with contextlib.suppress(FileNotFoundError, PermissionError), os.scandir(waiting.pop()) as found:
            for entry in found:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith((".rres", PACK_ENDING)):
                    count += 1
                    if count > MAXIMUM_RESULTS:
                        raise FileError(f"more than {MAXIMUM_RESULTS:,} results", where=folder)
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.path[prefix:], entry.stat(follow_symlinks=False)
        waiting += sorted(folders, reverse=True)


def _row(folder: Path, path: str, status: os.stat_result) -> tuple[Any, ...]:
    try:
        facts = _facts(read_fields(os.path.join(folder, path)))
        problem = ""
    except ReplayError as error:
        facts, problem = (None,) * _FACTS, error.what
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        facts, problem = (None,) * _FACTS, "is no result of a replay"
    return (path, status.st_size, status.st_mtime_ns, *facts, problem)


def _facts(value: dict[str, Any]) -> tuple[Any, ...]:
    """The columns from `created_utc` to `launched_from`, of the map of a result with its texts as they were written."""
    timing = value.get("timing")  # what is not known is not in the file
    times = [] if timing is None else timing["gpu_time_ns"] or timing["host_time_ns"]
    if times and not (set(map(type, times)) <= {int, float} and 0 <= min(times) <= max(times) < _LARGEST):
        raise ValueError("times")
    variant = value.get("variant") or {}
    return (
        _text(value["created_utc"])[:40],
        ", ".join(map(_text, value["window"]["kernels"])),
        _text(value["snapshot"]["identity"]),
        _integer(value["snapshot"].get("window") or 0),
        _text(value["device"]["name"]),
        _text(value["driver"]["choice"]),
        _integer(value["driver"]["version"]),
        "" if timing is None else _text(timing["source"]),
        _text(variant.get("text", "")),
        quantile(sorted(times), 0.5) if times else None,
        len(times),
        _text(value["verification"]["verdict"]),
        _launched_from(value.get("kernels") or []),
    )


def _launched_from(kernels: list[dict[str, Any]]) -> str:
    """Of a window of one kernel the place; of several each with its kernel."""
    known = [(kernel["name"], _text(place)) for kernel in kernels if (place := kernel.get("launched_from"))]
    texts = [place if len(kernels) == 1 else f"{_text(name)} from {place}" for name, place in known]
    return "; ".join(texts)[:_MOST_TEXT]


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return escaped(value)


def _integer(value: int) -> int:
    if not (isinstance(value, int) and -_LARGEST <= value < _LARGEST):
        raise ValueError("integer")
    return value
