"""Where the index of a folder of results is kept: with this user, never in the folder.

A folder may be a stranger's, and so would be what it calls an index: a link to another database, a schema with views
and triggers, times that are in no result.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from replay.state import is_private, state_folder

MAXIMUM_INDEXES = 64  # of all folders; those that were not used for longest go


def index_file(folder: Path) -> Path:
    """The file for a folder, which is there afterwards, empty when it is new. Raises OSError, RuntimeError where this
    user can keep none, or somebody else could have written it."""
    place = state_folder() / "history"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The same name may be another folder by now, with files of the same names, sizes and times.
    status = folder.stat()
    key = f"{os.path.realpath(folder)}\0{status.st_dev}\0{status.st_ino}"
    path = place / f"{blake3(os.fsencode(key)).hexdigest(length=16)}.sqlite"
    if not path.exists():
        _make_room(place)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) and is_private(status) and is_private(place.stat())):
            raise PermissionError(f"{path} can be written by others")
        os.utime(descriptor)
    finally:
        os.close(descriptor)
    return path


def _make_room(place: Path) -> None:
    """For one more index."""
    found = []
    for path in place.glob("*.sqlite"):
        with suppress(OSError):
            found.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(found)[: max(len(found) - MAXIMUM_INDEXES + 1, 0)]:
        for name in (path, path.with_name(f"{path.name}-journal")):
            with suppress(OSError):
                name.unlink()
