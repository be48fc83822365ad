"""Chunks of a snapshot in the order in which they are loaded, decompressed and checked by threads ahead of the copies.

A frame of the file holds neighbouring chunks, and is decompressed once for as long as it is among the last few of those
that are used again. What threads may hold is bounded in frames and in bytes, and is the same memory from frame to
frame, which thereby stays in the caches of the processor.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from replay.errors import ReplayError
from replay.snapshot.container import FrameDecompressor, SnapshotReader

KEPT_FRAMES = 8  # of those that are used again; equal chunks are stored once and may be far apart
KEPT_BYTES = 128 << 20  # of these; frames may have 64 MiB, those that are written here have 4
MAXIMUM_THREADS = 8
FRAMES_AHEAD = 1  # for each thread, besides the one it is at
BYTES_AHEAD = 256 << 20  # of all threads
SMALLEST_BYTES = 4 << 20  # below, threads cost more than they save


@dataclass(slots=True)
class Piece:
    """A stretch of a decompressed frame, which is not copied: valid until the next chunk is asked for."""

    content: bytearray
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __bytes__(self) -> bytes:
        with memoryview(self.content) as view:
            return bytes(view[self.offset : self.offset + self.length])

    @property
    def address(self) -> int:
        """Where it lies in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.content, self.offset))


@dataclass
class _Visit:
    """A stretch of the plan that is read from one frame. chunks: digest, offset in the frame, bytes."""

    frame: int
    decompress: bool = True  # False: it is among those that are kept
    last: bool = False  # nothing of the frame is used afterwards
    chunks: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    count: int = 0


@dataclass
class _Job:
    """A frame for one of the threads."""

    visit: _Visit
    content: bytearray
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class ChunksAhead:
    """Chunks by digest, to be asked for in the planned order. A context manager; for one thread.

    plan: digest and length of each chunk. One that is asked for out of order comes from the reader itself.
    """

    def __init__(self, reader: SnapshotReader, plan: Iterable[tuple[bytes, int]]) -> None:
        self._reader = reader
        places = _places(reader, plan)
        sizes = (reader.frame_bytes(number) for number in {place[0] for _, place in places})
        self._frame_bytes = max(sizes, default=0) or 1  # of the largest
        self._kept = max(1, min(KEPT_FRAMES, KEPT_BYTES // self._frame_bytes))
        self._visits = _visits(places, self._kept)
        self._threads = max(1, min(MAXIMUM_THREADS, os.cpu_count() or 1))
        self._ahead = max(1, min(self._threads * (FRAMES_AHEAD + 1), BYTES_AHEAD // self._frame_bytes))
        # No concurrent.futures, whose import takes longer than a small snapshot does to load.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers: list[threading.Thread] = []
        self._stopped = False
        self._pending: deque[_Job] = deque()
        self._submitted = 0  # visits
        self._frames: OrderedDict[int, bytearray] = OrderedDict()
        self._free: list[bytearray] = []
        self._visit: _Visit | None = None
        self._left = 0  # chunks of the visit
        self._next = 0  # visit

    def __enter__(self) -> ChunksAhead:
        self._submit()
        for number in range(min(self._threads, len(self._pending))):
            self._workers.append(threading.Thread(target=self._work, name=f"load-{number}", daemon=True))
            self._workers[-1].start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped = True
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()

    def chunk(self, digest: bytes, size_bytes: int) -> bytes | Piece:
        """The contents of a chunk. Raises what `SnapshotReader.chunk` raises."""
        try:
            if self._left == 0:
                self._advance()
            assert self._visit is not None
            offset, length = self._visit.chunks[digest]
            content = self._frames[self._visit.frame]
        except (KeyError, IndexError, ReplayError):
            # Not planned, or damaged: the reader names the chunk.
            self._left = max(0, self._left - 1)
            return self._reader.chunk(digest, size_bytes)
        self._left -= 1
        if length != size_bytes:
            return self._reader.chunk(digest, size_bytes)
        return Piece(content, offset, length)

    def _advance(self) -> None:
        if self._visit is not None and self._visit.last and self._visit.frame in self._frames:
            self._free.append(self._frames.pop(self._visit.frame))
        visit = self._visits[self._next]
        self._next += 1
        self._visit, self._left = visit, visit.count
        if visit.decompress:
            if len(self._frames) == self._kept:
                self._free.append(self._frames.popitem(last=False)[1])
            job = self._pending.popleft()
            self._submit()
            job.done.wait()
            if job.error is not None:
                self._free.append(job.content)
                raise job.error
            self._frames[visit.frame] = job.content
        self._frames.move_to_end(visit.frame)

    def _submit(self) -> None:
        while self._submitted < len(self._visits) and len(self._pending) < self._ahead:
            visit = self._visits[self._submitted]
            self._submitted += 1
            if visit.decompress:
                content = self._free.pop() if self._free else bytearray(self._frame_bytes)
                self._pending.append(_Job(visit, content))
                self._jobs.put(self._pending[-1])

    def _work(self) -> None:
        """What each thread does until it is stopped."""
        decompressor = FrameDecompressor()
        while (job := self._jobs.get()) is not None and not self._stopped:
            try:
                places = [(digest, *place) for digest, place in job.visit.chunks.items()]
                self._reader.checked_frame(job.visit.frame, places, decompressor, job.content)
            except BaseException as error:  # whoever waits for the frame gets it
                job.error = error
            job.done.set()


def _places(
    reader: SnapshotReader, plan: Iterable[tuple[bytes, int]]
) -> list[tuple[bytes, tuple[int, int, int]]]:
    """Where the chunks of the plan are, in its order. Those that are not in the file are left out."""
    known: dict[bytes, tuple[int, int, int] | None] = {}
    found = []
    for digest, _ in plan:
        if digest not in known:
            known[digest] = reader.place_of_chunk(digest)
        place = known[digest]
        if place is not None:
            found.append((digest, place))
    return found


def _visits(places: Iterable[tuple[bytes, tuple[int, int, int]]], kept: int) -> Sequence[_Visit]:
    """The frames in the order of their use."""
    visits: list[_Visit] = []
    for digest, (frame, offset, length) in places:
        if not visits or visits[-1].frame != frame:
            visits.append(_Visit(frame))
        visits[-1].count += 1
        visits[-1].chunks[digest] = (offset, length)
    last_use = {visit.frame: number for number, visit in enumerate(visits)}
    held: OrderedDict[int, _Visit] = OrderedDict()  # as `ChunksAhead` will hold them, by their decompression
    for number, visit in enumerate(visits):
        if visit.frame in held:
            visit.decompress = False
            held[visit.frame].chunks.update(visit.chunks)  # checked when the frame is decompressed
            held.move_to_end(visit.frame)
        else:
            if len(held) == kept:
                held.popitem(last=False)
            held[visit.frame] = visit
        if last_use[visit.frame] == number:
            visit.last = True
            del held[visit.frame]
    return visits
