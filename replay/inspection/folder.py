"""A folder that files are written into for somebody who chose it, with contents that come from somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from replay import interrupts
from replay.errors import FileError
from replay.text import size

FREE_SHARE = 0.95  # of the free disk space that may be filled
MAX_FILES = 100_000


class OutputFolder:
    """The folder that is written to, held open, so that it cannot be exchanged for another one meanwhile."""

    def __init__(self, path: Path, force: bool) -> None:
        self.path = path
        self._force = force
        self._names: set[str] = set()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise FileError.of(error, path, "choose another folder") from None

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)

    def refuse_existing(self, names: Sequence[str], beginnings: Sequence[str]) -> None:
        """Raises FileError when a file with one of these names or beginnings exists and `force` was not given, so that
        nothing at all is written then."""
        if self._force:
            return
        wanted = set(names)
        for name in os.listdir(self._descriptor):
            if name in wanted or name.startswith(tuple(beginnings)):
                raise self._exists(name)

    def _exists(self, name: str) -> FileError:
        return FileError(
            "exists already", where=self.path / name, next="choose another folder or give --force"
        )

    def check_space(
        self, needed: int, advice: str = "free some space, or name a folder on another disk"
    ) -> None:
        """Raises FileError, with `advice`, when `needed` bytes would not fit on the disk."""
        import shutil

        free = int(shutil.disk_usage(self._descriptor).free * FREE_SHARE)
        if needed > free:
            raise FileError(
                f"{size(needed)} are to be written and {size(free)} are free",
                where=self.path,
                next=advice,
            )

    @contextmanager
    def create(self, name: str) -> Iterator[tuple[BinaryIO, str]]:
        """A new file and the name it got, which differs from `name` where that was taken before. It is removed again
        when the block raises."""
        if len(self._names) >= MAX_FILES:
            raise FileError(
                f"more than {MAX_FILES} files", where=self.path, next="choose with --buffer and --image"
            )
        stem, suffix = os.path.splitext(name)
        taken, count = name, 1
        while taken in self._names:  # two allocations of a hostile snapshot may share their id
            count += 1
            taken = f"{stem}.{count}{suffix}"
        self._names.add(taken)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = -1
        try:
            try:
                with interrupts.held():
                    if self._force:
                        self._unlink(taken)
                    descriptor = os.open(taken, flags, 0o600, dir_fd=self._descriptor)
            except FileExistsError:
                raise self._exists(taken) from None
            with os.fdopen(descriptor, "wb") as file:
                yield file, taken
        except BaseException as error:
            if descriptor >= 0:
                with interrupts.held():
                    self._unlink(taken)
            if isinstance(error, OSError):
                raise FileError.of(error, self.path / taken) from None
            raise

    def _unlink(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)


def new_folder(path: Path | None) -> Path | None:
    """`path`, of which nothing is there yet, or an empty folder; None for None. Raises FileError."""
    if path is None or not os.path.lexists(path):
        return path
    try:
        with os.scandir(path) as entries:
            empty = next(entries, None) is None
    except OSError as error:
        raise FileError.of(error, path, "choose another folder") from None
    if not empty:
        raise FileError("the folder is not empty", where=path, next="choose a new one")
    return path
