"""Numbers that one process at a time holds, of all that see the same file: locks of the system, which end with their
holder, however that ends, and which a network file system passes on.

They belong to the open file: two of the same process exclude each other, too, and nothing that this process starts
keeps them.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from replay.errors import FileError

_FLOCK = "hhqqi0q"  # struct flock of 64-bit Linux: type, whence, start, length, process (0 for these locks)
_BUSY = (BlockingIOError, PermissionError)


class Claims:
    """A context manager. Raises FileError where the file system knows no locks."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise FileError.of(error, path) from None
        self._path = path

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all."""
        os.close(self._file)

    def take(self, number: int) -> bool:
        """Whether it was free, and is held now."""
        return self._set(fcntl.F_WRLCK, number)

    def let_go(self, number: int) -> None:
        """Of one that is held."""
        self._set(fcntl.F_UNLCK, number)

    def taken(self, most: int) -> set[int]:
        """Those below `most` that others hold."""
        found: set[int] = set()
        waiting = [(0, most)]
        while waiting:
            at, end = waiting.pop()
            if at >= end:
                continue
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, at, end - at, 0)
            answer = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, asked)
            kind, _, start, length, _ = struct.unpack(_FLOCK, answer)
            if kind != fcntl.F_UNLCK:  # one of those that there are, not the first
                after = start + length if length else end  # 0: to the end of the file, wherever that comes
                found.update(range(max(at, start), min(end, after)))
                waiting += [(at, start), (after, end)]
        return found

    def _set(self, kind: int, number: int) -> bool:
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, number, 1, 0))
        except _BUSY:
            return False
        except OSError as error:
            next = "keep the results on a file system with locks (NFS 4, or Lustre mounted with -o flock)"
            raise FileError.of(error, self._path, next) from None
        return True
