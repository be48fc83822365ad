"""Whether the disk has room for a snapshot, before it is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from replay.errors import FileError
from replay.text import size

_SECTOR_BYTES = 512  # in which st_blocks counts
_SMALLEST_BYTES = 1 << 20  # index, kernels and summary


def most_bytes(raw: Path) -> int:
    """What the snapshots of a raw capture take at most: all contents and calls of it, as if nothing were equal and
    nothing compressed. Holes, which stand for zeros, take nothing. Module images that are in files of the application
    are not counted: they are not in the raw capture."""
    total = _SMALLEST_BYTES
    for pattern in ("calls.*.bin", "blobs.*.bin"):
        for path in raw.glob(pattern):
            try:
                status = path.stat()
            except OSError:
                continue  # whoever reads it says so
            total += min(status.st_size, status.st_blocks * _SECTOR_BYTES)
    return total


def require_room(raw: Path, output: Path) -> None:
    """Raises FileError when the disk of `output` may be too small."""
    folder, needed = output.absolute().parent, most_bytes(raw)
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # whoever writes says so
    if needed > free:
        raise FileError(
            f"the snapshot may need {size(needed)}, and {size(free)} are free",
            where=folder,
            next=f"nothing was written; free some space, name a file on another disk with -o, or take the risk: "
            f"`replay pack {os.fspath(raw)} --ignore-space`",
        )
