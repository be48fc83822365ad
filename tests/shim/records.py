"""What a capture holds, read as replay/raw/FORMAT.md says: the shim is not tested by the product's own reader."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from replay.api import functions
from replay.api.vocabulary import (
    BY_CAPTURE_BIT,
    IN_CAPTURE_BIT,
    PER_THREAD_BIT,
    CopyFlag,
    NoteCode,
    RecordKind,
)

HEADER = struct.Struct("<IHHIIQQ")
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Call:
    symbol: str
    number: int
    thread: int
    arguments: tuple[int, ...]
    entered: dict[tuple[int, int], bytes]  # (parameter, part) -> bytes
    result: int | None = None  # None: no LEAVE
    left: dict[tuple[int, int], bytes] = field(default_factory=dict)
    in_capture: bool = False  # it went into a stream capture
    in_window: bool = False  # its ENTER is between WINDOW_OPEN and WINDOW_CLOSE


@dataclass
class Blob:
    call: int
    address: int
    bytes: bytes
    base: int
    allocation_bytes: int
    moment: int


@dataclass
class ProcessFile:
    path: Path
    pid: int = 0
    calls: list[Call] = field(default_factory=list)
    notes: list[tuple[NoteCode, str, int]] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    process: dict[str, str] = field(default_factory=dict)
    end: int | None = None  # reason

    def symbols(self) -> list[str]:
        return [call.symbol for call in self.calls]

    def notes_of(self, code: NoteCode) -> list[str]:
        return [text for found, text, _ in self.notes if found == code]


@dataclass
class Capture:
    directory: Path
    files: list[ProcessFile]
    complete: bool

    @property
    def only(self) -> ProcessFile:
        assert len(self.files) == 1, [file.path.name for file in self.files]
        return self.files[0]


def _attachments(payload: bytes, at: int, blobs: bytes) -> dict[tuple[int, int], bytes]:
    found = {}
    while at < len(payload):
        parameter, part, storage, check, length = struct.unpack_from("<HBBIQ", payload, at)
        at += 16
        if storage == 1:
            (offset,) = struct.unpack_from("<Q", payload, at)
            assert offset % 64 == 0
            data = blobs[offset : offset + length]
            assert len(data) == length, "a blob is written before the record that refers to it"
            assert length > 100_000 or crc32c(data) == check
            at += 8
        else:
            assert storage == 0
            assert length <= 4096
            data = payload[at : at + length]
            at += (length + 7) // 8 * 8
        assert (parameter, part) not in found
        found[parameter, part] = data
    assert at == len(payload)
    return found


_FLAGS = PER_THREAD_BIT | BY_CAPTURE_BIT | IN_CAPTURE_BIT


def _symbol(word: int) -> str:
    function = functions.by_id()[word & ~_FLAGS]
    return function.twin if word & PER_THREAD_BIT else function.symbol


class _Copies:
    """Puts the contents of ranges together from what their copies list."""

    def __init__(self, are_kept: bool) -> None:
        self.are_kept = are_kept
        self.whole: dict[tuple[int, int], bytes] = {}
        self.open: dict[tuple[int, int], tuple[bytearray, set[int]]] = {}

    def record(self, file: ProcessFile, number: int, payload: bytes, blobs: bytes) -> None:
        base, size, serial, moment, flags, step = struct.unpack_from("<QQIIII", payload)
        assert step == 256 * 1024
        key, pieces = (base, serial), -(-size // step)
        if flags & CopyFlag.FIRST:
            inherits = bool(flags & CopyFlag.INHERITS)
            known = set(range(pieces)) if inherits else set()
            self.open[key] = (bytearray(self.whole[key] if inherits else size), known)
        contents, known = self.open[key]
        for piece, check, offset in struct.iter_unpack("<IIQ", payload[32:]):
            assert piece < pieces
            length = min(step, size - piece * step)
            data = bytes(length) if offset == 2**64 - 1 else blobs[offset : offset + length]
            assert len(data) == length, "a piece is written before the record that refers to it"
            assert not self.are_kept or offset == 2**64 - 1 or length > 100_000 or crc32c(data) == check
            contents[piece * step : piece * step + length] = data
            known.add(piece)
        if flags & CopyFlag.LAST:
            assert len(known) == pieces
            self.whole[key] = bytes(self.open.pop(key)[0])
            file.blobs.append(Blob(number, base, self.whole[key], base, size, moment))


def _log(data: bytes) -> bytes:
    """The file as it is when no record is in a half of the mapping any more."""
    *places, half = struct.unpack_from("<QQI", data, 32)
    log = data if not any(places) else data[: min(filter(None, places))]
    assert len(log) >= 4096 + 2 * half
    for place, number in sorted((place, number) for number, place in enumerate(places) if place):
        assert 0 <= len(log) - place <= half, places
        log = log[:place] + data[4096 + number * half : 4096 + (number + 1) * half]
    return log


def read_file(path: Path, are_kept: bool = True) -> ProcessFile:
    data = path.read_bytes()
    blobs_path = path.with_name(path.name.replace("calls.", "blobs."))
    blobs = blobs_path.read_bytes() if blobs_path.exists() else b""  # killed before it was made
    file = ProcessFile(path)
    if not data[:8].strip(b"\0"):
        return file
    magic, version, file.pid = struct.unpack_from("<8sII", data)
    assert magic == b"RCAPCALL"
    assert version == 4
    at = 4096 + 2 * struct.unpack_from("<I", data, 48)[0]
    ended = not any(struct.unpack_from("<QQ", data, 32))
    data = _log(data)
    open_calls, in_window, copies = {}, False, _Copies(are_kept)
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("<IH", data, at)
        if size == 0:
            break
        assert size % 8 == 0
        assert at + size <= len(data)
        _, _, function, thread, check, number, _ = HEADER.unpack_from(data, at)
        # Python is slow at this; of many records a part stands for all.
        assert (at > 500_000 and number % 16) or crc32c(data[at + 16 : at + size]) == check, (
            f"checksum at {at}"
        )
        payload = data[at + HEADER.size : at + size]
        at += size
        if kind == RecordKind.ENTER:
            count = len(functions.by_id()[function & ~_FLAGS].parameters)
            arguments = struct.unpack_from(f"<{count}Q", payload)
            call = Call(_symbol(function), number, thread, arguments, _attachments(payload, count * 8, blobs))
            assert number not in open_calls
            call.in_window = in_window
            call.in_capture = bool(function & IN_CAPTURE_BIT)
            open_calls[number] = call
            file.calls.append(call)
        elif kind == RecordKind.LEAVE:
            call = open_calls.pop(number)
            assert call.symbol == _symbol(function)
            call.in_capture |= bool(function & IN_CAPTURE_BIT)
            call.result = struct.unpack_from("<i", payload)[0] if payload else 0
            call.left = _attachments(payload, 8, blobs) if payload else {}
        elif kind == RecordKind.NOTE:
            code, length = struct.unpack_from("<II", payload)
            file.notes.append((NoteCode(code), payload[8 : 8 + length].decode(), number))
            if code in (NoteCode.WINDOW_OPEN, NoteCode.WINDOW_CLOSE):
                in_window = code == NoteCode.WINDOW_OPEN
        elif kind == RecordKind.BLOB:
            address, length, offset, base, allocation_bytes, moment, check = struct.unpack(
                "<QQQQQII", payload
            )
            contents = bytes(length) if offset == 2**64 - 1 else blobs[offset : offset + length]
            assert len(contents) == length
            assert offset == 2**64 - 1 or length > 100_000 or crc32c(contents) == check
            file.blobs.append(Blob(number, address, contents, base, allocation_bytes, moment))
        elif kind == RecordKind.COPY:
            copies.record(file, number, payload, blobs)
        elif kind == RecordKind.PROCESS:
            lines = payload.rstrip(b"\0").decode().splitlines()
            file.process.update(line.split("=", 1) for line in lines)
        elif kind == RecordKind.END:
            file.end = struct.unpack_from("<I", payload)[0]
            assert not data[at : at + 4].strip(b"\0"), "something follows the end"
            break
        else:
            raise AssertionError(f"kind {kind}")
    assert not ended or at == len(data)
    return file


def read_capture(directory: Path, are_kept: bool = True) -> Capture:
    """are_kept: all contents that records refer to are; those of launches that nobody keeps may be overwritten."""
    files = [read_file(path, are_kept) for path in sorted(directory.glob("calls.*.bin"))]
    return Capture(directory, files, all(file.end is not None for file in files))
