"""A folder of results at a URL, and the copy of it on this machine, from which all is read.

What is written goes to the URL first, so that the copy is never ahead of it and may be lost. What was once found never
changes, so its name and size tell whether the copy has it; of the little that changes the time is compared, too. Names
at a URL are a stranger's: what does not look like a file of a night is left where it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from replay import settings
from replay.beside import SHARED
from replay.errors import FileError, UsageError
from replay.fleet.sharing.layout import (
    BASELINE,
    CHANGING,
    KEPT,
    LATER,
    MAXIMUM_BYTES,
    MAXIMUM_OTHER_BYTES,
    PLAN,
    RESULT_ENDINGS,
)
from replay.fleet.sharing.leases import Leases
from replay.fleet.sharing.place import Place
from replay.privacy import private
from replay.results.store import write_whole
from replay.store.urls import FilesAt, is_url, time_of

_BATCH_BYTES, _BATCH_FILES = 64 << 20, 500
_MOST_FILES = 20_000_000
_MOST_LEFT_OUT = 100
_LOCK = ".looking"
# A look at a whole night is as long as it has files, so it is made the more seldom
_LOOKS_EVERY_S, _LOOKS_TIMES = 2.0, 10.0
_NEXT = "what was stored is kept; when it answers again, run the same command"
_NIGHT = r"(?:search/[0-9a-f]{16}/\d{1,6}|[A-Za-z0-9][A-Za-z0-9._-]{0,79})"
_CHANGING = CHANGING + LATER
_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_FILE = re.compile(
    rf"{_NIGHT}/(?:plan\.json|matrix\.toml)|"
    rf"(?:causes|{_NIGHT}/({'|'.join(KEPT + _CHANGING)})(?:/[0-9a-f]{{2}})?)/{_NAME}|"
    rf"(?:{_NAME}/){{0,8}}{_NAME}\.({'|'.join(ending[1:] for ending in RESULT_ENDINGS)})|{re.escape(BASELINE)}"
)
_SEARCH = re.compile(r"(.+)/(search/[0-9a-f]{16}/\d{1,6})")


class Mirror(Place):
    """Raises UsageError when fsspec, or what it needs for the URL, is not installed. left_out: names at the URL that
    are not copied, and why."""

    def __init__(self, url: str) -> None:
        self._at = FilesAt(url.rstrip("/"), "as the place of results", _NEXT)
        url = self._at.url
        super().__init__(_mirrors() / hashlib.sha256(url.encode()).hexdigest()[:16])
        self.name, self.url = self._at.name, url
        # When the last look ended, and how long it took. One that was not deep has not seen what is below.
        self._looked: dict[tuple[Path, bool], tuple[float, float]] = {}
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise FileError.of(error, self.folder, "set XDG_CACHE_HOME to a folder with room") from None

    @property
    def pause_s(self) -> float:
        """Some seconds, never the same: of two that got into each other's way one is the first."""
        return random.uniform(1.0, 3.0)  # noqa: S311 not a secret

    def address(self, folder: Path) -> str:
        """See `Place`."""
        return f"{self.url}/{folder.relative_to(self.folder).as_posix()}"

    def look(self, folder: Path, *, deep: bool = True, now: bool = False) -> None:
        """See `Place`."""
        ended_s, took_s = self._looked.get((folder, deep), (-1e9, 0.0))
        begin_s = time.monotonic()
        if not now and begin_s - ended_s < max(_LOOKS_EVERY_S, _LOOKS_TIMES * took_s):
            return
        with self._one_at_a_time():
            begin_s, since_ns = time.monotonic(), self.copy_now_ns()
            there = self._listed(folder, deep)
            self._fetch(there)
            self._forget(folder, deep, there, since_ns)
        end_s = time.monotonic()
        self._looked[folder, deep] = end_s, end_s - begin_s

    def look_at_plans(self) -> None:
        """See `Place`. Of a night that is not at the URL any more the copy is removed."""
        there, since_ns = set(), self.copy_now_ns()
        for entry in self._entries(self.folder, False):
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            there.add(name)
            is_night = entry.get("type") == "directory" and re.fullmatch(_NIGHT, name)
            if is_night and not (self.folder / name / PLAN).exists():
                self.look(self.folder / name, deep=False, now=True)
        for path in self.folder.glob(f"*/{PLAN}"):
            with suppress(FileNotFoundError):
                if path.parent.name not in there and path.stat().st_ctime_ns < since_ns:
                    shutil.rmtree(path.parent, ignore_errors=True)

    def nights(self) -> list[Path]:
        """See `Place`. Not all have a copy."""
        entries = [entry for entry in self._entries(self.folder, False) if entry.get("type") == "directory"]
        names = (str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in entries)
        return [self.folder / name for name in names if re.fullmatch(_NIGHT, name)]

    def bring(self, path: Path) -> None:
        """See `Place`."""
        name = path.relative_to(self.folder).as_posix()
        with self._one_at_a_time(), suppress(FileNotFoundError), self._at.asking() as files:
            files.invalidate_cache()
            entry = files.info(self._of(path))
            if entry.get("type") == "file" and not entry.get("islink"):
                self._fetch({name: entry} if self._is_small(name, int(entry.get("size") or 0)) else {})

    def copy_now_ns(self) -> int:
        """By the clock that gives the files of the copy their times: a home folder may be another machine's. What is
        written later has this time or a later one."""
        path = self.folder / _LOCK
        try:
            path.touch(0o600)
            return path.stat().st_ctime_ns
        except OSError as error:
            raise FileError.of(error, path) from None

    def is_there(self, path: Path) -> bool:
        """See `Place`."""
        with self._asking() as files:
            files.invalidate_cache()
            return bool(files.exists(self._of(path)))

    def now_s(self) -> float:
        """See `Place`."""
        self.mark(self.folder / ".clock")
        return self.time_s(self.folder / ".clock")

    def time_s(self, path: Path) -> float:
        """See `Place`; that of this machine where the URL tells none."""
        with self._asking() as files:
            files.invalidate_cache()
            at_s = time_of(files.info(self._of(path)))
        return time.time() if at_s is None else at_s

    def write(self, path: Path, data: bytes, mode: int = SHARED) -> None:
        """See `Place`."""
        self._at.put({self._of(path): data})
        self._keep(path, data, mode)

    def create(self, path: Path, data: bytes) -> None:
        """See `Place`."""
        self._at.create(self._of(path), data)
        with self._asking() as files:
            files.invalidate_cache()
            data = files.cat_file(self._of(path))
        self._keep(path, data, SHARED)

    def mark(self, path: Path) -> None:
        """See `Place`."""
        self.write(path, b"\n")

    def append(self, path: Path, line: str) -> None:
        """See `Place`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._one_at_a_time():  # a look may put an older file in its place
            super().append(path, line)
            self._at.put({self._of(path): path.read_bytes()})

    def share(self, path: Path) -> None:
        """See `Place`."""
        name = path.relative_to(self.folder).as_posix()
        if _FILE.fullmatch(name):
            self._at.put({self._of(path): path.read_bytes()})
        else:
            self.left_out[name[:200]] = "has no name of a night's file"

    def delete(self, path: Path) -> None:
        """See `Place`."""
        with suppress(FileNotFoundError), self._at.asking() as files:
            files.rm_file(self._of(path))
        path.unlink(missing_ok=True)

    def claims(self, night: Path) -> Leases:  # type: ignore[override]  # the same methods
        """See `Place`."""
        return Leases(self, night / "leases")

    def _of(self, path: Path) -> str:
        return f"{self._at.root}/{path.relative_to(self.folder).as_posix()}"

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        try:
            with self._at.asking() as files:
                yield files
        except FileNotFoundError as error:
            raise self._at.error(error) from None

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Of all processes that keep this copy."""
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FileError.of(error, self.folder) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _entries(self, folder: Path, deep: bool) -> list[Mapping[str, Any]]:
        where = self._at.root if folder == self.folder else self._of(folder)
        try:
            with self._at.asking() as files:
                files.invalidate_cache()
                found = list(
                    files.find(where, detail=True).values() if deep else files.ls(where, detail=True)
                )
        except FileNotFoundError:
            return []
        if len(found) > _MOST_FILES:
            raise FileError(
                f"holds {len(found):,} files, at most {_MOST_FILES:,}", where=self.address(folder)
            )
        return found

    def _listed(self, folder: Path, deep: bool) -> dict[str, Mapping[str, Any]]:
        """Name below the root -> what the listing says, of files of nights."""
        found = {}
        begin = f"/{self._at.root.strip('/')}".rstrip("/") + "/"
        for entry in self._entries(folder, deep):
            path = "/" + str(entry["name"]).lstrip("/")
            if entry.get("type") != "file" or entry.get("islink") or not path.startswith(begin):
                continue
            name = path[len(begin) :]
            if not _FILE.fullmatch(name) or ".." in PurePosixPath(name).parts:
                if not PurePosixPath(name).name.startswith(".") and len(self.left_out) < _MOST_LEFT_OUT:
                    self.left_out[name[:200]] = "is no file of a night"
                continue
            if self._is_small(name, int(entry.get("size") or 0)):
                found[name] = entry
        return found

    def _is_small(self, name: str, size: int) -> bool:
        most = _most_bytes(name)
        if size > most:
            self.left_out[name] = f"is larger than {most:,} bytes"
        return size <= most

    def _fetch(self, there: Mapping[str, Mapping[str, Any]]) -> None:
        """What the copy does not have, the file that says that a night is there last."""
        wanted = [name for name, entry in there.items() if not self._has(name, entry)]
        wanted.sort(key=lambda name: name.endswith("/" + PLAN))
        while wanted:
            batch: list[str] = []
            total = 0
            while wanted and len(batch) < _BATCH_FILES and total < _BATCH_BYTES:
                batch.append(wanted.pop(0))
                size = there[batch[-1]].get("size")  # None: the listing tells none
                total += _most_bytes(batch[-1]) if size is None else int(size)
            paths = {str(there[name]["name"]): name for name in batch}
            with self._asking() as files:
                # `cat` would take brackets in the URL for a pattern
                got = files.cat_ranges(list(paths), None, None, on_error="return")
            for path, data in zip(paths, got, strict=True):
                if isinstance(data, FileNotFoundError):  # gone since the listing
                    continue
                if isinstance(data, Exception):
                    raise self._at.error(data)
                if self._is_small(paths[path], len(data)):  # whatever the listing told
                    self._fetched(paths[path], bytes(data), time_of(there[paths[path]]))

    def _has(self, name: str, entry: Mapping[str, Any]) -> bool:
        path, at_s, size = self.folder / name, time_of(entry), entry.get("size")
        is_kept = any(part in KEPT for part in path.parts[-3:-1]) or path.suffix in RESULT_ENDINGS
        try:
            status = path.stat()
            if size is None:
                return is_kept
            if status.st_size != int(size) or at_s is None:
                return status.st_size == int(size)
            if status.st_mtime == _rounded(at_s):
                return True
            if not is_kept:
                return False
            os.utime(path, (_rounded(at_s),) * 2)  # this machine wrote it, by its own clock
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _fetched(self, name: str, data: bytes, at_s: float | None) -> None:
        """Not by `write_whole`, which waits for the disk and looks for what others left: a copy may be lost."""
        path, temporary = self.folder / name, self.folder / ".fetched"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            if at_s is not None:
                os.utime(temporary, (_rounded(at_s),) * 2)
            os.replace(temporary, path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            self.left_out[name] = "is a file and a folder"
        except OSError as error:
            raise FileError.of(error, path) from None

    def _keep(self, path: Path, data: bytes, mode: int) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError.of(error, path.parent) from None
        write_whole(path, data, mode)

    def _forget(self, folder: Path, deep: bool, there: Mapping[str, object], since_ns: int) -> None:
        """What others took back. What was written here after the listing began stays."""
        folders = [folder] if not deep else [folder / name for name in _CHANGING]
        paths: list[Path] = []
        for one in folders:
            if one.name not in _CHANGING:
                continue
            paths += one.iterdir() if one.is_dir() else ()
        if deep and folder == self.folder:  # somebody packs a history, or removes what is old
            paths += (path for path in folder.rglob("*.r*") if path.suffix in RESULT_ENDINGS)
            paths.append(folder / BASELINE)
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            if path.name.startswith("."):  # somebody is writing it
                continue
            with suppress(FileNotFoundError):
                if name not in there and path.stat().st_ctime_ns < since_ns:
                    path.unlink()


def _most_bytes(name: str) -> int:
    match = _FILE.fullmatch(name)
    return MAXIMUM_BYTES.get(
        (match and (match[1] or match[2])) or name.rpartition("/")[2], MAXIMUM_OTHER_BYTES
    )


def _rounded(at_s: float) -> float:
    """File systems keep times in steps; those of listings have at most microseconds."""
    return round(at_s, 3)


def open_place(text: str) -> Place:
    """Of a folder of results, or a URL. Raises UsageError, FileError."""
    if not is_url(text):
        return Place(Path(text))
    if settings.OFFLINE.value():
        raise UsageError("is a URL, and REPLAY_OFFLINE is set", where=private(text), next="name a folder")
    if text.startswith("memory:"):
        raise UsageError(
            "is kept by one process alone, and a fleet has many", where=text, next="name a folder"
        )
    return Mirror(text)


def look_at(text: str | os.PathLike[str]) -> Place:
    """A folder of results, as all commands that take one read it; of a URL a copy that is as new as this look. Raises
    UsageError, FileError."""
    place = open_place(os.fspath(text))
    place.look(place.folder, now=True)
    return place


def place_of_night(text: str) -> tuple[Place, Path]:
    """Of a night: where all are, and its own folder. Raises UsageError, FileError."""
    if not is_url(text):
        return Place(Path(text).parent), Path(text)
    root, _, name = text.rstrip("/").rpartition("/")
    if match := _SEARCH.fullmatch(text.rstrip("/")):
        root, name = match[1], match[2]
    if not re.fullmatch(_NIGHT, name):
        raise UsageError("is no night of a fleet", where=text, next="`replay fleet run` begins one")
    place = open_place(root)
    place.look(place.folder / name, now=True)
    return place, place.folder / name


def _mirrors() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        cache = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:
        raise FileError("there is no home folder", next="set XDG_CACHE_HOME") from None
    return cache / "replay" / "results"
