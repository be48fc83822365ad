"""Takes chunks of large contents out of a snapshot that is written: into a store, or as stretches of weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replay.errors import UsageError
from replay.store.model import Part, Store, WeightsName
from replay.store.named import open_store
from replay.store.weights.files import open_named

if TYPE_CHECKING:
    from replay.store.weights.matching import Weights

MINIMUM_BYTES = 16 << 20
BATCH_PIECES = 64  # handed over at once: 16 MiB
_BATCHES_UNDER_WAY = 4
_THREADS = 4
# Of a chunk, beyond which it goes into the store whole although some of it is in weights
LARGEST_LITERAL_SHARE = 8


@dataclass
class Taken:
    """What was put elsewhere. store: its name, "" for none. pieces, piece_bytes: in the store; new_pieces, new_bytes:
    of these, what it did not have. weights_bytes: in the files of weights. weights: their names."""

    store: str = ""
    pieces: int = 0
    piece_bytes: int = 0
    new_pieces: int = 0
    new_bytes: int = 0
    weights_bytes: int = 0
    weights: list[str] = field(default_factory=list)


class Taker:
    """Satisfies `PutsElsewhere` of the container. A context manager; for one writer after the other. store: a folder or
    a URL, None for weights only. weights: values of --weights. minimum_bytes: of contents that are taken. Pieces that
    were written when something fails stay in the store: the next try finds them.

    Raises UsageError, FileError, FormatError for what cannot be used.
    """

    def __init__(
        self, store: str | None, weights: Sequence[str] = (), minimum_bytes: int = MINIMUM_BYTES
    ) -> None:
        if store is None and not weights:
            raise UsageError("neither a store nor weights are named")
        self.minimum_bytes = minimum_bytes
        self._store: Store | None = None if store is None else open_store(store)
        self.taken = Taken("" if self._store is None else self._store.name)
        self._files = [file for text in weights for file in open_named(text)]
        for file in self._files:
            file.tensors()
        self._weights: Weights | None = None
        self._used: dict[bytes, WeightsName] = {}
        self._batch: list[tuple[bytes, bytes]] = []
        self._writing: deque[Future[tuple[int, int]]] = deque()
        self._threads = ThreadPoolExecutor(_THREADS, "replay-store")

    def __enter__(self) -> Taker:
        return self

    def __exit__(self, *ending: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for file in self._files:
            file.close()

    def take(self, digest: bytes, data: bytes | memoryview) -> Sequence[Part] | None:
        """See `PutsElsewhere`."""
        if self._files and self._weights is None:
            from replay.store.weights.matching import Weights

            self._weights = Weights(self._files)
        parts = self._weights.parts(data) if self._weights is not None else []
        of_weights = sum(part.length for part in parts if part.weights)
        literal = len(data) - of_weights
        few = literal * LARGEST_LITERAL_SHARE <= len(data)
        if of_weights and (few or (self._store is None and literal * 2 <= len(data))):
            for file in self._files:
                if any(part.weights == file.name.digest for part in parts):
                    self._used[file.name.digest] = file.name
            self.taken.weights_bytes += of_weights
            return parts
        if self._store is None:
            return None
        self.taken.pieces += 1
        self.taken.piece_bytes += len(data)
        self._batch.append((digest, bytes(data)))
        if len(self._batch) >= BATCH_PIECES:
            self._hand_over(_BATCHES_UNDER_WAY)
        return ()

    def finish(self) -> Sequence[WeightsName]:
        """See `PutsElsewhere`."""
        self._hand_over(0)
        if self._store is not None:
            self._store.flush()
        used = list(self._used.values())
        self._used.clear()
        self.taken.weights += [str(name) for name in used if str(name) not in self.taken.weights]
        return used

    def _hand_over(self, leave: int) -> None:
        if self._store is not None and self._batch:
            self._writing.append(self._threads.submit(self._store.write, self._batch))
            self._batch = []
        while len(self._writing) > leave:
            new, new_bytes = self._writing.popleft().result()
            self.taken.new_pieces += new
            self.taken.new_bytes += new_bytes
