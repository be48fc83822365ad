"""Full frames on their way into the file: compressed on a few threads, appended in order, and listed in the index."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgpack
import zstandard

from replay import settings
from replay.errors import LimitError
from replay.records import dataclass
from replay.snapshot.container import frames
from replay.snapshot.container.objects import BLOCK_KIND
from replay.snapshot.container.output import OutputFile

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

LEVEL = 1

Job = TypeVar("Job")
Done = TypeVar("Done")


@dataclass
class OpenFrame:
    """A frame that is being filled; a worker thread joins its pieces."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    size: int = 0
    objects: int = 0
    kinds: dict[str, list[int]] = field(default_factory=dict)  # kind -> [objects, bytes]
    chunks: list[tuple[bytes, int, int]] = field(default_factory=list)  # digest, offset in the frame, length
    last_kind: str = ""

    def add(self, kind: str, *pieces: bytes | memoryview) -> None:
        size = sum(map(len, pieces))
        self.pieces += pieces
        self.size += size
        self.objects += 1
        counted = self.kinds.setdefault(kind, [0, 0])
        counted[0] += 1
        counted[1] += size
        self.last_kind = kind


class FrameAssembler:
    """Makes the file `path` of frames. A frame's number is the order in which it was submitted, which is also the order
    in the file. chunks: digest -> rest of the record of a chunk, empty until its frame is submitted. Not thread safe.

    threads: that compress; None: as `settings` say. several_windows: as of `SnapshotWriter`.
    """

    def __init__(self, path: Path, threads: int | None, several_windows: bool) -> None:
        self._threads = threads or settings.THREADS.value()
        self._depth = 2 * self._threads  # jobs under way of each sort; each holds about one chunk frame
        self._local = threading.local()
        self._pool: ThreadPoolExecutor | None = None
        self._compressing: deque[tuple[Future[tuple[bytes, bytes]], OpenFrame]] = deque()
        self._submitted = 0
        self._records: list[frames.FrameRecord] = []
        self._windows: list[int] | None = [] if several_windows else None  # number of the first frame of each
        self._kinds: dict[str, tuple[list[int], list[int]]] = {}  # kind -> ([objects, bytes], frame numbers)
        self.chunks: dict[bytes, bytes] = {}
        self._file = OutputFile(path)

    @property
    def size_bytes(self) -> int:
        """Of what was appended so far."""
        return self._file.size_bytes

    def open(self) -> None:
        """Raises FileError when the folder cannot be written, or the name is one of a folder."""
        self._file.open()
        self._file.append(frames.start_frame(self._windows is not None))

    def begin_window(self) -> None:
        """The next frame of objects is the first of a window. Raises LimitError when the file takes no more of them."""
        if self._windows is None or len(self._windows) >= frames.MAX_WINDOWS:
            raise LimitError("a file holds one window, or fewer than these", where=self._file.path)
        self._windows.append(-1)  # known when its frame is submitted

    def submit(self, frame: OpenFrame) -> None:
        """Hand a full frame to a worker."""
        number = self._submitted
        self._submitted += 1
        if self._windows and self._windows[-1] < 0 and not frame.chunks:
            self._windows[-1] = number
        for kind, (objects, size) in frame.kinds.items():
            totals, numbers = self._kinds.setdefault(kind, ([0, 0], []))
            totals[0] += objects
            totals[1] += size
            numbers.append(number)
        for digest, position, length in frame.chunks:
            self.chunks[digest] = frames.CHUNK_RECORD.pack(digest, number, position, length)[
                frames.DIGEST_BYTES :
            ]
        self._compressing.append((self._workers().submit(self._compress, frame.pieces), frame))
        self.drain(self._depth)

    def drain(self, leave: int) -> None:
        """Append finished frames, waiting for the oldest until at most `leave` are under way."""
        while len(self._compressing) > leave or (self._compressing and self._compressing[0][0].done()):
            future, frame = self._compressing.popleft()
            compressed, check = future.result()
            self._records.append(
                frames.FrameRecord(self._file.size_bytes, len(compressed), frame.size, frame.objects, check)
            )
            self._file.append(compressed)

    def in_order(self, job: Callable[[Job], Done], items: Iterable[Job]) -> Iterator[Done]:
        """What `job` makes of each item, in their order; some are worked on ahead, in the same threads."""
        under_way: deque[Future[Done]] = deque()
        try:
            for item in items:
                under_way.append(self._workers().submit(job, item))
                if len(under_way) >= self._depth:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def complete(self, patched: bool, durable: bool) -> None:
        """Append what is under way, the index and the trailer; give the file its name.

        patched: whether chunks are kept as patches. durable: sync first. Raises FileError, and LimitError when a reader
        takes no such index.
        """
        self.drain(0)
        self._append_index()
        needs = (patched, BLOCK_KIND in self._kinds, "reference" in self._kinds)
        self._file.complete(frames.start_frame(False, *needs) if any(needs) else b"", durable)

    def close(self) -> None:
        """Leave no file, unless it is complete."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._file.close()

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._threads, "replay-snapshot")
        return self._pool

    def _compress(self, pieces: list[bytes | memoryview]) -> tuple[bytes, bytes]:
        compressor = getattr(self._local, "compressor", None)
        if compressor is None:
            # The content checksum is what a scan of a truncated file, or any other zstd reader, has to check with.
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
            self._local.compressor = compressor
        content = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        pieces.clear()
        compressed = compressor.compress(content)
        return compressed, frames.digest(compressed)

    def _append_index(self) -> None:
        records = b"".join(digest + self.chunks[digest] for digest in sorted(self.chunks))
        table = frames.skippable(frames.CHUNK_TABLE_TAG + records)
        table_offset = self._file.size_bytes
        self._file.append(table)
        index: dict[str, Any] = {
            "frames": frames.pack_frame_records(self._records),
            "kinds": {kind: [*totals, numbers] for kind, (totals, numbers) in self._kinds.items()},
            "chunks": [table_offset, self._file.size_bytes - table_offset, frames.digest(table)],
        }
        if self._windows is not None:
            index["windows"] = self._windows
        content = frames.skippable(frames.INDEX_TAG + msgpack.packb(index))
        if len(content) > frames.MAX_INDEX_BYTES or len(table) > frames.MAX_TABLE_BYTES:
            raise LimitError(
                "the snapshot has more frames or memory chunks than a reader takes", where=self._file.path
            )
        index_offset = self._file.size_bytes
        self._file.append(content)
        file_bytes = self._file.size_bytes + frames.TRAILER_SIZE
        self._file.append(
            frames.trailer_frame(
                frames.Trailer(index_offset, len(content), frames.digest(content), file_bytes)
            )
        )
