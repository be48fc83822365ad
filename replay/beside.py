"""Temporary files beside the file that they become, `.NAME.XXXXXXXX.partial`.

Whoever writes one holds a lock on it, which ends with the process, however that ends. So the next one who writes the
same file can tell what a killed process left, and removes it. Where a folder knows no locks, nothing is removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from replay import interrupts
from replay.errors import FileError

SUFFIX = ".partial"
PRIVATE, SHARED = 0o600, 0o666  # modes, before the umask
ROOM_BYTES = 1 << 20  # that are asked for before a replay; few results are larger


def open_beside(target: Path, mode: int = PRIVATE) -> tuple[int, Path]:
    """A new, locked, empty file: its descriptor and its path. Snapshots and results hold what an application had in
    memory, so they are private unless `mode` says otherwise; the umask may make it stricter. Raises OSError."""
    from tempfile import mkstemp  # readers of snapshots come by here, too, and need none

    remove_left(target)
    while True:
        descriptor, name = mkstemp(SUFFIX, f".{target.name}.", target.parent)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)  # somebody else removed it before it was locked
    umask = os.umask(0)
    os.umask(umask)
    os.fchmod(descriptor, mode & ~umask)
    return descriptor, Path(name)


def remove_left(target: Path) -> None:
    """Remove temporary files of `target` that nobody writes any more."""
    begin, length = f".{target.name}.", len(target.name) + len(SUFFIX) + 10
    try:
        names = os.listdir(target.parent)
    except OSError:
        return
    for name in names:
        if not (name.startswith(begin) and name.endswith(SUFFIX) and len(name) == length):
            continue
        path = target.parent / name
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)


def require_file(path: Path) -> None:
    """Raise FileError where something else is: a pipe in a folder of somebody else would be waited for."""
    if os.path.lexists(path) and not path.is_file():
        raise FileError("is no file", where=path, next="remove it")


def require_place(path: str | os.PathLike[str]) -> None:
    """Raise FileError if no result can be written there: to be asked before a long replay, not after it. A file of
    ROOM_BYTES is made beside it for a moment, which finds a full disk, a quota and what is read-only, for root too."""
    target = Path(path)
    require_folder(target)
    if target.exists() and not target.is_file():
        return  # a device or a pipe, which is written into
    try:
        with interrupts.held():
            descriptor, temporary = open_beside(target)
            try:
                os.posix_fallocate(descriptor, 0, ROOM_BYTES)
            finally:
                os.close(descriptor)
                temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:  # of a file system that reserves nothing
            raise not_written(error, target) from None


def require_folder(target: Path) -> None:
    """Raise FileError if a file cannot be there by its name."""
    if target.is_dir():
        raise FileError("is a folder", where=target, next="give the name of a file to write")
    if not target.absolute().parent.is_dir():
        raise FileError("no such folder", where=target.parent, next="create the folder first")


def not_written(error: OSError, target: Path) -> FileError:
    """The error for a file that could not be written, with what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "free some space" if full else "write into a folder that exists and is writable"
    return FileError.of(error, target, advice)
