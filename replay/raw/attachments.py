"""The bytes that belong to a call: in its record, in the blobs file, or in a file that the application had loaded."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from pathlib import Path

from replay.api.parts import part_key
from replay.api.vocabulary import Function, Role
from replay.errors import DamagedError, FileError, FormatError
from replay.raw.checksum import crc32c
from replay.reading import open_regular
from replay.records import dataclass

_FILE = struct.Struct("<QQQQQQ")  # offset, device, inode, size, modification time in ns, bytes of the path
SAMPLE_BYTES = 4096  # at each end of an image in a file: what its check covers
MAXIMUM_WHOLE_BYTES = 2 << 30  # of what is read as one piece: module images
MAXIMUM_HOLE_BYTES = 1 << 30  # of all blobs together: a copy of the file may have some


@dataclass(frozen=True)
class FilePlace:
    """Where a module image was in a file that the application had loaded, and which state of the file that was."""

    path: str
    offset: int
    device: int
    inode: int
    file_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class RawAttachment:
    """Bytes that belong to a parameter: `data`; or in `file`; or, when both are None, at `blob_offset` of the blobs
    file. check: CRC-32C of the bytes; of those in a file, of their first and last 4,096 bytes."""

    length: int
    data: bytes | None
    blob_offset: int = 0
    check: int = 0
    file: FilePlace | None = None


def attachment_key(function: Function, position: int, part: int) -> str:
    """The key of what is attached to a parameter: parts that FORMAT.md lists are numbered; a plain attachment bears
    the parameter's own name."""
    parameter = function.parameters[position]
    return part_key(parameter.name, part) if part > 0 or parameter.role == Role.CUSTOM else parameter.name


def file_attachment(reference: bytes, length: int, check: int) -> RawAttachment:
    """The attachment that a reference to a file makes, as it is in a record. Raises struct.error, FormatError."""
    attachment, _ = take_file_reference(reference, 0, length, check)
    return attachment


def take_file_reference(payload: bytes, at: int, length: int, check: int) -> tuple[RawAttachment, int]:
    offset, device, inode, file_bytes, modified_ns, path_bytes = _FILE.unpack_from(payload, at)
    at += _FILE.size
    if path_bytes > len(payload) - at or length < 2 * SAMPLE_BYTES or offset + length > file_bytes:
        raise FormatError(f"an image of {length} bytes in a file of {file_bytes}")
    path = os.path.expanduser(os.fsdecode(payload[at : at + path_bytes]))
    place = FilePlace(path, offset, device, inode, file_bytes, modified_ns)
    return RawAttachment(length, None, 0, check, place), at + -(-path_bytes // 8) * 8


class BlobsFile:
    """Context manager over `blobs.<pid>.bin`, read by `pread`. A missing file is an empty one.

    Raises FileError when the file is there but cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        missing = not os.path.lexists(path)
        self._descriptor = (
            os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            if missing
            else open_regular(path, follow_links=False)
        )
        self.size = os.fstat(self._descriptor).st_size
        self._believed: set[tuple[int, int]] = set()
        self._left_bytes, self._left_hole_bytes = self.size, MAXIMUM_HOLE_BYTES

    def __enter__(self) -> BlobsFile:
        return self

    def __exit__(self, *ending: object) -> None:
        os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor, for readers of their own."""
        return self._descriptor

    def holds(self, offset: int, length: int) -> bool:
        """Whether the file has all these bytes."""
        return 0 <= offset <= self.size and length <= self.size - offset

    def believe(self, offset: int, length: int) -> None:
        """To be asked of each blob whose length a record says, before all of it is read: the writer of a capture writes
        every byte of each once. Raises DamagedError when the file ends before, is mostly a hole there, or when all
        blobs together are longer than it is."""
        if (offset, length) in self._believed:
            return
        if not self.holds(offset, length):
            raise DamagedError(f"ends before byte {offset + length}", where=self.path)
        if length > self._left_bytes:
            raise DamagedError("is shorter than its blobs together", where=self.path)
        hole_bytes = self._hole_bytes(offset, offset + length)
        if hole_bytes > self._left_hole_bytes:
            raise DamagedError(f"is a hole of {hole_bytes} bytes at byte {offset}", where=self.path)
        self._left_bytes -= length
        self._left_hole_bytes -= hole_bytes
        self._believed.add((offset, length))

    def _hole_bytes(self, at: int, end: int) -> int:
        """How much of a stretch nothing was ever written to; not counted further where that is too much."""
        found = 0
        while at < end and found <= self._left_hole_bytes:
            try:
                data = min(os.lseek(self._descriptor, at, os.SEEK_DATA), end)
            except OSError as error:
                data = end if error.errno == errno.ENXIO else at
            found += data - at
            at = os.lseek(self._descriptor, data, os.SEEK_HOLE) if data < end else end
        return found

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on. Raises DamagedError when the file has fewer."""
        pieces = []
        while length > 0 and self.holds(offset, length):
            piece = os.pread(self._descriptor, length, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        if length > 0:
            raise DamagedError(f"ends before byte {offset + length}", where=self.path)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill `view` with the bytes from `offset` on. Raises DamagedError when the file has fewer."""
        while view:
            count = os.preadv(self._descriptor, [view], offset)
            if not count:
                raise DamagedError(f"ends before byte {offset + len(view)}", where=self.path)
            offset += count
            view = view[count:]

    def read_attachment(self, attachment: RawAttachment) -> bytes:
        """The bytes of an attachment, wherever they are. Raises DamagedError when they are missing or damaged."""
        if attachment.data is not None:
            return attachment.data
        if attachment.file is not None:
            return read_from_file(attachment, attachment.file)
        _require_size(attachment.length, self.path)
        self.believe(attachment.blob_offset, attachment.length)
        data = self.read(attachment.blob_offset, attachment.length)
        if crc32c(data) != attachment.check:
            raise DamagedError(f"wrong checksum at byte {attachment.blob_offset}", where=self.path)
        return data


def _require_size(length: int, where: object) -> None:
    if length > MAXIMUM_WHOLE_BYTES:
        raise DamagedError(f"an image of {length} bytes, and {MAXIMUM_WHOLE_BYTES} are the most", where=where)


_kept: dict[tuple[int, int], int] = {}  # device and inode -> descriptor
MAXIMUM_KEPT_FILES = 256


def keep_file(place: FilePlace) -> None:
    """Keep a file readable until this process ends, even if the application deletes or replaces it."""
    key = (place.device, place.inode)
    if key in _kept or len(_kept) >= MAXIMUM_KEPT_FILES:
        return
    with contextlib.suppress(FileError):
        descriptor = open_regular(place.path)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == key:
            _kept[key] = descriptor
        else:
            os.close(descriptor)


def read_from_file(attachment: RawAttachment, place: FilePlace) -> bytes:
    """The bytes of an image in a file that the application had loaded.

    Raises DamagedError when the file is gone, is another one by now, or holds something else there.
    """
    _require_size(attachment.length, place.path)
    kept = _kept.get((place.device, place.inode))
    try:
        if kept is not None:
            descriptor = os.dup(kept)
        else:
            descriptor = open_regular(place.path)
    except FileError as error:
        raise DamagedError(f"cannot be read any more ({error.what})", where=place.path) from None
    try:
        status = os.fstat(descriptor)
        now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if now != (place.device, place.inode, place.file_bytes, place.modified_ns):
            raise DamagedError("was changed after the application had loaded it", where=place.path)
        data = b""
        while len(data) < attachment.length:
            piece = os.pread(descriptor, attachment.length - len(data), place.offset + len(data))
            if not piece:
                break
            data += piece
    except OSError as error:
        raise DamagedError(f"cannot be read ({error.strerror})", where=place.path) from None
    finally:
        os.close(descriptor)
    ends = data[:SAMPLE_BYTES] + data[-SAMPLE_BYTES:]
    if len(data) != attachment.length or crc32c(ends) != attachment.check:
        raise DamagedError(f"holds no such image at byte {place.offset}", where=place.path)
    return data
