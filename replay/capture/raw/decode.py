"""Raw records -> calls, contents and notes: the one place that knows what stands inside a record.

ENTER and LEAVE are joined by their call number, across threads. Attachments are decoded generically: which parameter
they belong to stands in them, and the table gives its name. Bytes in the blobs file stay there until they are read.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from replay.api.functions import by_id
from replay.api.vocabulary import (
    BY_CAPTURE_BIT,
    IN_CAPTURE_BIT,
    PER_THREAD_BIT,
    CopyFlag,
    Effect,
    Function,
    Moment,
    NoteCode,
    RecordKind,
    Role,
    Storage,
)
from replay.capture.raw.checksum import crc32c
from replay.capture.raw.records import Ending, RawFile, Record
from replay.errors import DamagedError, FileError, FormatError

NO_BLOB = (1 << 64) - 1  # offset of contents that are all zero and were not written
MAXIMUM_ATTACHMENT_BYTES = 1 << 40

_ATTACHMENT = struct.Struct("<HBBIQ")  # parameter, part, storage, check, length
_BLOB = struct.Struct("<QQQQQII")
_COPY = struct.Struct("<QQIIII")  # base, bytes, serial, moment, flags, bytes of a piece
_ENTRY = np.dtype([("piece", "<u4"), ("check", "<u4"), ("blob", "<u8")])
_PLACE = np.dtype([("check", "<u4"), ("blob", "<u8")])
PIECE_BYTES = 256 * 1024  # of a copy; a chunk of a snapshot
_WINDOW_NOTES = frozenset((NoteCode.WINDOW_OPEN, NoteCode.WINDOW_CLOSE))
_MOMENTS = frozenset((Moment.BEFORE, Moment.AFTER))
Places = NDArray[np.void]
_NOTE = struct.Struct("<II")
_FILE = struct.Struct("<QQQQQQ")  # offset, device, inode, size, modification time in ns, bytes of the path
_FLAGS = PER_THREAD_BIT | BY_CAPTURE_BIT | IN_CAPTURE_BIT
_IMAGE = struct.Struct("<QQII")  # offset in the blobs file, length, check as of a file, check of all bytes
_PARAMETERS, _LAYOUT = "kernelParams.0", "kernelParams.1"
SAMPLE_BYTES = 4096  # at each end of an image in a file: what its check covers


@dataclass(frozen=True)
class FilePlace:
    """Where a module image stood in a file that the application had loaded, and which state of the file that was."""

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


@dataclass
class RawCall:
    """One driver call. `result` is None until its LEAVE was read, and stays so if the application ended inside it.

    Keys of `inputs` and `outputs` are those of `schema.Call`. in_window is for whoever follows the windows.
    by_capture: the interposer made the call itself. in_capture: it went into a stream capture, so nothing ran.
    """

    number: int
    function: Function
    per_thread: bool
    thread: int
    arguments: tuple[int, ...]
    inputs: dict[str, RawAttachment]
    enter_ns: int
    outputs: dict[str, RawAttachment] = field(default_factory=dict)
    result: int | None = None
    leave_ns: int = 0
    in_window: bool = False
    by_capture: bool = False
    in_capture: bool = False

    def argument(self, name: str, default: int = 0) -> int:
        """The word of a parameter; `default` when the function has none of that name."""
        for parameter, word in zip(self.function.parameters, self.arguments, strict=True):
            if parameter.name == name:
                return word
        return default

    def output_word(self, name: str) -> int | None:
        """The u64 (or shorter) that the driver stored through an OUT pointer; None when it is not known."""
        found = self.outputs.get(name)
        if found is None or found.data is None or not 0 < len(found.data) <= 8:
            return None
        return int.from_bytes(found.data, "little")


@dataclass(frozen=True)
class Entered:
    """The application called a function; the driver has not answered yet."""

    call: RawCall


@dataclass(frozen=True)
class Left:
    """The driver answered: `call` is the object of its Entered, now with result and outputs."""

    call: RawCall


@dataclass(frozen=True)
class RawContents:
    """One piece of memory contents. `blob_offset` is None for zeros. `call`: see Moment."""

    call: int
    thread: int
    address: int
    length: int
    blob_offset: int | None
    base: int
    allocation_bytes: int
    moment: Moment
    check: int


@dataclass(eq=False)
class RawCopy:
    """One reading of a range, of which only what had changed since the one before was written.

    serial: of the range; an address that is used again has another. moment: see Moment. places: where each piece of
    PIECE_BYTES lies in the blobs file (NO_BLOB: zeros), and its CRC-32C; None until the copy is `whole`. Two copies
    between which nothing changed share their places.
    """

    call: int
    thread: int
    base: int
    allocation_bytes: int
    serial: int
    moment: Moment
    places: Places | None = None

    @property
    def whole(self) -> bool:
        """Whether everything that had changed was read."""
        return self.places is not None

    @property
    def piece_count(self) -> int:
        """Pieces of the range; the last one may be shorter than the others."""
        return -(-self.allocation_bytes // PIECE_BYTES)


class _Copies:
    """Follows the COPY records: what is listed of a range, and what its copy takes over from the one before."""

    def __init__(self) -> None:
        self._whole: dict[int, RawCopy] = {}  # by base, the last one
        self._open: dict[
            int, tuple[RawCopy, bool, list[Places]]
        ] = {}  # copy, whether it inherits, its entries

    def record(self, record: Record) -> RawCopy | None:
        """The copy that the record begins, or None when it belongs to one that was begun."""
        base, size, serial, moment, flags, piece_bytes = _COPY.unpack_from(record.payload)
        if piece_bytes != PIECE_BYTES or not size or base + size > 1 << 64 or moment not in _MOMENTS:
            raise FormatError(f"a copy of {size} bytes at {base:#x} in pieces of {piece_bytes}")
        entries = np.frombuffer(record.payload, _ENTRY, offset=_COPY.size, count=_entries(record.payload))
        begun = None
        if flags & CopyFlag.FIRST:
            begun = RawCopy(record.call, record.thread, base, size, serial, Moment(moment))
            self._open[serial] = (begun, bool(flags & CopyFlag.INHERITS), [])
        found = self._open.get(serial)
        if found is None or (found[0].base, found[0].allocation_bytes) != (base, size):
            raise FormatError(f"a copy of {size} bytes at {base:#x} that has no beginning")
        copy, inherits, listed = found
        if len(entries) and int(entries["piece"].max()) >= copy.piece_count:
            raise FormatError(f"a copy of {size} bytes with a piece behind its end")
        if len(entries):
            listed.append(entries)
        if flags & CopyFlag.LAST:
            del self._open[serial]
            copy.places = self._resolved(copy, inherits, listed)
            self._whole[base] = copy
        return begun

    def _resolved(self, copy: RawCopy, inherits: bool, listed: list[Places]) -> Places:
        before = self._whole.get(copy.base) if inherits else None
        same = before is not None and before.serial == copy.serial
        if inherits and not (
            same and before is not None and before.allocation_bytes == copy.allocation_bytes
        ):
            raise FormatError(f"a copy at {copy.base:#x} inherits from one that is not there")
        if before is not None and before.places is not None:
            if not listed:
                return before.places
            places: Places = before.places.copy()
        else:
            if sum(map(len, listed)) < copy.piece_count:
                raise FormatError(f"a copy at {copy.base:#x} does not list all of its pieces")
            places = np.zeros(copy.piece_count, _PLACE)
        for entries in listed:
            places["check"][entries["piece"]] = entries["check"]
            places["blob"][entries["piece"]] = entries["blob"]
        return places


def _entries(payload: bytes) -> int:
    return (len(payload) - _COPY.size) // _ENTRY.itemsize


@dataclass(frozen=True)
class RawNote:
    """`code` is a name of NoteCode, or "NOTE_<n>" for one that this version does not know."""

    code: str
    text: str
    call: int
    function: str


@dataclass(frozen=True)
class ProcessText:
    """The key=value lines of a PROCESS record."""

    values: dict[str, str]


@dataclass(frozen=True)
class RawImage:
    """The image that stood in `file` is `copy` now: the file is gone."""

    file: FilePlace
    copy: RawAttachment


Event = Entered | Left | RawContents | RawCopy | RawImage | RawNote | ProcessText


class Decoder:
    """The events of one record file, in their order.

    calls_only: notes other than those that begin and end a window are left out; there is one for each launch.
    After `events()` has run to its end: `ending` says how the file ends, `open_calls` are the calls without an answer.
    """

    def __init__(self, raw: RawFile, calls_only: bool = False) -> None:
        self._raw = raw
        self._calls_only = calls_only
        self.ending = Ending("truncated", 0)
        self.open_calls: dict[int, RawCall] = {}
        self._copies = _Copies()
        self._layouts: dict[int, RawAttachment] = {}  # in this window, by CUfunction
        self.last_call = 0
        self.unknown_functions = 0

    def events(self) -> Iterator[Event]:
        """Everything up to the end, or to the first record that makes no sense. Never raises for bad content."""
        self.open_calls = {}
        self._copies = _Copies()
        self._layouts = {}
        self.unknown_functions = 0
        end: Ending | None = None
        for record in self._raw.records():
            try:
                if record.kind == RecordKind.END:
                    end = _ending(record)
                    continue
                event = self._decode(record)
            except (struct.error, FormatError) as error:
                self.ending = Ending("damaged", record.offset, f"a record that makes no sense ({error})")
                return
            if event is not None:
                yield event
        last = self._raw.ending or Ending("truncated", 0)
        self.ending = end if end is not None and last.state != "damaged" else last

    def _decode(self, record: Record) -> Event | None:
        if record.kind == RecordKind.ENTER:
            call = _entered(record)
            if call is None:
                self.unknown_functions += 1
                return None
            if call.number in self.open_calls:
                raise FormatError(f"call {call.number} begins twice")
            self._complete(call)
            self.open_calls[call.number] = call
            self.last_call = max(self.last_call, call.number)
            return Entered(call)
        if record.kind == RecordKind.LEAVE:
            left = self.open_calls.pop(record.call, None)
            if left is None:
                return None
            if record.payload:  # else a success that says nothing more
                left.outputs = _attachments(record.payload, 8, left.function)
            left.result = int(struct.unpack_from("<i", record.payload)[0]) if record.payload else 0
            left.leave_ns = record.time_ns
            left.in_capture |= bool(record.function & IN_CAPTURE_BIT)
            return Left(left)
        if record.kind == RecordKind.BLOB:
            return _contents(record)
        if record.kind == RecordKind.IMAGE:
            return _image_copy(record)
        if record.kind == RecordKind.COPY:
            return self._copies.record(record)
        if record.kind == RecordKind.NOTE:
            code = _NOTE.unpack_from(record.payload)[0]
            if code == NoteCode.WINDOW_OPEN:
                self._layouts = {}
            if self._calls_only and code not in _WINDOW_NOTES:
                return None
            return _note(record)
        if record.kind == RecordKind.PROCESS:
            text = record.payload.rstrip(b"\0").decode("utf-8", "replace")
            pairs = (line.partition("=") for line in text.splitlines())
            return ProcessText({key: value for key, separator, value in pairs if separator})
        return None

    def _complete(self, call: RawCall) -> None:
        """The layout of a kernel's parameters stands in its first launch of a window; the others have the same."""
        if call.function.effect != Effect.LAUNCH or _PARAMETERS not in call.inputs:
            return
        function = call.argument("f")
        if _LAYOUT in call.inputs:
            self._layouts[function] = call.inputs[_LAYOUT]
        elif function in self._layouts:
            call.inputs[_LAYOUT] = self._layouts[function]


def _entered(record: Record) -> RawCall | None:
    function = _function(record)
    if function is None:
        return None  # a shim that is newer than this reader
    count = len(function.parameters)
    arguments = struct.unpack_from(f"<{count}Q", record.payload)
    inputs = _attachments(record.payload, 8 * count, function)
    per_thread = bool(record.function & PER_THREAD_BIT)
    by_capture = bool(record.function & BY_CAPTURE_BIT)
    return RawCall(
        record.call,
        function,
        per_thread,
        record.thread,
        arguments,
        inputs,
        record.time_ns,
        by_capture=by_capture,
        in_capture=bool(record.function & IN_CAPTURE_BIT),
    )


def _function(record: Record) -> Function | None:
    return by_id().get(record.function & ~_FLAGS)


def _attachments(payload: bytes, at: int, function: Function) -> dict[str, RawAttachment]:
    found: dict[str, RawAttachment] = {}
    while at < len(payload):
        position, part, storage, check, length = _ATTACHMENT.unpack_from(payload, at)
        at += _ATTACHMENT.size
        if position >= len(function.parameters) or length > MAXIMUM_ATTACHMENT_BYTES:
            raise FormatError(f"{function.symbol} has an attachment of parameter {position}, {length} bytes")
        if storage == Storage.INLINE:
            if at + length > len(payload):
                raise FormatError(f"{function.symbol} has an attachment that exceeds its record")
            attachment = RawAttachment(length, payload[at : at + length])
            at += -(-length // 8) * 8
        elif storage == Storage.BLOB:
            (offset,) = struct.unpack_from("<Q", payload, at)
            attachment = RawAttachment(length, None, offset, check)
            at += 8
        elif storage == Storage.FILE:
            attachment, at = _in_file(payload, at, length, check)
        else:
            raise FormatError(f"{function.symbol} has an attachment of storage {storage}")
        parameter = function.parameters[position]
        # Parts that FORMAT.md lists are numbered; a plain attachment bears the parameter's own name.
        numbered = part > 0 or parameter.role == Role.CUSTOM
        found[f"{parameter.name}.{part}" if numbered else parameter.name] = attachment
    return found


def file_attachment(reference: bytes, length: int, check: int) -> RawAttachment:
    """The attachment that a reference to a file makes, as it stands in a record. Raises struct.error, FormatError."""
    attachment, _ = _in_file(reference, 0, length, check)
    return attachment


def _in_file(payload: bytes, at: int, length: int, check: int) -> tuple[RawAttachment, int]:
    offset, device, inode, file_bytes, modified_ns, path_bytes = _FILE.unpack_from(payload, at)
    at += _FILE.size
    if path_bytes > len(payload) - at or length < 2 * SAMPLE_BYTES or offset + length > file_bytes:
        raise FormatError(f"an image of {length} bytes in a file of {file_bytes}")
    path = os.fsdecode(payload[at : at + path_bytes])
    place = FilePlace(path, offset, device, inode, file_bytes, modified_ns)
    return RawAttachment(length, None, 0, check, place), at + -(-path_bytes // 8) * 8


def _contents(record: Record) -> RawContents:
    address, length, offset, base, allocation_bytes, moment, check = _BLOB.unpack_from(record.payload)
    inside = base <= address and address + length <= base + allocation_bytes <= 1 << 64
    if not inside or not length or moment not in tuple(Moment):
        raise FormatError(f"contents of {length} bytes at {address:#x} of an allocation at {base:#x}")
    place = None if offset == NO_BLOB else offset
    return RawContents(
        record.call, record.thread, address, length, place, base, allocation_bytes, Moment(moment), check
    )


def _image_copy(record: Record) -> RawImage:
    offset, length, file_check, check = _IMAGE.unpack_from(record.payload)
    if length > MAXIMUM_ATTACHMENT_BYTES:
        raise FormatError(f"an image of {length} bytes")
    file = file_attachment(record.payload[_IMAGE.size :], length, file_check).file
    assert file is not None
    return RawImage(file, RawAttachment(length, None, offset, check))


def _note(record: Record) -> RawNote:
    code, length = _NOTE.unpack_from(record.payload)
    text = record.payload[_NOTE.size : _NOTE.size + length].decode("utf-8", "replace")
    function = _function(record)
    try:
        name = NoteCode(code).name
    except ValueError:
        name = f"NOTE_{code}"
    return RawNote(name, text, record.call, function.symbol if function else "")


def _ending(record: Record) -> Ending:
    (reason,) = struct.unpack_from("<I", record.payload)
    if reason == 1:
        return Ending("truncated", record.offset, "the capture stopped itself")
    return Ending("complete", record.offset)


class BlobsFile:
    """Context manager over `blobs.<pid>.bin`, read by `pread`. A missing file is an empty one.

    Raises FileError when the file is there but cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise FileError(error.strerror or str(error), where=path) from None
        self.size = os.fstat(self._descriptor).st_size

    def __enter__(self) -> BlobsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor, for readers of their own."""
        return self._descriptor

    def holds(self, offset: int, length: int) -> bool:
        """Whether the file has all these bytes."""
        return 0 <= offset <= self.size and length <= self.size - offset

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
        data = self.read(attachment.blob_offset, attachment.length)
        if crc32c(data) != attachment.check:
            raise DamagedError(f"wrong checksum at byte {attachment.blob_offset}", where=self.path)
        return data


_kept: dict[tuple[int, int], int] = {}  # device and inode -> descriptor
MAXIMUM_KEPT_FILES = 256


def keep_file(place: FilePlace) -> None:
    """Keep a file readable until this process ends, even if the application deletes or replaces it."""
    key = (place.device, place.inode)
    if key in _kept or len(_kept) >= MAXIMUM_KEPT_FILES:
        return
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) == key:
            _kept[key] = descriptor
        else:
            os.close(descriptor)


def read_from_file(attachment: RawAttachment, place: FilePlace) -> bytes:
    """The bytes of an image in a file that the application had loaded.

    Raises DamagedError when the file is gone, is another one by now, or holds something else there.
    """
    kept = _kept.get((place.device, place.inode))
    try:
        if kept is not None:
            descriptor = os.dup(kept)
        else:
            descriptor = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise DamagedError(f"cannot be read any more ({error})", where=place.path) from None
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
