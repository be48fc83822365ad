"""Where all nights of a fleet are: a folder that everybody shares. What is written is there whole, and at once, for
all; `Mirror` does the same at a URL."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from replay.beside import SHARED
from replay.errors import FileError
from replay.fleet.sharing.claims import Claims
from replay.results.store import write_whole

LOOKS_EVERY_S = 0.5


class Place:
    """Its methods raise FileError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)
        self.url = ""
        self.left_out: dict[
            str, str
        ] = {}  # names that are not files of nights, where they are not taken, and why

    @property
    def pause_s(self) -> float:
        """Between two looks at what others do."""
        return LOOKS_EVERY_S

    def address(self, folder: Path) -> str:
        """What a worker on another node is told."""
        return str(folder.absolute())

    def look(self, folder: Path, *, deep: bool = True, now: bool = False) -> None:
        """See what others put into a folder, and into all below it if `deep`. now: however short ago the last look
        was."""

    def look_at_plans(self) -> None:
        """See which nights there are."""

    def nights(self) -> list[Path]:
        """Folders of nights, for all."""
        try:
            return [path for path in self.folder.iterdir() if path.is_dir()]
        except OSError as error:
            raise FileError.of(error, self.folder) from None

    def bring(self, path: Path) -> None:
        """See one file as others left it, if it is there."""

    def is_there(self, path: Path) -> bool:
        """At this moment, for all."""
        return path.exists()

    def now_s(self) -> float:
        """By the clock of those who keep it."""
        path = self.folder / ".clock"
        self.mark(path)
        try:
            os.utime(path)
        except OSError as error:
            raise FileError.of(error, path) from None
        return self.time_s(path)

    def time_s(self, path: Path) -> float:
        """When it was written, by the clock of those who keep it."""
        try:
            return path.stat().st_mtime
        except OSError as error:
            raise FileError.of(error, path) from None

    def write(self, path: Path, data: bytes, mode: int = SHARED) -> None:
        """In place of what was there."""
        write_whole(path, data, mode)

    def create(self, path: Path, data: bytes) -> None:
        """Unless somebody else did: then theirs stays."""
        # A link is made once, where a rename would replace what others work by
        own = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
        self.write(own, data)
        try:
            os.link(own, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise FileError.of(error, path.parent, "keep the results on a file system with links") from None
        finally:
            own.unlink(missing_ok=True)

    def mark(self, path: Path) -> None:
        """Make an empty file, if it is not there. Others write into this folder, too: a link would lead out of it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            os.close(os.open(path, flags, 0o666))
        except OSError as error:
            raise FileError.of(error, path) from None

    def append(self, path: Path, line: str) -> None:
        """To a file that nobody else writes."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(
                path, "a", encoding="utf-8", opener=lambda name, _: os.open(name, flags, 0o666)
            ) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe would keep us
                    raise FileError("is no file", where=path, next="remove it")
                file.write(line + "\n")
        except OSError as error:
            raise FileError.of(error, path) from None

    def share(self, path: Path) -> None:
        """A file that somebody wrote into the folder without this class."""

    def delete(self, path: Path) -> None:
        """If it is there."""
        path.unlink(missing_ok=True)

    def claims(self, night: Path) -> Claims:
        """Which units of a night are being done."""
        return Claims(night / "claims")
