"""Chunks of a snapshot on their way to where they are loaded: read frame by frame, by several threads.

A frame of the file holds neighbouring chunks. It is decompressed once, whoever wants its chunks and however often, and
the thread that decompressed it checks them and hands them over while they are in the caches of its processor. What the
threads hold is bounded in bytes, and is the same memory from frame to frame.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise

from replay.errors import ReplayError
from replay.snapshot.container import FrameDecompressor, SnapshotReader
from replay.snapshot.schema import Range

MAXIMUM_THREADS = 8  # the calling one among them
HELD_BYTES = 256 << 20  # of all threads; frames may have 64 MiB, those that are written here have 4
SMALLEST_BYTES = 4 << 20  # below, threads cost more than they save


@dataclass(frozen=True, slots=True)
class Stretch:
    """A chunk, and the place in a range where it belongs."""

    digest: bytes
    size_bytes: int
    range_: Range
    offset: int


@dataclass(slots=True)
class Piece:
    """A stretch of a decompressed frame, which is not copied: valid until whoever got it returns."""

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
class _Frame:
    """What is wanted of a frame. chunks: (digest, offset in the frame, bytes) of each; stretches: theirs."""

    number: int
    chunks: dict[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    stretches: list[Stretch] = field(default_factory=list)


class Loader:
    """Hands chunks over, in the order of the file.

    write: gets each stretch with its bytes, in whichever thread; an error that it raises ends the loading. alone:
    whether a stretch is for the calling thread only. helping: around the work of every other thread. progress: called
    in the calling thread now and then, with the bytes that all threads have handed over.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        stretches: Iterable[Stretch],
        write: Callable[[Stretch, bytes | Piece], None],
        *,
        alone: Callable[[Stretch], bool] = lambda stretch: False,
        helping: Callable[[], AbstractContextManager[None]] = nullcontext,
        progress: Callable[[int], None] = lambda size_bytes: None,
    ) -> None:
        self._reader = reader
        self._write = write
        self._helping = helping
        self._progress = progress
        self._unread: deque[Stretch] = deque()  # for the reader, which names what is wrong
        frames = self._frames(stretches)
        self._own: deque[_Frame] = deque()
        shared: list[_Frame] = []
        for frame in frames:
            (self._own if any(map(alone, frame.stretches)) else shared).append(frame)
        self._frame_bytes = max((reader.frame_bytes(frame.number) for frame in frames), default=0) or 1
        self.threads = 1
        if sum(stretch.size_bytes for frame in shared for stretch in frame.stretches) >= SMALLEST_BYTES:
            most = min(MAXIMUM_THREADS, len(os.sched_getaffinity(0)), HELD_BYTES // self._frame_bytes)
            self.threads = max(1, min(most, len(shared)))
        # Each thread has its part of the file, and with it mostly buffers of its own: threads that write to one
        # buffer alternately wait for each other.
        ends = [len(shared) * number // self.threads for number in range(self.threads + 1)]
        self._parts = [deque(shared[start:end]) for start, end in pairwise(ends)]
        self._done_bytes = 0
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Hand everything over. Raises what `SnapshotReader.chunk` and `write` raise."""
        helpers = [
            threading.Thread(target=self._help, args=(number,), name=f"load-{number}", daemon=True)
            for number in range(1, self.threads)
        ]
        for number, helper in enumerate(helpers):
            try:
                helper.start()
            except RuntimeError:  # the system gives no more threads: those that are there take over
                del helpers[number:]
                break
        try:
            self._work(0, self._progress)
        except BaseException as error:
            self._error = self._error or error
        for helper in helpers:
            helper.join()
        if self._error is not None:
            raise self._error
        while self._unread:
            stretch = self._unread.popleft()
            self._write(stretch, self._reader.chunk(stretch.digest, stretch.size_bytes))

    def _frames(self, stretches: Iterable[Stretch]) -> list[_Frame]:
        frames: dict[int, _Frame] = {}
        for stretch in stretches:
            place = self._reader.place_of_chunk(stretch.digest)
            if place is None or place[2] != stretch.size_bytes:
                self._unread.append(stretch)
                continue
            number, offset, length = place
            frame = frames.setdefault(number, _Frame(number))
            frame.chunks[stretch.digest] = (stretch.digest, offset, length)
            frame.stretches.append(stretch)
        return [frames[number] for number in sorted(frames)]

    def _help(self, number: int) -> None:
        try:
            with self._helping():
                self._work(number)
        except BaseException as error:  # the calling thread raises it
            self._error = error

    def _next(self, number: int) -> _Frame | None:
        """The next frame of a thread's own part, or the last one of the longest that is left."""
        with self._lock:
            if number == 0 and self._own:
                return self._own.popleft()
            if self._parts[number]:
                return self._parts[number].popleft()
            longest = max(self._parts, key=len)
            return longest.pop() if longest else None

    def _work(self, number: int, progress: Callable[[int], None] = lambda size_bytes: None) -> None:
        decompressor, content = FrameDecompressor(), bytearray()
        while self._error is None and (frame := self._next(number)) is not None:
            if not content:
                content = bytearray(self._frame_bytes)
            try:
                self._reader.checked_frame(frame.number, frame.chunks.values(), decompressor, content)
            except ReplayError:
                self._unread.extend(frame.stretches)
                continue
            for stretch in frame.stretches:
                _, offset, length = frame.chunks[stretch.digest]
                self._write(stretch, Piece(content, offset, length))
            with self._lock:
                self._done_bytes += sum(stretch.size_bytes for stretch in frame.stretches)
            progress(self._done_bytes)
