"""The bytes of a snapshot that is read: whole frames of it, checked, and the places of its chunks.

A frame is decompressed into memory of its own, or, by FrameDecompressor, into memory that is used again and again:
fresh memory costs the kernel more time, page by page, than a frame takes to decompress, and threads that take and
return it wait for each other.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from pathlib import Path

import zstandard

from replay.errors import DamagedError, FileError, FormatError, LimitError, ReplayError
from replay.reading import open_regular
from replay.records import dataclass
from replay.snapshot.container import frames
from replay.snapshot.container.condition import Damage
from replay.snapshot.container.frames import FrameRecord

TABLE_DAMAGED = "the table of memory chunks is damaged"
RECOMMENDATION = "get the file again, or capture again; `replay verify` lists what is damaged"


class FrameFile:
    """A regular, non-empty file, open until `close`. path: of it. size_bytes: of all of it. descriptor: -1 after
    `close`. Raises FileError when it cannot be opened, FormatError when it is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = open_regular(
            path, "give a .rsnap file; make one of a raw capture with `replay pack`"
        )
        self.size_bytes = os.fstat(self.descriptor).st_size
        self._decompressor = zstandard.ZstdDecompressor()
        if not self.size_bytes:
            self.close()
            raise FormatError("is empty", where=path, next="get the file again, or capture again")

    def close(self) -> None:
        """A second time it does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` on; fewer only at the end of the file. Raises
        FileError."""
        pieces = []
        try:
            while size > 0:
                piece = os.pread(self.descriptor, size, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                size -= len(piece)
        except OSError as error:
            raise FileError.of(error, self.path) from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def next_magic(self, offset: int) -> int:
        """Offset of the next zstd magic from `offset` on, or the end of the file."""
        step = 1 << 20
        while offset < self.size_bytes:
            found = self.read(offset, step + 3).find(frames.ZSTD_MAGIC_BYTES)
            if found >= 0:
                return offset + found
            offset += step
        return self.size_bytes

    def decompress(self, record: FrameRecord) -> bytes:
        """The contents of a frame, at most MAX_FRAME_BYTES. Raises DamagedError, LimitError, FileError."""
        compressed = self.read(record.offset, record.compressed_bytes)
        if record.digest and frames.digest(compressed) != record.digest:
            raise DamagedError("the checksum does not match", where=f"frame at byte {record.offset}")
        try:
            size = zstandard.get_frame_parameters(compressed).content_size
            # The decompressor allocates what the header says, so the header is checked before.
            if size > frames.MAX_FRAME_BYTES:
                raise LimitError(
                    "the frame is larger than any that a snapshot has", where=f"byte {record.offset}"
                )
            content = self._decompressor.decompress(
                compressed, max_output_size=frames.MAX_FRAME_BYTES, allow_extra_data=False
            )
        except zstandard.ZstdError:
            raise DamagedError(
                "the frame cannot be decompressed", where=f"frame at byte {record.offset}"
            ) from None
        if record.digest and len(content) != record.uncompressed_bytes:
            raise DamagedError(
                "the frame has another size than the index says", where=f"byte {record.offset}"
            )
        return content


@dataclass
class ChunkTable:
    """The table of the chunks of a whole file, sorted by digest. offset, size_bytes, digest: of the table, as the index
    has them."""

    file: FrameFile
    offset: int
    size_bytes: int
    digest: bytes
    _records: bytes | None = None

    def records(self) -> bytes:
        """CHUNK_RECORD after CHUNK_RECORD. Raises DamagedError, FileError."""
        if self._records is None:
            content = self.file.read(self.offset, self.size_bytes)
            records = content[frames.SKIPPABLE_HEADER_SIZE + len(frames.CHUNK_TABLE_TAG) :]
            if frames.digest(content) != self.digest or len(records) % frames.CHUNK_RECORD.size:
                raise DamagedError(TABLE_DAMAGED, where=self.file.path, next=RECOMMENDATION)
            self._records = records
        return self._records

    def find(self, digest: bytes) -> tuple[int, int, int] | None:
        """(frame number, offset in the frame, length), None when the chunk is not listed. Raises DamagedError,
        FileError."""
        table, size = self.records(), frames.CHUNK_RECORD.size
        width = frames.DIGEST_BYTES
        at = size * bisect_left(
            range(len(table) // size), digest, key=lambda row: table[row * size : row * size + width]
        )
        if table[at : at + width] != digest:
            return None
        _digest, number, offset, length = frames.CHUNK_RECORD.unpack_from(table, at)
        return number, offset, length

    def damage(self, what: str) -> Damage:
        """Of the whole table."""
        return Damage(self.offset, self.size_bytes, what)

    def verify(self, found: dict[bytes, tuple[int, int, int]]) -> list[Damage]:
        """What is wrong with it, where the chunks that the frames hold are `found`: digest -> what `find` returns."""
        try:
            rows = frames.CHUNK_RECORD.iter_unpack(self.records())
            listed = {digest: (number, position, length) for digest, number, position, length in rows}
        except ReplayError as error:
            return [self.damage(error.what)]
        wrong = sum(listed.get(digest) != place for digest, place in found.items())
        return [self.damage(f"{wrong} memory chunks are not where the table says")] if wrong else []


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
            raise FileError.of(error) from None
        if not got:
            raise DamagedError("the file has become shorter")
        done += got


def _damaged(record: FrameRecord, what: str) -> ReplayError:
    return DamagedError(what, where=f"frame at byte {record.offset}")
