"""Pieces of a store that no snapshot needs: those of all snapshots under roots that the user names are kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replay.errors import FileError, ReplayError, UsageError
from replay.snapshot.container import SnapshotReader
from replay.store.folder import FolderStore
from replay.store.model import Held, Store
from replay.store.named import open_store

GRACE_S = 7 * 86400.0
SUFFIX = ".rsnap"
PARTIAL_S = 86400.0  # after which a temporary file is nobody's any more


@dataclass(frozen=True)
class Piece:
    """A piece that no snapshot needs. digest: its name. age_s: since it was last written or asked for."""

    digest: str
    size_bytes: int
    age_s: float


@dataclass(frozen=True)
class Unused:
    """What a store holds that no snapshot under the roots needs. store, roots: as they were named. grace_s: so long a
    piece that none needs is kept. snapshots: how many were read. pieces, piece_bytes: of
    the whole store; needed, needed_bytes: of these, what snapshots need. young, young_bytes: what none needs, but was
    written or asked for within the grace period, or whose age the store does not tell. unused: what is older.
    deleted, deleted_bytes: of these, what was deleted. absent: pieces that snapshots need and the store does not have.
    """

    store: str
    roots: list[str]
    grace_s: float
    snapshots: int = 0
    pieces: int = 0
    piece_bytes: int = 0
    needed: int = 0
    needed_bytes: int = 0
    young: int = 0
    young_bytes: int = 0
    unused: list[Piece] = field(default_factory=list)
    deleted: int = 0
    deleted_bytes: int = 0
    absent: int = 0


def find_unused(
    store_name: str,
    roots: Sequence[Path],
    *,
    grace_s: float = GRACE_S,
    delete: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Unused:
    """Look through a store. delete: pieces that are unused for longer than the grace period.

    Raises FileError for a root that is not there or cannot be listed, and for a snapshot that cannot be read: what it
    needs is not known, so nothing is deleted.
    """
    if not roots:
        raise UsageError("name every folder of snapshots that use the store",
                         next="pieces that only other snapshots need would go")  # fmt: skip
    store = open_store(store_name)
    needed: set[bytes] = set()
    paths = [path for root in roots for path in _snapshots(root)]
    for number, path in enumerate(paths, 1):
        progress(f"reading snapshot {number} of {len(paths)}")
        needed |= _pieces_of(path)
    counts = dict.fromkeys(("pieces", "needed", "young"), 0)
    sizes = dict(counts)

    def count(what: str, piece: Held) -> None:
        counts[what] += 1
        sizes[what] += piece.size_bytes

    unused: list[Held] = []
    absent = set(needed)
    now = time.time()
    progress("listing the store")
    for piece in store.held():
        count("pieces", piece)
        absent.discard(piece.digest)
        if piece.digest in needed:
            count("needed", piece)
        elif piece.modified_s is None or now - piece.modified_s < grace_s:
            count("young", piece)
        else:
            unused.append(piece)
    gone = list(_deleted(store, unused, progress)) if delete else []
    if delete and isinstance(store, FolderStore):
        store.remove_left(now - max(grace_s, PARTIAL_S))
    return Unused(
        store.name,
        [os.fspath(root) for root in roots],
        grace_s,
        len(paths),
        counts["pieces"], sizes["pieces"],
        counts["needed"], sizes["needed"],
        counts["young"], sizes["young"],
        [Piece(item.digest.hex(), item.size_bytes, now - (item.modified_s or now)) for item in unused],
        len(gone),
        sum(item.size_bytes for item in gone),
        len(absent),
    )  # fmt: skip


def _snapshots(root: Path) -> Iterator[Path]:
    """A snapshot, or all in a folder and the folders in it; links to folders are not followed."""
    if root.is_file():
        yield root
        return

    def refuse(error: OSError) -> None:
        raise FileError.of(
            error, error.filename, next="nothing was deleted; make it readable, or name what is below it"
        )

    if not root.is_dir():
        raise FileError("no such folder or snapshot", where=root, next="nothing was deleted; check the name")
    for folder, _, names in sorted(os.walk(root, onerror=refuse)):
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(SUFFIX))


def _pieces_of(path: Path) -> set[bytes]:
    try:
        with SnapshotReader(path) as reader:
            reader.require_whole()
            return {digest for digest, reference in reader.references() if not reference.parts}
    except ReplayError as error:
        raise FileError(f"what it needs cannot be read: {error.what}", where=path,
                        next="nothing was deleted; mend it, or move it out of the folder") from None  # fmt: skip


def _deleted(store: Store, pieces: Sequence[Held], progress: Callable[[str], None]) -> Iterator[Held]:
    for number, piece in enumerate(pieces, 1):
        progress(f"deleting piece {number} of {len(pieces)}")
        if store.delete(piece):
            yield piece
