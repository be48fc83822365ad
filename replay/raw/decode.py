"""Raw records -> calls, contents and notes: what is inside a record of each kind.

ENTER and LEAVE are joined by their call number, across threads. Attachments are decoded generically: which parameter
they belong to is in them, and the table gives its name. Bytes in the blobs file stay there until they are read.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator
from typing import Protocol

import numpy as np

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
    Storage,
)
from replay.errors import FormatError
from replay.raw.attachments import RawAttachment, attachment_key, file_attachment, take_file_reference
from replay.raw.columns import HEADER_BYTES, Block, Rows, Scanner, split
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


class Ordinary(Protocol):
    """Who knows what calls of a class do, once one of them was an event."""

    def take(self, rows: Rows) -> int:
        """How many of these calls, from the first one on, need not be events of their own: the next event is these
        rows. They were answered, though what comes before their answers in the file may be events that follow."""
        ...


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
        self.layouts_changed = (
            0  # how often a launch had another layout than the ones of its kernel before it
        )

    def events(self, ordinary: Ordinary | None = None) -> Iterator[Event]:
        """Everything up to the end, or to the first record that makes no sense. Never raises for bad content.

        ordinary: is asked before each run of calls that have a class; those that it takes are one event together.
        """
        self.open_calls = {}
        self._copies = Copies()
        self._layouts = {}
        self.unknown_functions = 0
        end: Ending | None = None
        for record, of_class in self._records(ordinary):
            if isinstance(record, Rows):
                yield record
                continue
            try:
                if record.kind == RecordKind.END:
                    end = _ending(record)
                    continue
                event = self._decode(record)
            except (struct.error, FormatError) as error:
                self.ending = Ending("damaged", record.offset, f"a record that makes no sense ({error})")
                return
            if isinstance(event, Entered):
                event.call.of_class = of_class
            if event is not None:
                yield event
        last = self._raw.ending or Ending("truncated", 0)
        self.ending = end if end is not None and last.state != "damaged" else last

    def _records(self, ordinary: Ordinary | None) -> Iterator[tuple[Record | Rows, int]]:
        """Each record that has to be looked at, and the class of its call; and the calls that were taken."""
        if ordinary is None or not Scanner.installed():
            for record in self._raw.records():
                yield record, -1
            return
        for piece in self._raw.pieces(Scanner()):
            if isinstance(piece, Block):
                yield from self._records_of(piece, ordinary)
            else:
                yield piece, -1

    def _records_of(self, block: Block, ordinary: Ordinary) -> Iterator[tuple[Record | Rows, int]]:
        odd, places = split(block)
        bounds = np.searchsorted(places, odd).tolist()
        rows, answers = Rows(block, places), list[int]()  # of rows that were not taken, the nearest first
        begin = number = 0
        while True:
            following = odd[number] if number < len(odd) else len(block.records)
            until = bounds[number] if number < len(odd) else len(places)
            if answers and answers[0] < following:
                following, until = answers[0], int(np.searchsorted(places, answers[0]))
            if begin < until and (taken := self._take(rows[begin:until], ordinary)):
                yield rows[begin : begin + taken], -1
                begin += taken
                continue
            if begin < until:
                place = int(places[begin])
                heapq.heappush(answers, int(block.records["pair"][place]))
                begin += 1
                yield _record(block, place), int(block.records["class"][place])
                continue
            if following == len(block.records):
                return
            if answers and answers[0] == following:
                heapq.heappop(answers)
            else:
                number += 1
            yield _record(block, following), -1

    def _take(self, rows: Rows, ordinary: Ordinary) -> int:
        if self.open_calls and not self.open_calls.keys().isdisjoint(rows.numbers.tolist()):
            return 0  # a call that begins twice
        taken = ordinary.take(rows)
        if taken:
            self.last_call = max(self.last_call, int(rows[:taken].numbers.max()))
        return taken

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
            known = self._layouts.get(function)
            self.layouts_changed += known is not None and known != call.inputs[PARAMETER_LAYOUT]
            self._layouts[function] = call.inputs[PARAMETER_LAYOUT]
        elif function in self._layouts:
            call.inputs[PARAMETER_LAYOUT] = self._layouts[function]


def _record(block: Block, place: int) -> Record:
    offset, size, kind, function, thread, call, time_ns, _, _ = block.records[place].item()
    payload = block.data[offset + HEADER_BYTES : offset + size]
    return Record(kind, function, thread, call, time_ns, payload, block.at + offset)


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
        found[attachment_key(function, position, part)] = attachment
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
