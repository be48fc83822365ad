"""What a stranger could read in a snapshot: texts in images, memory and arguments, names and paths, kinds of contents.

Everything is read once, piece by piece; memory stays bounded by what is listed. What is compressed or encrypted inside
of memory is not opened, and text in other alphabets than ASCII is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import islice
from typing import TypeVar

from replay.api.functions import by_symbol
from replay.api.vocabulary import Role
from replay.errors import ReplayError
from replay.images import identify
from replay.images.fatbin import read_container
from replay.images.stripped import texts_of_ptx
from replay.inspection.pieces import describe
from replay.inspection.texts import Kinds, Texts
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.contents import MAX_DESCRIBED_IMAGE_BYTES, MAX_LISTED, Snapshot

LISTED_NAMES = 200  # of one sort
LISTED_RANGES = 1000
MAX_CALLS = 2_000_000  # whose arguments are looked into, a minute's work
_SEEN_CHUNKS = 1 << 20  # of which is known that they were read
T = TypeVar("T")


@dataclass(frozen=True)
class ReadableImage:
    """A module image. stripped: texts that packing overwrote. unread: why its contents were not looked into, or only in
    part. texts: in what is no code."""

    digest: str
    kind: str
    size_bytes: int
    stripped: list[str]
    texts: Texts
    unread: str = ""


@dataclass(frozen=True)
class ReadableRange:
    """One allocation, before the window and after it. what: it, for people. contents, texts: of what is stored."""

    id: int
    what: str
    size_bytes: int
    contents: Kinds
    texts: Texts


@dataclass(frozen=True)
class Exposure:
    """What a stranger could read. names: by sort ("command", "kernels", "files given to calls", ...), at most 200 of
    each. ranges: those with texts first, then the largest, at most 1,000 of `range_count`. contents: of all memory.
    arguments: texts in what the host gave to calls and got from them; argument_bytes: of all of it."""

    path: str
    file_bytes: int
    names: dict[str, list[str]]
    images: list[ReadableImage]
    ranges: list[ReadableRange]
    range_count: int
    contents: Kinds
    arguments: Texts
    argument_bytes: int
    notes: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, opened: Snapshot) -> None:
        self._opened = opened
        self._seen: set[bytes] = set()
        self.contents = Kinds()
        self.arguments, self.argument_bytes = Texts(), 0
        self.names: dict[str, dict[str, None]] = {}
        self.damaged = self.elsewhere_bytes = 0

    def name(self, sort: str, text: str) -> None:
        kept = self.names.setdefault(sort, {})
        if text and len(kept) < LISTED_NAMES:
            kept[text[:1000]] = None

    def _new(self, contents: schema.Contents) -> Iterator[tuple[int, bytes | None]]:
        """Chunks that were not read yet: (bytes, contents; None for zeros)."""
        remaining = contents.size_bytes
        for digest in contents.chunk_digests():
            size = min(schema.CHUNK_BYTES, remaining)
            remaining -= size
            if digest == schema.ZERO_DIGEST:
                yield size, None
            elif digest not in self._seen:
                if len(self._seen) < _SEEN_CHUNKS:
                    self._seen.add(digest)
                if self._opened.reader.is_elsewhere(digest):
                    self.elsewhere_bytes += size
                    continue
                try:
                    yield size, self._opened.reader.chunk(digest, size)
                except ReplayError:
                    self.damaged += 1

    def range_(self, item: schema.Range) -> ReadableRange:
        kinds, texts = Kinds(), Texts()
        for contents in (item.before, item.after):
            for size, data in self._new(contents) if contents is not None else ():
                if data is None:
                    if contents is item.before:
                        kinds.add_zeros(size)
                        self.contents.add_zeros(size)
                    continue
                kinds.add(data)
                self.contents.add(data)
                texts.scan(data)
        self.name("variables", item.name)
        return ReadableRange(item.id, describe(item), item.size_bytes, kinds, texts)

    def image(self, image: schema.Image, made: schema.Compilation | None) -> ReadableImage:
        """With the IR that it was made of."""
        texts, unread = Texts(), ""
        try:
            if made is not None:
                self.name("source of kernels", made.place)
                for contents in made.levels.values():
                    for _, data in self._new(contents):
                        if data is not None:
                            texts.scan(data)
            data = self._opened.read(image.contents, MAX_DESCRIBED_IMAGE_BYTES)
            _scan_module(texts, data)
            room = MAX_DESCRIBED_IMAGE_BYTES
            for entry in read_container(data) if identify(data) == "fatbin" else ():
                if entry.compression:
                    inside = entry.whole(room)
                    room -= len(inside)
                    _scan_module(texts, inside)
        except ReplayError as error:
            unread = error.what
        return ReadableImage(
            image.digest, image.kind, image.contents.size_bytes, image.stripped, texts, unread
        )

    def call(self, call: schema.Call) -> None:
        function = by_symbol().get(call.function)
        strings = (
            {item.name for item in function.parameters if item.role == Role.STRING} if function else set()
        )
        for key, value in (*call.inputs.items(), *call.outputs.items()):
            if isinstance(value, bytes):
                if key in strings:
                    self.name("texts given to calls", value.decode("utf-8", "replace"))
                self.argument_bytes += len(value)
                self.arguments.scan(value)
            elif isinstance(value, schema.Contents):
                self.argument_bytes += value.size_bytes
                for _, data in self._new(value):
                    if data is not None:
                        self.arguments.scan(data)
        for name in call.kernels:
            self.name("kernels", name)


def exposure(opened: Snapshot) -> Exposure:
    """Read all of a snapshot. Raises FormatError."""
    reader = _Reader(opened)
    _environment(reader, opened)
    images: dict[str, ReadableImage] = {}
    ranges: list[ReadableRange] = []
    count, calls_left, unread_calls = 0, MAX_CALLS, False
    for _ in opened.each_window():
        summary = opened.summary()
        if summary is not None:
            for text in (summary.selection, summary.state_text, summary.fault.words if summary.fault else ""):
                reader.name("selection and state", text)
        for kernel in opened.kernels():
            reader.name("kernels", kernel.demangled or kernel.name)
        made = {item.image: item for item in islice(opened.compilations(), MAX_LISTED)}
        for image in islice(opened.images(), MAX_LISTED):
            if image.digest not in images:
                images[image.digest] = reader.image(image, made.get(image.digest))
        for item in opened.ranges():
            count += 1
            ranges.append(reader.range_(item))
            if len(ranges) >= 2 * LISTED_RANGES:
                ranges = _chosen(ranges)
        for change in _all(opened, schema.Change):
            reader.call(_as_call(change))
        for call in opened.calls():
            if not calls_left:
                unread_calls = True
                break
            calls_left -= 1
            reader.call(call)
        for note in opened.notes():
            reader.name("notes", note.text)
    notes = [f"{reader.damaged} pieces are damaged and were not read"] if reader.damaged else []
    if reader.elsewhere_bytes:
        notes.append(
            f"{reader.elsewhere_bytes:,} bytes are elsewhere and were not read: who has that store or those weights can"
        )
        for name in opened.reader.elsewhere.names:
            reader.name("weights", str(name))
    if unread_calls:
        notes.append(f"only the arguments of the first {MAX_CALLS:,} calls were read")
    names = {sort: list(found) for sort, found in reader.names.items() if found}
    return Exposure(
        opened.path, opened.reader.file_bytes, names, list(images.values()), _chosen(ranges), count, reader.contents,
        reader.arguments, reader.argument_bytes, notes,
    )  # fmt: skip


def _scan_module(texts: Texts, data: bytes) -> None:
    if identify(data) != "ptx":
        texts.scan(data)
        return
    for text in texts_of_ptx(data):
        texts.scan(text)


def _environment(reader: _Reader, opened: Snapshot) -> None:
    environment = opened.environment()
    if environment is None:
        return
    reader.name("command", " ".join(environment.command))
    reader.name("executable", environment.executable)
    for device in environment.devices:
        reader.name("devices", f"{device.name} {device.uuid}".rstrip())
    for key, value in environment.details.items():
        reader.name("details", f"{key}: {value}")


def _as_call(change: schema.Change) -> schema.Call:
    """What the host wrote, as if it were given to a call."""
    return schema.Call(change.call, "", "window", 0, [], 0, inputs={"contents": change.contents})


def _all(opened: Snapshot, kind: type[T]) -> Iterator[T]:
    return schema.all_of(opened.reader, kind)


def _chosen(ranges: list[ReadableRange]) -> list[ReadableRange]:
    def order(item: ReadableRange) -> tuple[int, bool, int]:
        return -item.texts.suspicious, not item.texts.count, -item.size_bytes

    return sorted(ranges, key=order)[:LISTED_RANGES]
