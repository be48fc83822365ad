"""The last launches before a crash, from memory that the application shared with this process (`--when crash`).

Streams of the device have copied there what each launch could reach, and written a word when that was whole
(interposer/watch/flights.h). The application is gone, at any instruction: nothing of the memory is trusted, and a
launch of which the copies may not be whole is left out. The others become windows of the raw capture.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from replay.api.functions import by_id
from replay.api.structs import CUlaunchAttribute, CUlaunchConfig
from replay.api.vocabulary import (
    BY_CAPTURE_BIT,
    IN_CAPTURE_BIT,
    MAXIMUM_RING,
    PER_THREAD_BIT,
    Effect,
    Function,
    Moment,
    NoteCode,
    RecordKind,
)
from replay.capture.asked import HAS_ENDED, counts_of
from replay.errors import ReplayError
from replay.raw.appending import PIECE_BYTES, Appender, attachment
from replay.raw.records import RawFile, Record
from replay.records import dataclass

_HEADER = struct.Struct("<8sIIIIQQQ4Q")
_MAGIC, _VERSION, _FLIGHTS_OFFSET = b"RCAPRING", 1, 4096
_MOST_WORDS, _MOST_ATTRIBUTES, _MOST_IMAGES, _PACKED_BYTES = 12, 8, 16, 1024
_FLIGHT = struct.Struct("<QQ12QQ?7xQQIH??????III")
_IMAGE = struct.Struct("<QQ24xI4xQQ")
_CONFIG_OFFSET = 168
_ATTRIBUTES_OFFSET, _IMAGES_OFFSET, _PACKED_OFFSET = 224, 800, 1824
_FLIGHT_BYTES = 2888
_MAXIMUM_FLIGHTS = 1 << 16
_FLAGS = PER_THREAD_BIT | BY_CAPTURE_BIT | IN_CAPTURE_BIT


@dataclass(frozen=True)
class Image:
    """A range with copies from before the launch and after it, at these positions among all bytes that were ever
    copied."""

    base: int
    size: int
    serial: int
    before: int
    after: int


@dataclass(frozen=True)
class Flight:
    """A launch that was watched and not waited for. number: among those, from 1. end: position after its copies.
    told: the capture has it already. begun: the copies from before it are whole; ended: those from after it, too.
    returned: the call came back."""

    number: int
    ordinal: int
    words: tuple[int, ...]
    stream: tuple[int, bool, int]
    end: int
    thread: int
    function: int
    told: bool
    begun: bool
    ended: bool
    returned: bool
    config: bytes
    attributes: bytes
    images: tuple[Image, ...]
    packed: bytes | None


class SharedRing:
    """What one process has shared. kept: launches of the ring. room: bytes of all copies. counts: of its launches, by
    the names that `replay.pack.hits` reads."""

    def __init__(self, descriptor: int) -> None:
        """Raises ValueError where it makes no sense, OSError."""
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no memory")
        fields = _HEADER.unpack(self._read(0, _HEADER.size))
        magic, version, self._flights, flight_bytes, self.kept, self._markers, self._images, self.room = (
            fields[:8]
        )
        if magic != _MAGIC or version != _VERSION or flight_bytes != _FLIGHT_BYTES or not self.room:
            raise ValueError("no ring")
        # The shim takes all pages at once: what has holes is larger than the memory that it takes.
        size = min(status.st_size, 512 * status.st_blocks)
        if (
            not 0 < self._flights <= _MAXIMUM_FLIGHTS
            or not 0 < self.kept <= MAXIMUM_RING
            or self._images + self.room > size
        ):
            raise ValueError("a ring of impossible size")
        names = ("in_stream", "waited", "beyond_bandwidth", "image_bytes")
        self.counts = {f"watched.{name}": count for name, count in zip(names, fields[8:], strict=True)}

    def _read(self, offset: int, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = os.pread(self._descriptor, size - len(data), offset + len(data))
            if not piece:
                raise ValueError("the ring ends early")
            data += piece
        return data

    def flights(self) -> list[Flight]:
        """All that are there, in the order in which they were made."""
        table = self._read(_FLIGHTS_OFFSET, self._flights * _FLIGHT_BYTES)
        markers = self._read(self._markers, self._flights * 8)
        found = []
        for place in range(self._flights):
            words = struct.unpack_from("<II", markers, 8 * place)
            flight = _flight(table[place * _FLIGHT_BYTES : (place + 1) * _FLIGHT_BYTES], words, self.room)
            if flight is not None and flight.number % self._flights == place:
                found.append(flight)
        return sorted(found, key=lambda flight: flight.number)

    def content(self, position: int, size: int) -> Iterator[bytes]:
        """In pieces."""
        for at in range(0, size, PIECE_BYTES):
            yield self._read(self._images + position % self.room + at, min(PIECE_BYTES, size - at))

    def is_whole(self, flight: Flight, flights: list[Flight]) -> bool:
        """Whether its copies are whole, and no later launch may have begun to copy in their place."""
        if not flight.begun or flight.told:
            return False
        waits: set[tuple[int, bool, int]] = set()  # streams that have not come further
        for later in flights:
            if later.number <= flight.number:
                continue
            overlaps = bool(flight.images) and flight.images[0].before + self.room < later.end
            if overlaps and later.stream not in waits:
                return False
            if not later.begun:
                waits.add(later.stream)
        return True


def _flight(data: bytes, markers: tuple[int, ...], room: int) -> Flight | None:
    """None: there is none, or it makes no sense."""
    number, ordinal, *rest = _FLIGHT.unpack_from(data)
    words, (handle, per_thread, ended, end, thread, function, _, has_packed) = rest[:12], rest[12:20]
    returned, is_lost, _, told, packed_bytes, attributes_count, images_count = rest[20:]
    declared = by_id().get(function & ~_FLAGS)
    if (
        not number
        or declared is None
        or declared.effect is not Effect.LAUNCH
        or len(declared.parameters) > _MOST_WORDS
        or packed_bytes > _PACKED_BYTES
        or attributes_count > _MOST_ATTRIBUTES
        or images_count > _MOST_IMAGES
    ):
        return None
    places = range(_IMAGES_OFFSET, _IMAGES_OFFSET + images_count * _IMAGE.size, _IMAGE.size)
    images = tuple(Image(*_IMAGE.unpack_from(data, at)) for at in places)
    if any(
        position % room + image.size > room for image in images for position in (image.before, image.after)
    ):
        return None
    attributes = data[_ATTRIBUTES_OFFSET:][: attributes_count * _size_of(CUlaunchAttribute)]
    config = bytearray(data[_CONFIG_OFFSET : _CONFIG_OFFSET + _size_of(CUlaunchConfig)])
    if not attributes:  # they were of the application
        struct.pack_into("<Q", config, CUlaunchConfig.attrs.offset, 0)
    return Flight(
        number,
        ordinal,
        tuple(words[: len(declared.parameters)]),
        (handle, per_thread, ended),
        end,
        thread,
        function,
        told,
        markers[0] == number & 0xFFFFFFFF,
        markers[1] == number & 0xFFFFFFFF and not is_lost,
        returned,
        bytes(config),
        attributes,
        images,
        data[_PACKED_OFFSET : _PACKED_OFFSET + packed_bytes] if has_packed else None,
    )


def _size_of(structure: type[ctypes.Structure]) -> int:
    return ctypes.sizeof(structure)


class _Capture:
    """What the process itself has written of its launches. windows: ordinal and place of each whole one."""

    def __init__(self, raw: RawFile) -> None:
        self.windows: list[tuple[int, int]] = []
        self.names: dict[int, str] = {}  # of kernels, by the handles that launches had
        self.last_call, self.is_open, self.is_entered = 0, False, False
        self._places, self._matched = 0, {0: ""}
        for record in raw.records():
            self.last_call = max(self.last_call, record.call)
            if record.kind == RecordKind.NOTE:
                self._note(record.call, record.payload)
            elif record.kind == RecordKind.ENTER:
                self._enter(record)
        if self.is_open and not self.is_entered:
            self.windows.pop()  # its inputs were being read

    def _note(self, call: int, payload: bytes) -> None:
        code, length = struct.unpack_from("<II", payload)
        text = payload[8 : 8 + length].decode("utf-8", "surrogateescape")
        ordinal, _, rest = text.removeprefix("launch ").partition(" ")
        if code == NoteCode.WINDOW_OPEN:
            self._places += 1
            self.windows.append((int(ordinal) if ordinal.isdecimal() else 0, self._places))
            self.is_open, self.is_entered = True, False
        elif code == NoteCode.WINDOW_CLOSE:
            self.is_open = False
        elif code == NoteCode.LAUNCH_MATCHED:
            self._matched = {call: rest}

    def _enter(self, record: Record) -> None:
        self.is_entered = True
        function = by_id().get(record.function & ~_FLAGS)
        if function is not None and function.effect is Effect.LAUNCH and record.call in self._matched:
            (handle,) = struct.unpack_from("<Q", record.payload, 8 * _position(function, "f"))
            self.names[handle] = self._matched[record.call]

    @property
    def next_place(self) -> int:
        return self._places + 1


def _position(function: Function, name: str) -> int:
    """Raises ValueError: it has no such parameter."""
    return [parameter.name for parameter in function.parameters].index(name)


def add_last_launches(folder: Path, blobs: str, descriptor: int, pid: int) -> None:
    """Write the windows that a process which a signal has ended could not write any more, if it is `pid`. blobs: name
    of its blobs file. Where the memory makes no sense, or nothing can be written, the capture stays as it was."""
    path = folder / f"calls.{blobs.removeprefix('blobs.')}"
    with contextlib.suppress(OSError, ValueError, struct.error, ReplayError), RawFile(path) as raw:
        if raw.pid == pid and counts_of(path).state != HAS_ENDED:
            _add(raw, folder / blobs, SharedRing(descriptor))


def _add(raw: RawFile, blobs: Path, ring: SharedRing) -> None:
    capture, flights = _Capture(raw), ring.flights()
    begun = [flight for flight in flights if flight.begun]
    if raw.ending is None or raw.ending.state != "truncated" or (begun and begun[-1].told):
        return
    whole = {flight.ordinal: flight for flight in begun if ring.is_whole(flight, flights)}
    places = dict(capture.windows)
    last = sorted({*places, *whole})[-ring.kept :]
    copied = sum(2 * image.size for ordinal in last if ordinal in whole for image in whole[ordinal].images)
    if copied > ring.room:
        raise ValueError("copies that cannot have been there at once")
    appender = Appender(raw, blobs)
    if capture.is_open:
        appender.note(NoteCode.WINDOW_CLOSE, "1 launch", call=capture.last_call)
    call, place = capture.last_call, capture.next_place
    for ordinal in last:
        if ordinal in whole:
            call += 1
            _write_window(appender, ring, whole[ordinal], capture.names, call)
            places[ordinal], place = place, place + 1
    counts: dict[str, object] = {
        **ring.counts,
        "watched.not_begun": sum(not flight.begun for flight in flights),
        "watched.last": " ".join(str(place) for place in sorted(places[ordinal] for ordinal in last)),
    }
    appender.process(counts)
    if place > capture.next_place or counts["watched.not_begun"]:
        appender.write()


def _write_window(
    appender: Appender, ring: SharedRing, flight: Flight, names: dict[int, str], call: int
) -> None:
    """As the interposer writes one (interposer/watch/failures.c)."""
    function = by_id()[flight.function & ~_FLAGS]
    words = list(flight.words)
    attachments = b""
    if flight.packed is not None:
        values = _position(function, "kernelParams")
        attachments += attachment(values + (not words[values]), 0, flight.packed)
    if function.parameters[0].name == "config":
        attachments += attachment(0, 0, flight.config)
        if flight.attributes:
            attachments += attachment(0, 1, flight.attributes)
    appender.note(NoteCode.WINDOW_OPEN, f"launch {flight.ordinal}", call=call)
    for image in flight.images:
        content = ring.content(image.before, image.size)
        appender.copy(image.base, image.size, image.serial, content, Moment.BEFORE, call)
    name = names.get(words[_position(function, "f")], "")
    appender.note(NoteCode.LAUNCH_MATCHED, f"{flight.ordinal} {name}", function=flight.function, call=call)
    payload = struct.pack(f"<{len(words)}Q", *words) + attachments
    origin = {"function": flight.function, "call": call, "thread": flight.thread}
    appender.record(RecordKind.ENTER, payload, **origin)
    if flight.returned:
        appender.record(RecordKind.LEAVE, b"", **origin)
    for image in flight.images:
        if flight.ended:
            content = ring.content(image.after, image.size)
            appender.copy(image.base, image.size, image.serial, content, Moment.AFTER, call)
            continue
        text = f"{image.size} bytes at {image.base:#x}: the launch had not ended when the application did"
        appender.note(NoteCode.MEMORY_NOT_READ, text, call=call)
    appender.note(NoteCode.WINDOW_CLOSE, "1 launch", call=call)
