"""Temporary files beside the file that they become, `.NAME.XXXXXXXX.partial`.

Whoever writes one holds a lock on it, which ends with the process, however that ends. So the next one who writes the
same file can tell what a killed process left, and removes it. Where a folder knows no locks, nothing is removed.
"""

from __future__ import annotations

import fcntl
import glob
import os
from contextlib import suppress
from pathlib import Path

SUFFIX = ".partial"


PRIVATE, SHARED = 0o600, 0o666  # modes, before the umask


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
    pattern = f".{glob.escape(target.name)}.????????{SUFFIX}"
    for path in glob.glob(os.path.join(glob.escape(str(target.parent)), pattern)):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)
