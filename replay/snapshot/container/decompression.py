"""Decompresses frames into memory that is used again and again.

Fresh memory costs the kernel more time, page by page, than a frame takes to decompress, and threads that take and
return it wait for each other.
"""

from __future__ import annotations

import os

import zstandard

from replay.errors import DamagedError, FileError, ReplayError
from replay.snapshot.container import frames
from replay.snapshot.container.frames import FrameRecord


class FrameDecompressor:
    """For one thread."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=frames.MAX_FRAME_BYTES)
        self._compressed = bytearray()

    def decompress(self, descriptor: int, record: FrameRecord, content: bytearray) -> None:
        """Fill the beginning of `content` with a frame of the file. Raises DamagedError, FileError."""
        if len(self._compressed) < record.compressed_bytes:
            self._compressed = bytearray(record.compressed_bytes)
        size = record.uncompressed_bytes
        with (
            memoryview(self._compressed)[: record.compressed_bytes] as compressed,
            memoryview(content) as room,
        ):
            _fill(descriptor, record.offset, compressed)
            try:
                stated = zstandard.get_frame_parameters(compressed).content_size
                if stated != size or size > len(room):
                    raise _damaged(record, "the frame has another size than the index says")
                with self._decompressor.stream_reader(compressed) as stream, room[:size] as target:
                    if stream.readinto(target) != size:
                        raise _damaged(record, "the frame cannot be decompressed")
            except zstandard.ZstdError:
                raise _damaged(record, "the frame cannot be decompressed") from None


def _fill(descriptor: int, offset: int, room: memoryview) -> None:
    """Read as many bytes as there is room for."""
    done = 0
    while done < len(room):
        try:
            got = os.preadv(descriptor, [room[done:]], offset + done)
        except OSError as error:
            raise FileError((error.strerror or str(error)).lower()) from None
        if not got:
            raise DamagedError("the file has become shorter")
        done += got


def _damaged(record: FrameRecord, what: str) -> ReplayError:
    return DamagedError(what, where=f"frame at byte {record.offset}")
