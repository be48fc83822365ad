"""The folder of one night, which everybody who works on it shares.

Whatever is there was put there whole, by rename, and is never changed: so two coordinators, a copy of it, or a
machine that stops in the middle do no harm. A unit is done when its file is in `units/`. It is being done while
somebody holds its lock, which ends with the holder.

    plan.json, matrix.toml      what is to be done; made once
    units/*/ID.json             what was found; ID.again.json by the second device, if one was wanted
    results/*/ID-SIDE.rres      one replay of each side
    attempts/ID.N.json          the N-th time that somebody began a unit and did not end it
    again/ID.json               that another device should confirm it
    devices/, excluded/         NODE.DEVICE.json of each that worked, and of those whose times do not count
    drained/NODE                nothing is begun there
    canaries/NODE.DEVICE.jsonl  what every device took for the canary
    causes/ID.json              what a search found for a step
    claims, leases/             locks; at a URL objects in their stead
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from replay.beside import PRIVATE, require_file
from replay.compare.verdict import Verdict
from replay.errors import FileError, FormatError, ReplayError, UsageError, VersionError
from replay.fleet.matrix import Matrix, read_matrix
from replay.fleet.sharing.claims import Claims
from replay.fleet.sharing.layout import CHANGING, KEPT, MATRIX, MAXIMUM_BYTES, MAXIMUM_OTHER_BYTES, PLAN
from replay.fleet.sharing.place import Place
from replay.harmless import harmless, is_plain
from replay.privacy import private
from replay.reading import open_regular, parse_json, read_file
from replay.results.fleet import (
    PLAN_FORMAT,
    UNIT_FORMAT,
    FleetAttempt,
    FleetCause,
    FleetDevice,
    FleetMeasured,
    FleetPlan,
    FleetUnit,
)
from replay.results.schema import RunResult
from replay.results.store import result_data
from replay.snapshot.schema import from_wire, to_wire
from replay.text import now_utc

FOLDERS = (*KEPT, *CHANGING)
AGAIN = ".again"
CLOCK_OFF_S = 60.0  # a slow file server is no wrong clock
WORTH_CONFIRMING = frozenset({Verdict.SLOWER.value, Verdict.FASTER.value, Verdict.WRONG.value})
DIED = "its worker ended without a word"
_UNITS, _HEAD_BYTES = b', "units": [', 1 << 16
_UNIT_ID = re.compile(r"[0-9a-f]{16}")
_UNIT_FILE = re.compile(r"([0-9a-f]{16})(\.again)?\.json")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Who:
    """A device of a node."""

    node: str
    device: str

    @property
    def file(self) -> str:
        """The name that its files begin with."""
        return ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", text)[:80] or "_" for text in (self.node, self.device))


@dataclass
class Taken:
    """A unit that this process holds. again: to confirm what another device found. attempt: the file that says so."""

    number: int
    unit: FleetUnit
    again: bool
    attempt: Path


class Night:
    """Raises UsageError where the folder is none. place: where all nights are; None: a folder of this machine."""

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        self.folder = folder
        self.place = Place(folder.parent) if place is None else place
        if not (folder / PLAN).is_file():
            where = private(self.address) if self.place.url else folder
            raise UsageError("is no night of a fleet", where=where, next="`replay fleet run` begins one")
        # What a link leads to would be written into, and `retry` removes all that is in some of them
        if link := next((folder / name for name in FOLDERS if (folder / name).is_symlink()), None):
            raise FileError("is a link, not a folder of the night", where=link, next="remove it")

    @cached_property
    def plan(self) -> FleetPlan:
        """What is to be done."""
        path = self.folder / PLAN
        plan = _read(path, FleetPlan, PLAN_FORMAT, MAXIMUM_BYTES[PLAN])
        seen: set[str] = set()
        for unit in plan.units:  # names of files are made of them
            if not _UNIT_ID.fullmatch(unit.id):
                raise FormatError(f"has a unit {unit.id[:40]!r}, which is no id of one", where=path)
            if unit.id in seen:
                raise FormatError(f"has the unit {unit.id} twice", where=path)
            seen.add(unit.id)
        return plan

    @property
    def created_utc(self) -> str:
        """When it began. Of a plan as this replay writes it only what comes before the units is read."""
        path = self.folder / PLAN
        with open(open_regular(path), "rb") as file:
            head, units, _ = file.read(_HEAD_BYTES).partition(_UNITS)
            if units:
                file.seek(-1, os.SEEK_END)
            is_whole = file.read(1) == b"}"
        try:
            value = parse_json(head + b"}", path) if is_whole else {}
            _require_format(value, PLAN_FORMAT, path)
            began = value["created_utc"]
        except (FormatError, KeyError, TypeError):
            began = None
        return began if isinstance(began, str) else self.plan.created_utc

    @cached_property
    def matrix(self) -> Matrix:
        """As it was when the night began."""
        return read_matrix(self.folder / MATRIX)

    def claims(self) -> Claims:
        """The locks of its units: twice the place in the plan, and one more where it is done again."""
        return self.place.claims(self.folder)

    @property
    def address(self) -> str:
        """What a worker on another node is told."""
        return self.place.address(self.folder)

    def look(self, *, now: bool = False) -> None:
        """See what others did since. Raises FileError."""
        self.place.look(self.folder, now=now)

    def is_done(self, unit: str, again: bool = False) -> bool:
        """At this moment, whoever did it. Raises FileError."""
        return self.place.is_there(self.path_of(unit, again))

    def finished(self) -> dict[str, tuple[bool, bool]]:
        """Unit -> whether it is done, and whether it was confirmed. By names alone."""
        found: dict[str, tuple[bool, bool]] = {}
        for part in _names(self.folder / "units"):
            for name in _names(self.folder / "units" / part):
                if match := _UNIT_FILE.fullmatch(name):
                    done, again = found.get(match[1], (False, False))
                    found[match[1]] = (done or not match[2], again or bool(match[2]))
        return found

    def path_of(self, unit: str, again: bool = False) -> Path:
        """What was found for it."""
        return self._part("units", unit) / f"{unit}{AGAIN if again else ''}.json"

    def _part(self, folder: str, unit: str) -> Path:
        """Who writes a file looks at all of its folder for what others left: so they are kept small."""
        return self.folder / folder / unit[:2]

    def measured(self, unit: str, again: bool = False) -> FleetMeasured:
        """Raises FileError, FormatError, VersionError."""
        path = self.path_of(unit, again)
        found = _read(path, FleetMeasured, UNIT_FORMAT, MAXIMUM_OTHER_BYTES)
        row = found.row
        ratios = (row.ratio, row.low, row.high, found.canary_ratio)
        times = (row.a.time_ns, row.b.time_ns, *(time for one in row.rounds for time in (one.a_ns, one.b_ns)))
        if any(ratio is not None and ratio <= 0 for ratio in ratios):
            raise FormatError("has a ratio of times that no device gives", where=path)
        if any(time is not None and time < 0 for time in times):
            raise FormatError("has a time below zero", where=path)
        if found.unit != unit:
            raise FormatError(f"is of the unit {found.unit[:40]!r}", where=path)
        return found

    def attempts(self, unit: str, again: bool = False) -> list[FleetAttempt]:
        """That did not end it, or are running."""
        found: list[FleetAttempt] = []
        while (path := self._attempt(unit, again, len(found) + 1)).exists():
            try:
                found.append(_read(path, FleetAttempt, "", MAXIMUM_OTHER_BYTES))
            except ReplayError:  # of a disk that was full
                found.append(FleetAttempt(unit, "", "", ""))
        return found

    def attempts_now(self, unit: str, again: bool = False) -> list[FleetAttempt]:
        """At this moment, whoever began it. Raises FileError."""
        self.place.look(self.folder / "attempts", deep=False, now=True)
        return self.attempts(unit, again)

    def _attempt(self, unit: str, again: bool, number: int) -> Path:
        return self.folder / "attempts" / f"{unit}{AGAIN if again else ''}.{number}.json"

    def begun_often(self) -> dict[str, int]:
        """Unit -> attempts, of all that have any and whose first result is wanted."""
        counts: dict[str, int] = {}
        for name in _names(self.folder / "attempts"):
            unit, _, rest = name.partition(".")
            if rest.split(".")[0].isdecimal():
                counts[unit] = counts.get(unit, 0) + 1
        return counts

    def begin(self, number: int, unit: FleetUnit, again: bool, who: Who, at_utc: str) -> Taken:
        """After its lock was taken. Raises FileError."""
        path = self._attempt(unit.id, again, len(self.attempts(unit.id, again)) + 1)
        self._write(path, FleetAttempt(unit.id, who.node, who.device, at_utc))
        return Taken(number, unit, again, path)

    def fail(self, taken: Taken, who: Who, reason: str, at_utc: str) -> None:
        """The attempt did not end it. Raises FileError."""
        self._write(taken.attempt, FleetAttempt(taken.unit.id, who.node, who.device, at_utc, reason))

    def give_back(self, taken: Taken) -> None:
        """As if it had not been begun."""
        self.place.delete(taken.attempt)

    def finish(self, taken: Taken, found: FleetMeasured, results: dict[str, RunResult]) -> None:
        """Put what was found where everybody sees it; its own file last. Raises FileError."""
        name = taken.unit.id + (AGAIN if taken.again else "")
        if self.is_done(taken.unit.id, taken.again):  # only where somebody lost a lease of it without knowing
            self.place.delete(taken.attempt)
            return
        for folder in ("units", "results"):
            part = self._part(folder, taken.unit.id)
            part.mkdir(parents=True, exist_ok=True)
            if part.is_symlink():
                raise FileError("is a link, not a folder of the night", where=part, next="remove it")
        for side, result in results.items():
            path = self._part("results", taken.unit.id) / f"{name}-{side}.rres"
            self.place.write(path, result_data(result), PRIVATE)
        if self.plan.confirm and not taken.again and found.row.verdict in WORTH_CONFIRMING:
            self._write(self.folder / "again" / f"{taken.unit.id}.json",
                        FleetAttempt(taken.unit.id, found.node, found.device, found.created_utc))  # fmt: skip
        # Not in place of another one: between the look above and now somebody else may have come first
        self.place.create(self.path_of(taken.unit.id, taken.again), _data(found))
        self.place.delete(taken.attempt)

    def wanted_again(self) -> Iterator[FleetAttempt]:
        """Of units that another device should confirm, and who found what there is to confirm."""
        self.place.look(self.folder / "again", deep=False)
        for name in _names(self.folder / "again"):
            if not self.path_of(name.removesuffix(".json"), True).exists():
                try:
                    yield _read(self.folder / "again" / name, FleetAttempt, "", MAXIMUM_OTHER_BYTES)
                except ReplayError:
                    continue

    def register(self, who: Who, device: FleetDevice) -> FleetDevice:
        """It works on this night. Returns it, with what its clock is off. Raises FileError."""
        path = self.folder / "devices" / f"{who.file}.json"
        self._write(path, device)
        ahead_s = time.time() - self.place.time_s(path)
        if abs(ahead_s) > CLOCK_OFF_S:
            device = replace(device, clock_s=round(ahead_s, 1))
            self._write(path, device)
        return device

    def exclude(self, who: Who, device: FleetDevice) -> None:
        """Nothing more is measured on it. Raises FileError."""
        self._write(self.folder / "excluded" / f"{who.file}.json", device)

    def is_excluded(self, who: Who) -> bool:
        """Whether its times do not count."""
        return (self.folder / "excluded" / f"{who.file}.json").exists()

    def drain(self, node: str) -> None:
        """Begin nothing on a node any more. Raises FileError."""
        self.place.mark(self.folder / "drained" / Who(node, "").file)

    def is_drained(self, node: str) -> bool:
        """Whether nothing may be begun there."""
        return (self.folder / "drained" / Who(node, "").file).exists()

    def leave_out(self, other: Night) -> None:
        """The devices and nodes that another night has left out. Raises FileError."""
        for folder in ("excluded", "drained"):
            for name in _names(other.folder / folder):
                data = read_file(other.folder / folder / name, MAXIMUM_OTHER_BYTES, follow_links=False)
                self.place.write(self.folder / folder / name, data)

    def caused(self, unit: str, text: str) -> None:
        """Keep what a search found for a step. Raises FileError."""
        folder = self.folder / "causes"
        if folder.is_symlink():
            raise FileError("is a link, not a folder of the night", where=folder, next="remove it")
        folder.mkdir(exist_ok=True)
        path = folder / f"{unit}.json"
        require_file(path)
        self._write(path, FleetCause(unit, now_utc(), text))

    def causes(self) -> dict[str, str]:
        """Unit -> what a search found for it."""
        found = {}
        for name in _names(self.folder / "causes"):
            if _UNIT_FILE.fullmatch(name):
                try:
                    cause = _read(self.folder / "causes" / name, FleetCause, "", MAXIMUM_OTHER_BYTES)
                except ReplayError:
                    continue
                found[cause.unit] = cause.text
        return found

    def devices(self) -> list[FleetDevice]:
        """All that worked, as they are now."""
        found = {}
        for folder in ("devices", "excluded"):
            for name in _names(self.folder / folder):
                try:
                    found[name] = _read(self.folder / folder / name, FleetDevice, "", MAXIMUM_OTHER_BYTES)
                except ReplayError:
                    continue
        return [found[name] for name in sorted(found)]

    def retry(self, units: list[str], devices: list[str]) -> int:
        """Forget the attempts of units and the exclusion of devices, all where none are named. Returns how many."""
        count = 0
        for name in _names(self.folder / "attempts"):
            if name.partition(".")[0] in units or not (units or devices):
                self.place.delete(self.folder / "attempts" / name)
                count += 1
        for name in _names(self.folder / "excluded"):
            if name.removesuffix(".json") in devices or not (units or devices):
                self.place.delete(self.folder / "excluded" / name)
                count += 1
        return count

    def _write(self, path: Path, value: Any) -> None:
        self.place.write(path, _data(value))


def begin_night(folder: Path, plan: FleetPlan, matrix: Path, place: Place | None = None) -> Night:
    """Make the folder of a night. Of two that do so at once, the first one's matrix holds, and of two with the same
    matrix the first one's plan. Raises FileError; UsageError when the matrix that holds is another."""
    try:
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        text = matrix.read_bytes()
    except OSError as error:
        raise FileError.of(error, folder) from None
    place = Place(folder.parent) if place is None else place
    if not (folder / PLAN).exists():
        place.create(folder / MATRIX, text)
        require_matrix(folder, text)
        place.create(folder / PLAN, _data(plan))
    return Night(folder, place)


def require_matrix(folder: Path, text: bytes) -> None:
    """Raises UsageError when the night has another one."""
    if read_file(folder / MATRIX, MAXIMUM_OTHER_BYTES) != text:
        raise UsageError("is a night of another matrix", where=folder, next="name another one with --night")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _data(value: Any) -> bytes:
    return json.dumps(to_wire(value)).encode()


def _read(path: Path, kind: type[_T], form: str, most_bytes: int) -> _T:
    data = read_file(path, most_bytes)
    value = parse_json(data, path)
    value = value if is_plain(data) else harmless(value)
    try:
        _require_format(value, form, path)
        return from_wire(kind, value)
    except (KeyError, TypeError):
        raise FormatError("is something else", where=path) from None
    except FormatError as error:
        raise type(error)(error.what, where=path, next=error.next) from None


def _require_format(value: Any, form: str, path: Path) -> None:
    """Of a document. form: "" where it says none. Raises FormatError, VersionError, and what a lookup does."""
    if form and value["format"] != form:
        name, _, version = str(value["format"]).partition("/")
        if name == form.partition("/")[0]:
            text = f"has version {version[:20]}, and this replay reads {form.partition('/')[2]}"
            raise VersionError(text, where=path, next="install a newer replay")
        raise FormatError("is something else", where=path)
