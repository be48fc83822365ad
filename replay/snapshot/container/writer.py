"""Writes a snapshot: typed msgpack objects in order, and memory chunks stored once.

Hashing and compression run on a few threads; frames reach the file in the order in which they were filled, so the
same calls make the same file. Memory is bounded by the threads, not by the snapshot, apart from one dictionary entry
for each different chunk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgpack

from replay import interrupts
from replay.errors import LimitError
from replay.records import dataclass
from replay.snapshot.container import frames
from replay.snapshot.container.assembling import Done, FrameAssembler, Job, OpenFrame
from replay.snapshot.container.chunking import (
    HasFileno,
    Hashed,
    chunk_digest,
    hash_group,
    read_exactly,
    reader,
)
from replay.snapshot.container.frames import MAX_CHUNK_BYTES, ZERO_DIGEST
from replay.snapshot.container.objects import BLOCK_KIND, CHUNK_KINDS, BlockCounter, chunk_head
from replay.snapshot.container.references import REFERENCED, pack_reference, pack_weights

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from replay.store.model import Part, WeightsName

# A frame is closed when it would grow beyond; small, so that one object is found cheaply
OBJECT_FRAME_BYTES = 1 << 20
# From this size on, a new kind begins a new frame, so that a reader can leave kinds out
KIND_CHANGE_BYTES = 32 << 10
CHUNK_FRAME_BYTES = 4 << 20  # where compressing more at once stops to pay


class PutsElsewhere(Protocol):
    """Keeps bytes of chunks elsewhere. minimum_bytes: of contents whose chunks it is asked to take."""

    minimum_bytes: int

    def take(self, digest: bytes, data: bytes | memoryview) -> Sequence[Part] | None:
        """The parts of a reference, empty for a piece of a store; None: the chunk belongs into the file. Chunks of
        contents come in their order. Raises FileError, also of earlier ones."""
        ...

    def finish(self) -> Sequence[WeightsName]:
        """All that was taken is safe from now on. The weights that parts need. Raises FileError."""
        ...


@dataclass
class WriterStatistics:
    """What became of the chunks so far, in bytes before compression; `file_bytes` is the size of the whole file.
    elsewhere_bytes: of those that the file has only references of."""

    chunks: int = 0
    chunk_bytes: int = 0
    stored_chunks: int = 0
    stored_bytes: int = 0
    zero_bytes: int = 0
    repeated_bytes: int = 0
    file_bytes: int = 0
    elsewhere_bytes: int = 0


class SnapshotWriter:
    """Context manager that writes the snapshot `path`.

    The file appears under its name, complete and on disk, when the block ends without an exception; otherwise nothing
    is left. An existing file is replaced at that moment. Not thread safe.
    several_windows: objects are written window by window, each begun by `begin_window`; what is written before the
    first one belongs to all of them. Interrupts wait for the next object or chunk until it is closed.
    elsewhere: takes the chunks of large contents (`of_contents`). durable: False for a file that only this process
    needs.
    Raises FileError when the folder cannot be written or the disk is full.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        several_windows: bool = False,
        elsewhere: PutsElsewhere | None = None,
        durable: bool = True,
    ) -> None:
        self.path = Path(path)
        self.statistics = WriterStatistics()
        self._objects = OpenFrame()
        self._memory = OpenFrame()
        self._references = OpenFrame()  # apart from memory, so that they are read without it
        self._elsewhere, self._takes = elsewhere, False  # whether the contents of now are for elsewhere
        self._durable = durable
        self._block_calls, self._calls_in_blocks = BlockCounter(), 0
        self._patches: set[bytes] = set()  # of these, the ones that are kept as patches
        self._frames = FrameAssembler(self.path, threads, several_windows)
        self._holds = True  # interrupts, which come where objects and chunks do
        interrupts.hold()
        try:
            self._frames.open()
        except BaseException:
            self.abort()
            raise

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def write(self, kind: str, value: object, *, flat: bool = False) -> None:
        """Append the object [kind, value]. `value` is anything that msgpack stores without extension types.

        flat: the caller knows that it is nested no deeper than a reader takes; looking costs more than packing.
        Raises LimitError when the packed object exceeds 16 MiB or is nested too deeply for a reader, or blocks of calls
        have more calls than it takes.
        """
        interrupts.check()
        if kind in CHUNK_KINDS or not 0 < len(kind) <= frames.MAX_KIND_LENGTH:
            raise ValueError(f"not a kind of object: {kind!r}")
        if not flat and frames.nests_deeper_than(value, frames.MAX_NESTING):
            raise LimitError(f"an object of kind {kind!r} is nested too deeply", where=self.path)
        if kind == BLOCK_KIND:
            self._calls_in_blocks = self._block_calls.add(0, self._calls_in_blocks, value)
        data = msgpack.packb([kind, value], use_bin_type=True)
        if len(data) > frames.MAX_OBJECT_BYTES:
            raise LimitError(
                f"an object of kind {kind!r} has {len(data)} bytes, more than {frames.MAX_OBJECT_BYTES}",
                where=self.path,
                next="store its contents with write_chunks_from and keep the digests in the object",
            )
        frame = self._objects
        other_kind = frame.size >= KIND_CHANGE_BYTES and frame.last_kind != kind
        if frame.size and (frame.size + len(data) > OBJECT_FRAME_BYTES or other_kind):
            self._frames.submit(frame)
            frame = self._objects = OpenFrame()
        frame.add(kind, data)

    def begin_window(self, value: object) -> None:
        """Append the object ["window", value] and let a new window begin with it."""
        if self._objects.size:
            self._frames.submit(self._objects)
            self._objects = OpenFrame()
        self._frames.begin_window()
        self.write("window", value)

    def write_chunk(self, data: ReadableBuffer) -> bytes:
        """Store 1 byte to 1 MiB of memory and return its digest.

        Equal contents are stored once; all-zero memory is not stored and has ZERO_DIGEST. `data` is copied; the
        caller may change it afterwards.
        """
        piece = bytes(data)
        if not 0 < len(piece) <= MAX_CHUNK_BYTES:
            raise ValueError(f"a chunk has 1 to {MAX_CHUNK_BYTES} bytes, not {len(piece)}")
        digest = chunk_digest(memoryview(piece))
        self._store(digest, piece, copy=False)
        return digest

    def write_chunks_from(
        self,
        source: ReadableBuffer | HasFileno,
        offset: int,
        length: int,
        chunk_bytes: int = MAX_CHUNK_BYTES,
    ) -> list[bytes]:
        """Store `length` bytes of `source` from `offset` on, cut every `chunk_bytes`; return the digest of
        each chunk, in order. The last chunk may be shorter.

        source: an open file, which is read by `pread` with bounded memory, or anything with the buffer protocol, which
        is not used any more after the return.
        Raises FileError when the source ends early or cannot be read.
        """
        if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
            raise ValueError(f"a chunk has 1 to {MAX_CHUNK_BYTES} bytes, not {chunk_bytes}")
        if offset < 0 or length < 0:
            raise ValueError("offset and length must not be negative")
        read, is_file = reader(source)
        digests: list[bytes] = []
        if length <= chunk_bytes:
            if length:
                digests.append(self.write_chunk(read_exactly(read, offset, length)))
            return digests
        group = max(chunk_bytes, CHUNK_FRAME_BYTES // chunk_bytes * chunk_bytes)

        def hashed_group(start: int) -> Hashed:
            return hash_group(read, start, min(group, offset + length - start), chunk_bytes)

        for hashed in self.in_order(hashed_group, range(offset, offset + length, group)):
            self.store(hashed)
            digests += (digest for digest, _ in hashed)
        if not is_file:
            self._memory.pieces = [bytes(piece) for piece in self._memory.pieces]
            self._frames.drain(0)
        return digests

    def holds(self, digest: bytes) -> bool:
        """Whether a chunk of this digest was stored."""
        return digest in self._frames.chunks

    def holds_whole(self, digest: bytes) -> bool:
        """Whether a chunk of this digest was stored, and not as a patch."""
        return digest in self._frames.chunks and digest not in self._patches

    def store_patch(self, digest: bytes, patch: bytes) -> None:
        """Store a chunk as what differs from another one (`frames.make_patch`) that `holds_whole`."""
        interrupts.check()
        if digest in self._frames.chunks:
            self.statistics.chunks += 1
            self.statistics.repeated_bytes += len(patch)
            return
        self._patches.add(digest)
        self._put_chunk("patch", digest, patch, len(patch) | frames.PATCHED)

    def store_reference(self, digest: bytes, length: int, parts: Sequence[Part]) -> None:
        """Store where the bytes of a chunk are instead of these. Of weights that parts name: `store_weights`."""
        interrupts.check()
        if digest not in self._frames.chunks:
            self.statistics.elsewhere_bytes += length
            data = pack_reference(length, parts)
            self._put_chunk("reference", digest, data, len(data) | REFERENCED)

    def store_weights(self, name: WeightsName) -> None:
        """Say of which file of weights parts of references are."""
        data = pack_weights(name)
        self._references.add("weights", chunk_head("weights", name.digest, len(data)), data)

    @contextmanager
    def of_contents(self, size_bytes: int) -> Iterator[None]:
        """The chunks that are stored inside are those of contents of that size."""
        self._takes = self._elsewhere is not None and size_bytes >= self._elsewhere.minimum_bytes
        try:
            yield
        finally:
            self._takes = False

    def in_order(self, job: Callable[[Job], Done], items: Iterable[Job]) -> Iterator[Done]:
        """What `job` makes of each item, in their order; some are worked on ahead, in threads."""
        return self._frames.in_order(job, items)

    def store(self, hashed: Hashed) -> None:
        """Store chunks by their `chunk_digest`. A view that is new is kept until its frame is written, and with it what
        it is a part of: where only some of several are new, those are copied."""
        new = sum(digest != ZERO_DIGEST and digest not in self._frames.chunks for digest, _ in hashed)
        for digest, view in hashed:
            self._store(digest, view, copy=new < len(hashed))

    def close(self) -> None:
        """Write what is open, the index and the trailer; sync; give the file its name. Raises FileError."""
        try:
            for name in self._elsewhere.finish() if self._elsewhere is not None else ():
                self.store_weights(name)
            for frame in (self._objects, self._memory, self._references):
                if frame.size:
                    self._frames.submit(frame)
            self._frames.complete(bool(self._patches), self._durable)
            self.statistics.file_bytes = self._frames.size_bytes
        finally:
            self.abort()

    def abort(self) -> None:
        """Give up: leave no file. Does nothing after `close`."""
        if not self._holds:
            return
        self._frames.close()
        self._holds = False
        interrupts.release()

    def _store(self, digest: bytes, data: bytes | memoryview, copy: bool) -> None:
        interrupts.check()
        self.statistics.chunks += 1
        self.statistics.chunk_bytes += len(data)
        if digest == ZERO_DIGEST:
            self.statistics.zero_bytes += len(data)
        elif digest in self._frames.chunks:
            self.statistics.repeated_bytes += len(data)
        elif self._takes and (parts := self._elsewhere.take(digest, data)) is not None:  # type: ignore[union-attr]
            self.store_reference(digest, len(data), parts)
        else:
            self._put_chunk("chunk", digest, bytes(data) if copy else data, len(data))

    def _put_chunk(self, kind: str, digest: bytes, data: bytes | memoryview, length: int) -> None:
        """length: as its record has it."""
        self.statistics.stored_chunks += 1
        self.statistics.stored_bytes += len(data)
        head = chunk_head(kind, digest, len(data))
        frame = self._references if kind == "reference" else self._memory
        # The 4 KiB are room for the heads, so that four chunks of 1 MiB make one frame.
        if frame.size and frame.size + len(head) + len(data) > CHUNK_FRAME_BYTES + 4096:
            self._frames.submit(frame)
            frame = OpenFrame()
            if kind == "reference":
                self._references = frame
            else:
                self._memory = frame
        self._frames.chunks[digest] = b""
        frame.chunks.append((digest, frame.size + len(head), length))
        frame.add(kind, head, data)
