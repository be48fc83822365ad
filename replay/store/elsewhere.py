"""Brings the chunks that a snapshot has elsewhere. Nothing is used before its digest was compared.

Pieces that came over a network are kept in a cache of the user's, so that a fetch that was cut off goes on where it
was, and the next replay need not ask. What came more than CACHED_S ago leaves it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from replay.errors import DamagedError, FileError, ReplayError
from replay.store.folder import FolderStore
from replay.store.model import BESIDE, Reference, Store, WeightsName
from replay.store.named import by_options, stores_for
from replay.store.weights.files import WeightsFile, candidates
from replay.text import size

CACHED_S = 30 * 86400
BATCH_BYTES = 16 << 20  # asked for at once

Wanted = tuple[bytes, Reference]


def cache_folder() -> Path:
    """Of pieces that came over a network."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return cache / "replay" / "pieces"


class Elsewhere:
    """What a snapshot in `folder` may have elsewhere: in the stores that were named, beside it, and in `weights`.
    Threads may call `bring`."""

    def __init__(self, folder: Path, weights: Sequence[WeightsName] = ()) -> None:
        self._folder = folder
        self._names = {name.digest: name for name in weights}
        self._stores: list[Store] | None = None
        self._left_out: list[str] = []
        self._cache: FolderStore | None = None
        self._files: dict[bytes, list[WeightsFile]] = {}

    @property
    def names(self) -> list[WeightsName]:
        """The weights that the snapshot names."""
        return list(self._names.values())

    def close(self) -> None:
        """Close the files of weights."""
        for files in self._files.values():
            for file in files:
                file.close()
        self._files.clear()

    def bring(self, wanted: Sequence[Wanted]) -> list[bytes]:
        """The bytes of each chunk, compared with its digest. Raises FileError for one that is nowhere, DamagedError for
        one that is wrong, UsageError for a store that cannot be asked."""
        pieces = self._pieces([item for item in wanted if not item[1].parts])
        return [
            self._assembled(digest, reference) if reference.parts else pieces[digest]
            for digest, reference in wanted
        ]

    def bring_all(
        self, wanted: Iterable[Wanted], in_order: Callable[..., Iterator[list[bytes]]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """As `bring`, of many: (digest, bytes) of each. in_order: as `SnapshotWriter.in_order`, which works ahead."""
        jobs = list(batches(wanted))
        self._open()
        for batch, brought in zip(jobs, in_order(self.bring, jobs), strict=True):
            yield from zip((digest for digest, _ in batch), brought, strict=True)

    def _open(self) -> list[Store]:
        if self._stores is None:
            stores, self._left_out = stores_for(self._folder)
            if self._left_out or any(store.is_remote for store in stores):
                with suppress(RuntimeError):  # no home folder
                    self._cache = FolderStore(cache_folder())
                    _forget_old(self._cache)
            self._stores = ([self._cache] if self._cache is not None else []) + stores
        return self._stores

    def _pieces(self, wanted: Sequence[Wanted]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        wrong: dict[bytes, str] = {}
        for store in self._open():
            missing = [(digest, reference.length) for digest, reference in wanted if digest not in found]
            if not missing:
                break
            here = {}
            try:
                answer = store.read(missing)
            except FileError as error:
                raise FileError(f"{store.name}: {error.what}", next=error.next) from None
            for (digest, length), data in zip(missing, answer, strict=True):
                if data is None:
                    continue
                if len(data) == length and blake3(data).digest(length=len(digest)) == digest:
                    here[digest] = data
                elif store is not self._cache:
                    wrong[digest] = store.name
            if store.is_remote and self._cache is not None:
                with suppress(FileError):  # a full disk: then it is asked for again
                    self._cache.write(list(here.items()))
            found.update(here)
        for digest, reference in wanted:
            if digest not in found:
                raise self._absent(digest, reference.length, wrong.get(digest))
        return found

    def _absent(self, digest: bytes, length: int, wrong_in: str | None) -> ReplayError:
        piece = f"piece {digest.hex()} ({size(length)})"
        stores = [store.name for store in self._open() if store is not self._cache]
        if wrong_in is not None:
            return DamagedError(f"{piece} in {wrong_in} is wrong: its BLAKE3 is another one",
                                next="name another store that has it, or put it there again from the raw capture: "
                                     "`replay pack RAW --external STORE`")  # fmt: skip
        if self._left_out:
            return FileError(f"{piece} is not on this machine, and --offline keeps from asking {self._left_out[0]}",
                             next="run it once without --offline")  # fmt: skip
        if stores:
            return FileError(
                f"{piece} is not in {', '.join(stores)}", next="name the store that has it: --store"
            )
        return FileError(
            f"{piece} and others are in a store, and none is named",
            next=f"name it with --store or REPLAY_STORE, or put the folder beside the snapshot as {BESIDE}",
        )

    def _assembled(self, digest: bytes, reference: Reference) -> bytes:
        """Of parts. Of several files that could be the right one, the first that gives the digest stays."""
        needed = {part.weights for part in reference.parts if part.weights}
        for place in range(max((len(self._of(one)) for one in needed), default=1)):
            files = {one: self._of(one)[min(place, len(self._of(one)) - 1)] for one in needed}
            data = b"".join(
                files[part.weights].read(part.offset, part.length) if part.weights else part.literal
                for part in reference.parts
            )
            if blake3(data).digest(length=len(digest)) == digest:
                for one, right in files.items() if place else ():
                    self._files[one] = [right, *(file for file in self._files[one] if file is not right)]
                return data
        names = ", ".join(str(self._names[one]) for one in sorted(needed))
        raise DamagedError(
            f"{names} is not the file that was captured with: piece {digest.hex()} ({size(reference.length)}) "
            "of it is another one", next="name the right one with --weights",
        )  # fmt: skip

    def _of(self, digest: bytes) -> list[WeightsFile]:
        """Files that may have this digest."""
        if digest not in self._files:
            name = self._names.get(digest)
            if name is None:
                raise DamagedError(f"needs weights {digest.hex()} and does not say which file that is")
            files = candidates(name, by_options.weights, self._folder)
            if not files:
                what = f"hf download {name.hub} {name.name}" if name.hub else "name it with --weights"
                raise FileError(
                    f"needs {name} ({name.size_bytes:,} bytes), which is not here",
                    next=f"{what}, or put it beside the snapshot",
                )
            self._files[digest] = files
        return self._files[digest]


def batches(wanted: Iterable[Wanted]) -> Iterator[list[Wanted]]:
    """What to ask for at once, in order."""
    batch: list[Wanted] = []
    left = BATCH_BYTES
    for item in wanted:
        batch.append(item)
        left -= item[1].length
        if left <= 0:
            yield batch
            batch, left = [], BATCH_BYTES
    if batch:
        yield batch


def _forget_old(cache: FolderStore) -> None:
    if cache.folder.is_dir():
        oldest_s = time.time() - CACHED_S
        cache.remove_left(oldest_s)
        for piece in cache.held():
            if piece.modified_s is not None and piece.modified_s < oldest_s:
                cache.delete(piece)
