"""The frames a snapshot file is made of: zstd frames, and the skippable frames that carry everything else.

Pure functions over bytes and a `read(offset, size) -> bytes` callable. Nothing here trusts a length: each is checked
against the bytes that are there and against the limits below. The grammar is in FORMAT.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

from blake3 import blake3

from replay.errors import DamagedError, FormatError, TruncatedError, VersionError
from replay.records import dataclass

Read = Callable[[int, int], bytes]

FORMAT_MAJOR = 1  # raised when an older reader would misread the file; it refuses
MAJOR_OF_SEVERAL_WINDOWS = 2  # a reader of version 1 would take their objects for those of one window
MAJOR_OF_PATCHES = 3  # an older reader would miss the chunks that are kept as what differs from another one
MAJOR_OF_CALL_BLOCKS = 4  # an older reader would miss the calls that are kept in blocks
MAJOR_OF_REFERENCES = 5  # an older reader would miss the chunks whose bytes are elsewhere
NEWEST_MAJOR = 5
FORMAT_MINOR = 0  # raised when something is added that an older reader can pass over

SKIPPABLE_MAGIC = 0x184D2A52  # one of the sixteen that RFC 8878 section 3.1.2 leaves to users
ZSTD_MAGIC = 0xFD2FB528
ZSTD_MAGIC_BYTES = struct.pack("<I", ZSTD_MAGIC)

MAX_CHUNK_BYTES = 1 << 20
MAX_OBJECT_BYTES = 16 << 20  # one packed object that is no chunk
MAX_FRAME_BYTES = 64 << 20  # uncompressed
MAX_COMPRESSED_BYTES = MAX_FRAME_BYTES + (MAX_FRAME_BYTES >> 7)  # of a frame, with what zstd may add
MAX_INDEX_BYTES = 16 << 20  # some 500,000 frames
MAX_TABLE_BYTES = 256 << 20  # some nine million chunks
MAX_FRAMES = 1 << 20
MAX_KINDS = 1000
MAX_WINDOWS = MAX_FRAMES // 2
MAX_NESTING = 32
MAX_MAPS = 500_000  # in one object: an empty map is one byte in the file and 64 in memory
MAX_CALLS_IN_BLOCKS = 1 << 26  # of a file
MAX_KIND_LENGTH = 64

DIGEST_BYTES = 16  # BLAKE3 cut to 128 bits
ZERO_DIGEST = bytes(DIGEST_BYTES)  # of a chunk of zeros of any length, which is never stored
_ZSTD_MAX_BLOCK = 128 << 10  # RFC 8878 section 3.1.1.2.4
_SEAL_BYTES = 8

_SKIPPABLE = struct.Struct("<II")  # magic, size of the content
_START = struct.Struct("<16sHHI")  # text, major, minor, reserved 0; a seal follows
# Tag, index offset, index frame size, index digest, file size; a seal follows
_TRAILER = struct.Struct("<8sQQ16sQ")
# Compressed size, uncompressed size, objects, digest of the compressed bytes
_FRAME_RECORD = struct.Struct("<III16s")
CHUNK_RECORD = struct.Struct("<16sIII")  # digest, frame number, offset in the uncompressed frame, length

PATCHED = 1 << 31  # in the length of a chunk record: it is that of a patch
_PATCH = struct.Struct("<16sI")  # digest of the chunk that it is based on, length of both
_SPAN = struct.Struct("<II")  # offset, length; the bytes follow

START_TEXT = b"replay-snapshot\0"
TRAILER_TAG = b"rsnapend"
INDEX_TAG = b"rsnapidx"
CHUNK_TABLE_TAG = b"rsnaptab"

START_SIZE = _SKIPPABLE.size + _START.size + _SEAL_BYTES
TRAILER_SIZE = _SKIPPABLE.size + _TRAILER.size + _SEAL_BYTES
SKIPPABLE_HEADER_SIZE = _SKIPPABLE.size


def digest(data: bytes | bytearray | memoryview) -> bytes:
    """BLAKE3 of `data`, 16 bytes."""
    return blake3(data).digest(length=DIGEST_BYTES)


def _seal(data: bytes) -> bytes:
    return blake3(data).digest(length=_SEAL_BYTES)


def make_patch(base: bytes, length: int, spans: Iterable[tuple[int, bytes]]) -> bytes:
    """What has to be put into the chunk of digest `base` (offset, bytes) to have another one of the same length."""
    parts = [_PATCH.pack(base, length)]
    for offset, data in spans:
        parts += (_SPAN.pack(offset, len(data)), data)
    return b"".join(parts)


def patch_base(patch: bytes) -> tuple[bytes, int]:
    """Digest and length of the chunk that a patch is based on. Raises DamagedError."""
    if len(patch) < _PATCH.size:
        raise DamagedError("a patch of a memory chunk is too short")
    base, length = _PATCH.unpack_from(patch)
    if not 0 < length <= MAX_CHUNK_BYTES:
        raise DamagedError(f"a patch of a memory chunk of {length} bytes")
    return base, length


def apply_patch(patch: bytes, base: bytes) -> bytes:
    """The chunk. Raises DamagedError."""
    made = bytearray(base)
    at = _PATCH.size
    while at < len(patch):
        if at + _SPAN.size > len(patch):
            raise DamagedError("a patch of a memory chunk ends too early")
        offset, length = _SPAN.unpack_from(patch, at)
        at += _SPAN.size
        if at + length > len(patch) or offset + length > len(made):
            raise DamagedError("a patch of a memory chunk goes beyond it")
        made[offset : offset + length] = patch[at : at + length]
        at += length
    return bytes(made)


class FrameRecord(NamedTuple):
    """What the index says of one zstd frame. Offsets are not stored: frames follow each other without a gap.

    digest: BLAKE3 of the compressed bytes; empty when the file has no index and the frame was found by a scan.
    """

    offset: int
    compressed_bytes: int
    uncompressed_bytes: int
    objects: int
    digest: bytes


@dataclass(frozen=True)
class Trailer:
    """The fixed-size end of a whole snapshot, which locates its index."""

    index_offset: int
    index_bytes: int
    index_digest: bytes
    file_bytes: int


def skippable(content: bytes) -> bytes:
    """`content` as a skippable frame."""
    return _SKIPPABLE.pack(SKIPPABLE_MAGIC, len(content)) + content


def is_skippable(magic: int) -> bool:
    """Whether a frame magic is one of the sixteen that every zstd decoder skips."""
    return magic & 0xFFFFFFF0 == 0x184D2A50


def start_frame(
    several_windows: bool = False, patches: bool = False, call_blocks: bool = False, references: bool = False
) -> bytes:
    """The first frame of a snapshot of the lowest format version that has what it holds."""
    major = MAJOR_OF_SEVERAL_WINDOWS if several_windows else FORMAT_MAJOR
    major = MAJOR_OF_PATCHES if patches else major
    major = MAJOR_OF_CALL_BLOCKS if call_blocks else major
    major = MAJOR_OF_REFERENCES if references else major
    content = _START.pack(START_TEXT, major, FORMAT_MINOR, 0)
    return skippable(content + _seal(content))


def parse_start(data: bytes) -> tuple[int, int]:
    """Format version (major, minor) from the first `START_SIZE` bytes of a file.

    Raises TruncatedError, FormatError for a file that is no snapshot, VersionError for one too new,
    DamagedError when the frame is a snapshot's but its seal is broken.
    """
    expected = _SKIPPABLE.pack(SKIPPABLE_MAGIC, START_SIZE - _SKIPPABLE.size) + START_TEXT
    if not data.startswith(expected[: len(data)]) or not data:
        raise FormatError(
            f"not a snapshot: it begins with {repr(data[:8])[1:]}",
            next="give a .rsnap file that `replay capture` or `replay pack` wrote",
        )
    if len(data) < START_SIZE:
        raise TruncatedError(f"ends after {len(data)} bytes, before anything was stored")
    content, seal = data[_SKIPPABLE.size : -_SEAL_BYTES], data[-_SEAL_BYTES:]
    _text, major, minor, _reserved = _START.unpack(content)
    if _seal(content) != seal:
        raise DamagedError(f"the first {START_SIZE} bytes, which hold the format version, are damaged")
    if not 0 < major <= NEWEST_MAJOR:
        raise VersionError(
            f"snapshot format {major}.{minor}, and this replay reads up to {NEWEST_MAJOR}.x",
            next="install a newer replay (`pip install -U gpu-replay`)",
        )
    return major, minor


def trailer_frame(trailer: Trailer) -> bytes:
    """The last frame of a snapshot."""
    content = _TRAILER.pack(
        TRAILER_TAG, trailer.index_offset, trailer.index_bytes, trailer.index_digest, trailer.file_bytes
    )
    return skippable(content + _seal(content))


def parse_trailer(data: bytes, file_bytes: int) -> Trailer | None:
    """The trailer in the last `TRAILER_SIZE` bytes of a file of `file_bytes`; None if they are none."""
    header = _SKIPPABLE.pack(SKIPPABLE_MAGIC, TRAILER_SIZE - _SKIPPABLE.size)
    if len(data) != TRAILER_SIZE or not data.startswith(header + TRAILER_TAG):
        return None
    content, seal = data[_SKIPPABLE.size : -_SEAL_BYTES], data[-_SEAL_BYTES:]
    if _seal(content) != seal:
        return None
    _tag, index_offset, index_bytes, index_digest, stated_bytes = _TRAILER.unpack(content)
    trailer = Trailer(index_offset, index_bytes, index_digest, stated_bytes)
    end = index_offset + index_bytes + TRAILER_SIZE
    fits = index_offset >= START_SIZE and index_bytes <= MAX_INDEX_BYTES and end == stated_bytes == file_bytes
    return trailer if fits else None


def pack_frame_records(records: list[FrameRecord]) -> bytes:
    """The frame list of the index, 28 bytes a frame."""
    return b"".join(
        _FRAME_RECORD.pack(r.compressed_bytes, r.uncompressed_bytes, r.objects, r.digest) for r in records
    )


def unpack_frame_records(data: bytes, end: int) -> list[FrameRecord]:
    """The frames of an index, which must fill the file from the start frame to `end`. Raises DamagedError."""
    if len(data) % _FRAME_RECORD.size:
        raise DamagedError("the list of frames in the index has a broken length")
    records = []
    offset = START_SIZE
    for compressed, uncompressed, objects, check in _FRAME_RECORD.iter_unpack(data):
        most = min(end - offset, MAX_COMPRESSED_BYTES)
        if uncompressed > MAX_FRAME_BYTES or objects > uncompressed or not 0 < compressed <= most:
            raise DamagedError(f"the index describes a frame at byte {offset} that cannot exist")
        records.append(FrameRecord(offset, compressed, uncompressed, objects, check))
        offset += compressed
    if offset != end:
        raise DamagedError(f"the frames in the index end at byte {offset}, not at byte {end}")
    return records


def zstd_frame_bytes(read: Read, offset: int, end: int) -> int:
    """Size of the zstd frame that begins at `offset`, found from its block headers without decompressing.

    Raises TruncatedError when it reaches beyond `end`, FormatError when there is no zstd frame (RFC 8878, 3.1.1).
    """
    header = read(offset, min(18, end - offset))
    if len(header) < 6:
        raise TruncatedError("the file ends inside a frame", where=f"byte {offset}")
    if header[:4] != ZSTD_MAGIC_BYTES:
        raise FormatError("no zstd frame here", where=f"byte {offset}")
    descriptor = header[4]
    single_segment = bool(descriptor & 0x20)
    content_size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    position = offset + 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    last = False
    while not last:
        block = read(position, 3) if position + 3 <= end else b""
        if len(block) < 3:
            raise TruncatedError("the file ends inside a frame", where=f"byte {offset}")
        word = int.from_bytes(block, "little")
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        if kind == 3 or size > _ZSTD_MAX_BLOCK:
            raise FormatError("a frame with a block that cannot exist", where=f"byte {offset}")
        position += 3 + (1 if kind == 1 else size)
        if position - offset > MAX_COMPRESSED_BYTES:
            raise FormatError("a frame larger than any that a snapshot has", where=f"byte {offset}")
    position += 4 if descriptor & 4 else 0
    if position > end:
        raise TruncatedError("the file ends inside a frame", where=f"byte {offset}")
    return position - offset


def skippable_frame_bytes(read: Read, offset: int, end: int) -> int:
    """Size of the skippable frame that begins at `offset`. Raises TruncatedError when it reaches beyond `end`."""
    header = read(offset, _SKIPPABLE.size) if offset + _SKIPPABLE.size <= end else b""
    if len(header) < _SKIPPABLE.size:
        raise TruncatedError("the file ends inside a frame", where=f"byte {offset}")
    size = _SKIPPABLE.size + int(_SKIPPABLE.unpack(header)[1])
    if offset + size > end:
        raise TruncatedError("the file ends inside a frame", where=f"byte {offset}")
    return size


def nests_deeper_than(value: object, limit: int) -> bool:
    """Whether arrays and maps inside `value` go deeper than `limit`. Walks level by level, so it cannot overflow."""
    layer: list[Any] = [value] if type(value) in _NESTING else []
    for _ in range(limit):
        if not layer:
            return False
        layer = [
            item
            for outer in layer
            for item in (chain(outer, outer.values()) if isinstance(outer, dict) else outer)
            if type(item) in _NESTING
        ]
    return bool(layer)


_NESTING = frozenset((tuple, list, dict))
