"""What a night is to do: every window of a corpus with every comparison of a matrix that concerns it."""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from replay import __version__
from replay.check.config import Config
from replay.compare.sides import SnapshotWindow, windows_at
from replay.errors import FileError, ReplayError, UsageError
from replay.fleet.matrix import Matrix, read_matrix
from replay.fleet.night import Night, begin_night, require_matrix
from replay.fleet.sharing.mirror import place_of_night
from replay.fleet.sharing.place import Place
from replay.inspection.pieces import require_contents
from replay.results.fleet import PLAN_FORMAT, FleetPlan, FleetProblem, FleetUnit
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity

MOST_UNITS = 10_000_000
GOES_ON_S = 24 * 3600.0  # for so long a night that has not ended is the one that is meant
_GIT_TIMEOUT_S = 20.0
_NIGHT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def begin(
    results: Path | Place, corpus: Path, matrix_file: Path, *, name: str = "", confirm: bool = True
) -> Night:
    """The night `name` in the folder of results, begun now or before. Without a name: the last one, when it is of the
    same corpus and matrix, has not ended, and began within a day; else a new one. Raises UsageError, FileError."""
    place = results if isinstance(results, Place) else Place(results)
    results = place.folder
    matrix = read_matrix(matrix_file)
    if name and not _NIGHT.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a night", where="--night", next="use letters, digits, '.', '_', '-'"
        )
    try:
        results.mkdir(parents=True, exist_ok=True)
        beginning = os.open(results / ".beginning", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise FileError.of(error, results) from None
    try:
        fcntl.flock(beginning, fcntl.LOCK_EX)  # two that begin at once agree on a night
        # Nights are in order by the clock of the file server, the one that is the same for all.
        now = datetime.datetime.fromtimestamp(place.now_s(), datetime.timezone.utc)
        place.look_at_plans()
        if name:
            place.look(results / name, now=True)
        folder = results / (name or _goes_on(place, corpus, matrix_file, now) or _new_name(results, now))
        if (folder / "plan.json").exists():
            night = Night(folder, place)
            _require_same(night, corpus, matrix_file)
            return night
        plan = make_plan(corpus, matrix, confirm, now)
        while True:
            try:
                night = begin_night(folder, plan, matrix_file, place)
                _require_same(night, corpus, matrix_file)
            except UsageError:  # at a URL another site may have taken the name since
                if name:
                    raise
                folder = results / _new_name(results, now)
            else:
                return night
    finally:
        os.close(beginning)


def nights(results: Path | Place) -> tuple[list[Night], list[FleetProblem]]:
    """All in a folder of results, oldest first, and why others cannot be read; of a folder that is a night itself that
    one. Of one at a URL no more is copied than which there are. Raises UsageError, FileError."""
    place = results if isinstance(results, Place) else Place(results)
    results = place.folder
    if place.is_there(results / "plan.json"):
        return [night_at(place.url) if place.url else Night(results)], []
    place.look_at_plans()
    found: list[tuple[str, str]] = []
    problems = [FleetProblem(name, f"left out: {why}") for name, why in place.left_out.items()]
    for path in sorted(results.glob("*/plan.json")):
        try:
            found.append((Night(path.parent).created_utc, path.parent.name))
        except ReplayError as error:
            problems.append(FleetProblem(path.parent.name, f"left out: {error.what}"))
    every = [Night(results / name, place) for _, name in sorted(found)]
    while every:
        try:
            _ = every[-1].plan  # the one that is told of, whole
            break
        except ReplayError as error:
            problems.append(FleetProblem(every.pop().folder.name, f"left out: {error.what}"))
    if not every:
        first = f" ({problems[0].where}: {problems[0].why})" if problems else ""
        raise UsageError(
            f"holds no night of a fleet{first}", where=place.name, next="`replay fleet run` begins one"
        )
    return every, problems


def night_at(text: str) -> Night:
    """Of a folder or a URL. Raises UsageError, FileError."""
    place, folder = place_of_night(text)
    return Night(folder, place)


def make_plan(corpus: Path, matrix: Matrix, confirm: bool, now: datetime.datetime) -> FleetPlan:
    """Raises UsageError when there is nothing to do."""
    problems: list[FleetProblem] = []
    units: dict[str, FleetUnit] = {}
    used = set()
    for name, digest, window in _windows(corpus, problems):
        owner = owner_at(matrix.config, window)
        for item in matrix.comparisons:
            if not any(map(item.kernels.search, window.kernels or ("no kernel",))):
                continue
            used.add(item.name)
            for kind in matrix.kinds:
                if item.kinds and kind.name not in item.kinds:
                    continue
                unit = FleetUnit("", name, digest, window.window, list(window.kernels), kind.name, item.name,
                                 item.a, item.b, owner=owner)  # fmt: skip
                unit = replace(unit, id=unit_id(unit))
                units.setdefault(unit.id, unit)
    problems[:0] = [
        FleetProblem(f"[[compare]] {item.name}", f"no window has a kernel {item.kernels.pattern!r}")
        for item in matrix.comparisons
        if item.name not in used
    ]
    if not units:
        first = f" ({problems[0].where}: {problems[0].why})" if problems else ""
        raise UsageError(f"there is nothing to do{first}", where=corpus, next="docs/fleet.md shows a matrix")
    if len(units) > MOST_UNITS:
        raise UsageError(f"{len(units)} units, at most {MOST_UNITS}", where=corpus)
    if matrix.canary is not None:
        with SnapshotReader(
            matrix.canary
        ) as reader:  # what is wrong with it is said before anything is measured
            reader.require_whole()
            require_contents(reader)
    commits = {name: _commit(folder, problems) for name, folder in matrix.repositories.items()}
    return FleetPlan(
        PLAN_FORMAT, __version__, now.isoformat(timespec="seconds"), str(corpus.absolute()), confirm,
        list(units.values()), "" if matrix.canary is None else str(matrix.canary),
        {k: v for k, v in commits.items() if v}, problems,
    )  # fmt: skip


def owner_at(config: Config, window: SnapshotWindow) -> int:
    """Place of the owner of this window, -1 for none: a unit that never ends has no row that says where its kernels
    come from."""
    owner = config.owner_at(window)
    return -1 if owner is None else config.owners.index(owner)


def unit_id(unit: FleetUnit) -> str:
    """Of what is asked: contents, window, variants and kind of device. Paths and names are not part of it."""
    parts = (unit.identity, str(unit.window or 0), unit.a, unit.b, unit.kind)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _windows(corpus: Path, problems: list[FleetProblem]) -> Iterator[tuple[str, str, SnapshotWindow]]:
    """Path in the corpus, identity, window. What cannot be read is a problem, and the rest goes on."""
    if not corpus.is_dir():
        raise UsageError("is no folder of snapshots", where=corpus)
    files = sorted(path for path in corpus.rglob("*.rsnap") if not path.is_dir())
    if not files:
        raise UsageError("holds no snapshots (.rsnap)", where=corpus)
    seen: dict[str, str] = {}
    for file in files:
        name = os.path.relpath(file, corpus)
        try:
            if not name.isprintable():
                raise FileError("its name has characters that cannot be shown", next="rename it")
            if not file.is_file():  # a pipe would be waited for
                raise FileError("is no file")
            with SnapshotReader(file) as reader:
                reader.require_whole()
                digest = identity(reader)
            found = windows_at(file)
        except ReplayError as error:
            problems.append(FleetProblem(name, error.what))
            continue
        if digest in seen:
            problems.append(FleetProblem(name, f"has the same contents as {seen[digest]}, which is measured"))
            continue
        seen[digest] = name
        yield from ((name, digest, window) for window in found)


def _goes_on(place: Place, corpus: Path, matrix_file: Path, now: datetime.datetime) -> str:
    from replay.fleet.verdicts import is_over

    found = list(place.folder.glob("*/plan.json"))
    if not found:
        return ""
    try:
        night = Night(max(found, key=lambda path: path.stat().st_mtime).parent, place)
        _require_same(night, corpus, matrix_file)
        age_s = (now - datetime.datetime.fromisoformat(night.plan.created_utc)).total_seconds()
    except (ReplayError, OSError, ValueError, TypeError):
        return ""
    return "" if age_s > GOES_ON_S or is_over(night) else night.folder.name


def _new_name(results: Path, now: datetime.datetime) -> str:
    name = now.strftime("%Y-%m-%dT%H%M")
    return next(
        text
        for text in (name, *(f"{name}-{number}" for number in range(2, 1000)))
        if not (results / text).exists()
    )


def _require_same(night: Night, corpus: Path, matrix_file: Path) -> None:
    if Path(night.plan.corpus) != corpus.absolute():
        raise UsageError(
            f"is a night of another corpus, {night.plan.corpus}",
            where=night.folder,
            next="name another one with --night",
        )
    require_matrix(night.folder, matrix_file.read_bytes())


def _commit(folder: Path, problems: list[FleetProblem]) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=_GIT_TIMEOUT_S, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(FleetProblem(f"[repository] {folder.name}", str(error)))
        return ""
    if done.returncode:
        problems.append(FleetProblem(f"[repository] {folder.name}", done.stderr.strip()[:200]))
    return done.stdout.strip() if not done.returncode else ""
