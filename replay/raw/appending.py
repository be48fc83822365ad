"""Adds records to the raw capture of a process that a signal has ended, after those that it has written itself."""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from replay.api.vocabulary import CopyFlag, Moment, NoteCode, RecordKind
from replay.errors import FormatError
from replay.raw.checksum import crc32c
from replay.raw.records import CHECK_BEGINS, FILE_HEADER, HALVES, RECORD_HEADER, Log, RawFile

_NOTE, _PLACES = struct.Struct("<II"), struct.Struct("<QQ")
_COPY, _COPY_ENTRY = struct.Struct("<QQIIII"), struct.Struct("<IIQ")
_ATTACHMENT = struct.Struct("<HBBIQ")
PIECE_BYTES = 256 << 10  # of contents
_ALIGNMENT = 64
_ZEROS = (1 << 64) - 1


class Appender:
    """Holds the records until `write`, and puts contents at the end of the blobs file. end: offset of the last record's
    end, as `RawFile.ending` has it."""

    def __init__(self, raw: RawFile, blobs: Path) -> None:
        self._path, self._version = raw.path, raw.version
        self._end = raw.ending.offset if raw.ending is not None else 0
        self._blobs = blobs
        self._records = bytearray()

    def record(
        self, kind: RecordKind, payload: bytes, *, function: int = 0, call: int = 0, thread: int = 0
    ) -> None:
        payload += bytes(-len(payload) % 8)
        header = (RECORD_HEADER.size + len(payload), kind, function, thread, 0, call, time.monotonic_ns())
        record = bytearray(RECORD_HEADER.pack(*header) + payload)
        struct.pack_into("<I", record, CHECK_BEGINS - 4, crc32c(memoryview(record)[CHECK_BEGINS:]))
        self._records += record

    def note(self, code: NoteCode, text: str, *, function: int = 0, call: int = 0) -> None:
        data = text.encode("utf-8", "surrogateescape")
        self.record(RecordKind.NOTE, _NOTE.pack(code, len(data)) + data, function=function, call=call)

    def process(self, values: dict[str, object]) -> None:
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        self.record(RecordKind.PROCESS, text.encode())

    def copy(
        self, base: int, size: int, serial: int, content: Iterable[bytes], moment: Moment, call: int
    ) -> None:
        """Of a whole range. content: pieces of PIECE_BYTES, the last one shorter."""
        entries = bytearray()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        with open(os.open(self._blobs, flags), "ab") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FormatError("is not a regular file", where=self._blobs)
            for number, piece in enumerate(content):
                if not any(piece):
                    entries += _COPY_ENTRY.pack(number, 0, _ZEROS)
                    continue
                file.write(bytes(-file.tell() % _ALIGNMENT))
                entries += _COPY_ENTRY.pack(number, crc32c(piece), file.tell())
                file.write(piece)
        head = _COPY.pack(base, size, serial, moment, CopyFlag.FIRST | CopyFlag.LAST, PIECE_BYTES)
        self.record(RecordKind.COPY, head + entries, call=call)

    def write(self) -> None:
        """All of them are in the file when its header says so. Raises OSError, FormatError."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            log = Log.of(descriptor, self._version)
            if self._version < 3 or not log.begin <= self._end:
                raise FormatError("has no log that could grow", where=self._path)
            place = min(log.end or self._end, self._end)
            data = log.read(self._end - place, place) + self._records + bytes(8)  # a size of 0: the end
            while data:
                written = os.pwrite(descriptor, data, place)
                data, place = data[written:], place + written
            os.ftruncate(descriptor, place)
            os.fsync(descriptor)
            os.pwrite(descriptor, _PLACES.pack(0, 0), FILE_HEADER.size - HALVES.size)
        finally:
            os.close(descriptor)


def attachment(parameter: int, part: int, data: bytes) -> bytes:
    """One that is in the record itself."""
    return _ATTACHMENT.pack(parameter, part, 0, 0, len(data)) + data + bytes(-len(data) % 8)
