"""Raw records -> calls, contents and notes: what is inside a record of each kind.

ENTER and LEAVE are joined by their call number, across threads. Attachments are decoded generically: which parameter
they belong to is in them, and the table gives its name. Bytes in the blobs file stay there until they are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from replay.api.functions import by_id
from replay.api.parts import PARAMETER_LAYOUT, part_key
from replay.api.vocabulary import (
    BY_CAPTURE_BIT,
    IN_CAPTURE_BIT,
    PER_THREAD_BIT,
    Effect,
    Function,
    Moment,
    NoteCode,
    RecordKind,
    Role,
    Storage,
)
from replay.errors import FormatError
from replay.raw.attachments import RawAttachment, file_attachment, take_file_reference
from replay.raw.copies import MAXIMUM_ALLOCATION_BYTES, NO_BLOB, Copies
from replay.raw.events import (
    Entered,
    Event,
    Left,
    ProcessText,
    RawCall,
    RawContents,
    RawImage,
    RawNote,
)
from replay.raw.records import Ending, RawFile, Record

MAXIMUM_ATTACHMENT_BYTES = 1 << 40

_ATTACHMENT = struct.Struct("<HBBIQ")  # parameter, part, storage, check, length
_BLOB = struct.Struct("<QQQQQII")
_WINDOW_NOTES = frozenset((NoteCode.WINDOW_OPEN, NoteCode.WINDOW_CLOSE))
_NOTE = struct.Struct("<II")
_FLAGS = PER_THREAD_BIT | BY_CAPTURE_BIT | IN_CAPTURE_BIT
_IMAGE = struct.Struct("<QQII")  # offset in the blobs file, length, check as of a file, check of all bytes


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
        self._copies = Copies()
        self._layouts: dict[int, RawAttachment] = {}  # in this window, by CUfunction
        self.last_call = 0
        self.unknown_functions = 0

    def events(self) -> Iterator[Event]:
        """Everything up to the end, or to the first record that makes no sense. Never raises for bad content."""
        self.open_calls = {}
        self._copies = Copies()
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
        """The layout of a kernel's parameters is in its first launch of a window; the others have the same."""
        if call.function.effect != Effect.LAUNCH or part_key("kernelParams", 0) not in call.inputs:
            return
        function = call.argument("f")
        if PARAMETER_LAYOUT in call.inputs:
            self._layouts[function] = call.inputs[PARAMETER_LAYOUT]
        elif function in self._layouts:
            call.inputs[PARAMETER_LAYOUT] = self._layouts[function]


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
            attachment, at = take_file_reference(payload, at, length, check)
        else:
            raise FormatError(f"{function.symbol} has an attachment of storage {storage}")
        parameter = function.parameters[position]
        # Parts that FORMAT.md lists are numbered; a plain attachment bears the parameter's own name.
        numbered = part > 0 or parameter.role == Role.CUSTOM
        found[part_key(parameter.name, part) if numbered else parameter.name] = attachment
    return found


def _contents(record: Record) -> RawContents:
    address, length, offset, base, allocation_bytes, moment, check = _BLOB.unpack_from(record.payload)
    inside = base <= address and address + length <= base + allocation_bytes <= 1 << 64
    possible = inside and 0 < length <= allocation_bytes <= MAXIMUM_ALLOCATION_BYTES
    if not possible or moment not in tuple(Moment):
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
