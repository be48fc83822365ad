"""Which snapshots this user captured on this machine: a list of their identities in the user's state folder.

A stranger can write anything into a file, and nothing into this list. An identity is the digest of a file's trailer,
which holds the digest of its index, which holds the digest of every frame: no other file has the same one. A raw
capture that somebody packs is not in it, as nothing says who wrote that.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from replay.reading import open_regular
from replay.snapshot.container import SnapshotReader
from replay.state import is_private, state_folder

_TRAILER_BYTES = 4096
_LINE_BYTES = 33
_MAXIMUM_LINES = 100_000  # the older half goes when there are more


def identity(reader: SnapshotReader) -> str:
    """32 hexadecimal digits. Of a damaged file they say nothing: see `SnapshotReader.require_whole`."""
    with open(open_regular(reader.path), "rb") as file:
        file.seek(max(0, reader.file_bytes - _TRAILER_BYTES))
        return blake3(file.read(_TRAILER_BYTES)).hexdigest(length=16)


def list_path() -> Path:
    """The list in the user's state folder."""
    return state_folder() / "captured"


def remember(path: Path) -> None:
    """This user captured the snapshot here. Where that cannot be kept, it is a stranger's."""
    with suppress(OSError, RuntimeError):  # no home folder
        kept = list_path()
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with SnapshotReader(path) as reader:
            line = f"{identity(reader)}\n".encode("ascii")
        known = _read(kept)
        if len(known) > _MAXIMUM_LINES * _LINE_BYTES:
            temporary = kept.with_name(f"captured.{os.getpid()}")
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(known[-(_MAXIMUM_LINES // 2) * _LINE_BYTES :] + line)
            temporary.replace(kept)
            return
        with open(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(line)


def is_own(reader: SnapshotReader) -> bool:
    """Whether this user captured this very file on this machine. False where that cannot be told."""
    if not reader.condition.whole:
        return False
    try:
        return f"{identity(reader)}\n".encode("ascii") in _read(list_path()).splitlines(keepends=True)
    except (OSError, RuntimeError):
        return False


def _read(path: Path) -> bytes:
    """The list; empty when it is absent, or when somebody else could have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not is_private(status):
            return b""
        return file.read(2 * _MAXIMUM_LINES * _LINE_BYTES)
