"""Reads the record file of a raw capture (FORMAT.md), which its writer may have left at any instruction.

Every size, bound and checksum is looked at before a record is given out. Reading is block by block with bounded memory,
and works on a file that is still being written: what is there is read. Offsets are those of the log: of a record that
is in a half (version 3), the one where it belongs.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from replay.api.vocabulary import RecordKind
from replay.errors import FormatError, VersionError
from replay.raw.checksum import LONG_BYTES, crc32c, crc32c_of_many
from replay.raw.columns import Block, Scanner
from replay.reading import open_regular

MAGIC = b"RCAPCALL"
VERSIONS = (1, 2, 3, 4)
WINDOW_BYTES = 16 << 20  # the largest record; before version 3 the file grew by this much
BLOCK_BYTES = 4 << 20  # read at once

FILE_HEADER = struct.Struct("<8sIIQQ32x")
HALVES = struct.Struct("<QQI12x")  # from version 3 on the last 32 bytes of it: their places, bytes of a half
HALVES_OFFSET = 4096
MAXIMUM_HALF_BYTES = 16 << 20
SNAPSHOT_ATTEMPTS = 20  # to read the halves while their process does not change them
RECORD_HEADER = struct.Struct("<IHHIIQQ")  # size, kind, function, thread, check, call, time_ns
CHECK_BEGINS = 16  # offset of `call`: what comes before it is not covered by the check

_KINDS = frozenset(int(kind) for kind in RecordKind)
_RECORD_HEADER_WORDS = 2  # of 8 bytes, before what the check covers

State = Literal["complete", "truncated", "damaged"]


class Record(NamedTuple):
    """One record. `time_ns` is CLOCK_MONOTONIC; `offset` is its place in the file, for messages."""

    kind: int
    function: int
    thread: int
    call: int
    time_ns: int
    payload: bytes
    offset: int


@dataclass(frozen=True)
class Ending:
    """How a record file ends: `damaged` carries the reason in `text`; everything before `offset` is usable."""

    state: State
    offset: int
    text: str = ""


class RawFile:
    """Context manager over one `calls.<pid>.bin`.

    pid; start_time_ns (CLOCK_REALTIME) and monotonic_ns (CLOCK_MONOTONIC) of the same moment. `ending` is None until
    `records()` has run to its end.
    Raises FileError when the file cannot be read, FormatError when it is no such file, VersionError when it is newer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ending: Ending | None = None
        self._descriptor = open_regular(path, follow_links=False)
        try:
            self._read_header()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> RawFile:
        return self

    def __exit__(self, *ending: object) -> None:
        os.close(self._descriptor)

    def _read_header(self) -> None:
        data = os.pread(self._descriptor, FILE_HEADER.size, 0)
        # An application that died while its first window was being made leaves zeros, or nothing.
        self.version = 1
        if not data[: len(MAGIC)].strip(b"\0") and len(data) in (0, FILE_HEADER.size):
            self.pid = self.start_time_ns = self.monotonic_ns = 0
            return
        if len(data) < FILE_HEADER.size or not data.startswith(MAGIC):
            raise FormatError("not a record file of a raw capture", where=self.path)
        _, version, self.pid, self.start_time_ns, self.monotonic_ns = FILE_HEADER.unpack(data)
        if version not in VERSIONS:
            raise VersionError(
                f"raw capture format {version}, and this replay reads up to {VERSIONS[-1]}",
                where=self.path,
                next="pack it with the replay that captured it",
            )
        self.version = version

    def _from_the_start(self) -> Log | None:
        """The log; None where it makes no sense, which `ending` then says."""
        self.ending = None
        try:
            return Log.of(self._descriptor, self.version)
        except FormatError as error:
            self.ending = Ending("damaged", FILE_HEADER.size, str(error))
            return None

    def records(self) -> Iterator[Record]:
        """Every whole record in the order of the file, fillers left out. Sets `ending`; may be called again."""
        log = self._from_the_start()
        at = log.begin if log else 0
        while log and self.ending is None:
            at += yield from self._one_by_one(log, at)

    def pieces(self, scanner: Scanner) -> Iterator[Block | Record]:
        """The same, as whole blocks where `scanner` finds nothing to say about them."""
        log = self._from_the_start()
        at = log.begin if log else 0
        while log and self.ending is None:
            data = log.read(BLOCK_BYTES, at)
            block, consumed, plain = scanner.block(data, at)
            if consumed:
                yield block
                at += consumed
            if not (consumed and plain and len(data) == BLOCK_BYTES):
                at += yield from self._one_by_one(log, at)

    def _one_by_one(self, log: Log, at: int) -> Generator[Record, None, int]:
        """The records of one block, and how many bytes they take."""
        size = BLOCK_BYTES
        block = log.read(size, at)
        found, consumed, ending = _scan(block, at, len(block) < size)
        if not consumed and ending is None:
            # One record that is larger than a block.
            block = log.read(WINDOW_BYTES, at)
            found, consumed, ending = _scan(block, at, len(block) < WINDOW_BYTES)
        for number, good in enumerate(_checks(block, found)):
            offset, header = found[number]
            if not good:
                self.ending = Ending("damaged", at + offset, "a record with a wrong checksum")
                return consumed
            length, kind, function, thread, _, call, time_ns = header
            payload = block[offset + RECORD_HEADER.size : offset + length]
            yield Record(kind, function, thread, call, time_ns, payload, at + offset)
        self.ending = ending
        return consumed


class Log:
    """The records as one stretch of bytes: those in the log, then those that are still in a half.

    begin: offset of the first one. end: of those in the log; None: the file ends there.
    """

    def __init__(self, descriptor: int, begin: int, end: int | None, halves: bytes = b"") -> None:
        self._descriptor = descriptor
        self.begin = begin
        self.end = end
        self._halves = halves

    @classmethod
    def of(cls, descriptor: int, version: int) -> Log:
        """Raises FormatError when the places of the halves make no sense."""
        if version < 3:
            return cls(descriptor, FILE_HEADER.size, None)
        for _ in range(SNAPSHOT_ATTEMPTS):
            header = os.pread(descriptor, FILE_HEADER.size, 0)
            *places, half_bytes = HALVES.unpack_from(header, FILE_HEADER.size - HALVES.size)
            begin = HALVES_OFFSET + 2 * half_bytes
            if half_bytes % 8 or not 0 < half_bytes <= MAXIMUM_HALF_BYTES:
                raise FormatError(f"halves of {half_bytes} bytes")
            used = sorted((place, number) for number, place in enumerate(places) if place)
            if not used:
                return cls(descriptor, begin, None)
            if (
                used[0][0] < begin
                or used[-1][0] - used[0][0] > half_bytes
                or used[0][0] % 8
                or used[-1][0] % 8
            ):
                raise FormatError(f"halves at {', '.join(str(place) for place, _ in used)}")
            halves = b""
            for (_, number), following in zip(used, [*used[1:], None], strict=True):
                length = half_bytes if following is None else following[0] - used[0][0]
                halves += os.pread(descriptor, length, HALVES_OFFSET + number * half_bytes)
            if os.pread(descriptor, FILE_HEADER.size, 0) == header:
                break
        else:
            halves = b""  # of a process that writes faster than this one reads
        return cls(descriptor, begin, used[0][0], halves)

    def read(self, size: int, at: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        if self.end is None:
            return os.pread(self._descriptor, size, at)
        data = os.pread(self._descriptor, min(size, self.end - at), at) if at < self.end else b""
        if at + len(data) < self.end:
            return data  # a log that ends before the place where the halves belong
        past_log = at + len(data) - self.end
        return data + self._halves[past_log : past_log + size - len(data)]


Found = list[tuple[int, tuple[int, int, int, int, int, int, int]]]


def _scan(block: bytes, at: int, last: bool) -> tuple[Found, int, Ending | None]:
    """The records that lie whole in `block`, which begins at offset `at` of the file; the bytes they and the fillers
    take (a filler may reach beyond the block); and how the file ends, when that can be seen here. `last`: the file ends
    with this block."""
    found: Found = []
    position = 0
    while True:
        left = len(block) - position
        if left < 8:
            # A filler can have 8 bytes, so a whole header cannot be asked for yet.
            return found, position, _cut_off(at + position) if last else None
        size, kind = struct.unpack_from("<IH", block, position)
        if size == 0:
            return found, position, Ending("truncated", at + position)
        filler = kind == RecordKind.FILLER
        if (
            size % 8
            or kind not in _KINDS
            or size > WINDOW_BYTES
            or (size < RECORD_HEADER.size and not filler)
        ):
            return (
                found,
                position,
                Ending("damaged", at + position, f"no record has kind {kind} and {size} bytes"),
            )
        if filler:
            position += size
            if position >= len(block):
                # What follows is in the next block, or the file ends with the filler.
                return found, position, Ending("truncated", at + len(block)) if last else None
            continue
        if size > left:
            return found, position, _cut_off(at + position) if last else None
        found.append((position, RECORD_HEADER.unpack_from(block, position)))
        position += size


def _cut_off(offset: int) -> Ending:
    """Where a writer was when its process ended there is a size of 0; this file has lost its end since."""
    return Ending("truncated", offset, "the file is cut off")


def _checks(block: bytes, found: Found) -> list[bool]:
    """Whether the checksum of each record holds."""
    if not found:
        return []
    places = np.fromiter((offset for offset, _ in found), dtype=np.int64, count=len(found))
    sizes = np.fromiter((header[0] for _, header in found), dtype=np.int64, count=len(found))
    stated = np.fromiter((header[4] for _, header in found), dtype=np.uint32, count=len(found))
    words = np.frombuffer(block, dtype="<u8", count=len(block) // 8)
    short = np.flatnonzero(sizes <= LONG_BYTES)
    computed = np.zeros(len(found), dtype=np.uint32)
    starts, counts = places[short] // 8 + _RECORD_HEADER_WORDS, sizes[short] // 8 - _RECORD_HEADER_WORDS
    computed[short] = crc32c_of_many(words, starts, counts)
    for index in np.flatnonzero(sizes > LONG_BYTES).tolist():
        start = int(places[index])
        computed[index] = crc32c(memoryview(block)[start + CHECK_BEGINS : start + int(sizes[index])])
    return [bool(good) for good in computed == stated]
