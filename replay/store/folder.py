"""A folder as a store: `ab/abcdef…` holds the piece of that digest, as it is. Several may write at the same time."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from replay.beside import SUFFIX
from replay.errors import FileError
from replay.reading import open_regular
from replay.store.model import Held

PIECE_NAME = re.compile(r"[0-9a-f]{32}")
_REMEDIES = {
    errno.ENOSPC: "free some space there, or name another store",
    errno.EDQUOT: "free some space there, or name another store",
    errno.EACCES: "ask its owner, or name another store",
    errno.EROFS: "name a store that you may write to",
}
_libc = ctypes.CDLL(None)


def piece_name(digest: bytes) -> str:
    """Where a piece is, relative to a store."""
    return f"{digest.hex()[:2]}/{digest.hex()}"


class FolderStore:
    """Satisfies `Store`. The folder is made when something is written. Pieces are private, unless the folder is
    writable for others: then these may read and write them, too."""

    is_remote = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    def read(self, wanted: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """See `Store`."""
        return [self._read(digest, length) for digest, length in wanted]

    def write(self, pieces: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """See `Store`. What is there is read: a wrong piece is replaced."""
        new = new_bytes = 0
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            shared = stat.S_IMODE(self.folder.stat().st_mode) & 0o022
            mode = 0o600 | shared << 1 | shared  # who may write may read
            for digest, data in pieces:
                path = self.folder / piece_name(digest)
                if self._has(path, digest, len(data)):
                    continue
                with suppress(FileExistsError):
                    path.parent.mkdir(0o700)
                    path.parent.chmod(mode | (mode & 0o444) >> 2)
                self._put(path, data, mode)
                new, new_bytes = new + 1, new_bytes + len(data)
        except OSError as error:
            raise self._error(error) from None
        return new, new_bytes

    def flush(self) -> None:
        """See `Store`."""
        if not self.folder.is_dir():
            return
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _libc.syncfs(
                descriptor
            ):  # of every file of the file system: thousands of fsyncs take far longer
                os.sync()
        finally:
            os.close(descriptor)

    def held(self) -> Iterator[Held]:
        """See `Store`."""
        try:
            prefixes = sorted(os.listdir(self.folder))
        except OSError as error:
            raise self._error(error) from None
        for prefix in prefixes:
            try:
                if (self.folder / prefix).is_symlink():
                    continue  # into another store, of which this one's snapshots say nothing
                entries = sorted(os.scandir(self.folder / prefix), key=lambda entry: entry.name)
            except OSError:
                continue  # a file, or none of ours
            for entry in entries:
                if PIECE_NAME.fullmatch(entry.name) and entry.name[:2] == prefix:
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield Held(bytes.fromhex(entry.name), status.st_size, status.st_mtime)

    def delete(self, piece: Held) -> bool:
        """See `Store`. It is moved away first: a writer that asks for it from then on does not find it, and one that
        did before has set its time."""
        path = self.folder / piece_name(piece.digest)
        away = path.with_name(f".{path.name}.{os.getpid()}{SUFFIX}")
        try:
            path.rename(away)
            if away.stat().st_mtime != piece.modified_s:
                away.rename(path)
                return False
            away.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._error(error) from None
        return True

    def remove_left(self, before_s: float) -> None:
        """Remove temporary files that were last written before a time."""
        for path in self.folder.glob(f"[0-9a-f][0-9a-f]/.*{SUFFIX}"):
            with suppress(OSError):
                if not path.parent.is_symlink() and path.lstat().st_mtime < before_s:
                    path.unlink()

    def _read(self, digest: bytes, length: int) -> bytes | None:
        path = self.folder / piece_name(digest)
        if not path.is_file():
            return None
        with open(open_regular(path, follow_links=False), "rb", buffering=0) as file:
            try:
                return file.read(length + 1)
            except OSError as error:
                raise self._error(error) from None

    def _has(self, path: Path, digest: bytes, length: int) -> bool:
        """Whether a piece is there and right; it counts as used from now on."""
        try:
            os.utime(path, follow_symlinks=False)
            held = self._read(digest, length)
        except PermissionError:  # somebody else's: used all the same
            held = self._read(digest, length)
        except OSError:
            return False
        return held is not None and blake3(held).digest(length=len(digest)) == digest

    def _put(self, path: Path, data: bytes, mode: int) -> None:
        import tempfile  # readers of snapshots come by here, too, and need none

        descriptor, temporary = tempfile.mkstemp(SUFFIX, f".{path.name}.", path.parent)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                os.fchmod(descriptor, mode)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _error(self, error: OSError) -> FileError:
        return FileError.of(error, self.name, next=_REMEDIES.get(error.errno or 0))
