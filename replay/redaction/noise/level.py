"""`--level noise`: contents of floating-point memory become noise where no word decides an address or a branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, NoteCode, Role, Work
from replay.errors import EngineError
from replay.inspection.pieces import describe, read_chunk
from replay.planning.spans import is_array, is_global
from replay.redaction.model import NO_NOISE, RedactedBuffer
from replay.redaction.noise.values import noise, width_of
from replay.redaction.rewriting import Level, role_of
from replay.redaction.taint.words import Words
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import (
    CHUNK_BYTES,
    ZERO_DIGEST,
    Attachment,
    Call,
    Census,
    Contents,
    Note,
    Range,
    Summary,
    all_of,
)

if TYPE_CHECKING:
    from replay.run.touched import Runs

_UNREAD, _EXACT = 0, 255  # codes of bytes; between them, those of element types
_WORD_BYTES = 8


@dataclass
class Choices:
    """What may change, in one window. words: of its memory. kept: ids of ranges that stay, and why. declared: element
    types by range. trusted: declared types are enough. secret: what noise is drawn from. outputs: folder with those of
    a replay; None before it, where zeros stand for them. buffers: filled in. window: its number, of several."""

    words: Words
    kept: dict[int, str]
    declared: dict[int, str]
    trusted: bool
    secret: bytes
    outputs: Path | None = None
    buffers: dict[int, RedactedBuffer] = field(default_factory=dict)
    window: int | None = None


def _writes_linear(call: Call) -> bool:
    """Whether the call copies from the host to the address that is its first argument."""
    function = by_symbol().get(call.function)
    return (
        function is not None
        and function.effect == Effect.WRITE
        and function.effect_terms[0].parameters == (0,)
    )


def _copies(call: Call) -> bool:
    function = by_symbol().get(call.function)
    return function is not None and function.work == Work.COPY


class Noising(Level):
    """Noise, zeros where no kernel reads, and outputs of a replay of both."""

    name = "noise"
    values = staticmethod(noise)  # other ones in place of an array of elements
    clears_unread = True
    note = "floating-point contents are noise; outputs are of a replay of them, not of the application"

    def __init__(self, reader: SnapshotReader, writer: SnapshotWriter, choices: Choices) -> None:
        super().__init__(reader, writer)
        self._choices = choices
        self._host_outputs = 0
        self._changed_bytes = 0
        self._types = sorted({*choices.words.typed, *choices.declared.values()})
        self._census = {
            item.site: [
                int.from_bytes(item.words[at : at + 8], "little") for at in range(0, len(item.words), 24)
            ]
            for item in all_of(reader, Census)
            if item.kind.startswith("range")
        }

    def range_(self, item: Range) -> Range:
        """An allocation with noise, and the outputs of the replay."""
        choices = self._choices
        reason = choices.kept.get(item.id, "") or choices.words.reason
        if is_global(item) or is_array(item):
            reason = reason or "where it lies, the run does not say"
        if choices.trusted and item.id in choices.declared:
            reason = choices.kept.get(item.id, "")
        counts = [0, 0, 0]
        before = item.before
        if before is not None:
            before = self.copied(before) if reason else self._noised(item, before, counts)
        if reason and item.before is not None:
            counts[2] = item.before.size_bytes
        types = [] if reason or not counts[0] else self._types_of(item)
        why = reason or (self._why(item) if counts[2] else "")
        choices.buffers[item.id] = RedactedBuffer(
            item.id,
            describe(item),
            item.size_bytes,
            counts[0],
            counts[1],
            counts[2],
            types,
            why,
            choices.window,
        )
        after = None if item.after is None else self._after(item, item.after)
        if before is not None and after is not None:
            pairs = zip(before.chunk_digests(), after.chunk_digests(), strict=False)
            self._changed_bytes += sum(CHUNK_BYTES for one, other in pairs if one != other)
        return replace(item, before=before, after=after)

    def attachment(self, call: Call, side: str, key: str, value: Attachment) -> Attachment:
        """What the host gave becomes noise as what it is copied to does; what it got is of the replay."""
        role = role_of(call, key)
        rows = role is None and "." in key and _copies(call)
        if call.section == "window" and side == "outputs" and (role == Role.HOST_WRITE or rows):
            return self._host_output(value)
        if (
            side == "inputs"
            and role == Role.HOST_READ
            and _writes_linear(call)
            and not self._choices.words.reason
        ):
            return self._given(call.arguments[0], value)
        return super().attachment(call, side, key, value)

    def notes(self) -> Iterator[Note]:
        """What the redacted window says of itself: also that nothing of it is noise."""
        if any(item.noise_bytes for item in self._choices.buffers.values()):
            yield from super().notes()
        else:
            yield Note(NoteCode.REDACTED.name, f"{NO_NOISE}; outputs are of a replay, not of the application")

    def summary(self, summary: Summary) -> Summary:
        """With what the redacted window writes."""
        return replace(summary, written_bytes=min(self._changed_bytes, summary.memory_bytes))

    def _why(self, item: Range) -> str:
        """Why some of an allocation is as captured."""
        at = self._choices.words.decides(item.address, item.address + item.size_bytes)
        decides = f"an address or a branch hangs on it ({at})" if at else ""
        pointers = "pointers" if self._census.get(item.id) else ""
        return (
            "; ".join(filter(None, [decides, pointers])) or "values of no floating-point type that is known"
        )

    def _types_of(self, item: Range) -> list[str]:
        if item.id in self._choices.declared:
            return [self._choices.declared[item.id]]
        end = item.address + item.size_bytes
        return [
            type_
            for type_, runs in sorted(self._choices.words.typed.items())
            if len(runs) and bool(((runs[:, 0] < end) & (runs[:, 1] > item.address)).any())
        ]

    def _noised(self, item: Range, contents: Contents, counts: list[int]) -> Contents:
        digests, site = [], self._census.get(item.id, [])
        for number, digest in enumerate(contents.chunk_digests()):
            offset = number * CHUNK_BYTES
            size = min(CHUNK_BYTES, contents.size_bytes - offset)
            data = read_chunk(self.reader, digest, size)
            pointers = [place - offset for place in site if -_WORD_BYTES < place - offset < size]
            made = self._changed(
                item.address + offset, data, pointers, self._choices.declared.get(item.id), counts
            )
            digests.append(self.writer.write_chunk(made))
        return Contents(contents.size_bytes, b"".join(digests))

    def _changed(
        self, address: int, data: bytes, pointers: list[int], declared: str | None, counts: list[int]
    ) -> bytes:
        """Other bytes for `data` at `address`; counts: of noise, zeros and exact bytes, added to."""
        import numpy

        words = self._choices.words
        codes = numpy.zeros(len(data), "u1")

        def paint(runs: Runs, code: int) -> None:
            first = int(numpy.searchsorted(runs[:, 1], address, side="right"))
            last = int(numpy.searchsorted(runs[:, 0], address + len(data)))
            for begin, end in runs[first:last].tolist():
                part = codes[max(begin - address, 0) : end - address]
                part[:] = numpy.where((part == _UNREAD) | (part == code), code, _EXACT)

        for type_, runs in words.typed.items():
            if declared is None:
                paint(runs, 1 + self._types.index(type_))
        if declared is not None and self._choices.trusted and words.reason:
            codes[:] = 1 + self._types.index(declared)
        elif declared is not None:
            for runs in (*words.typed.values(), words.unknown):
                paint(runs, 1 + self._types.index(declared))
        else:
            paint(words.unknown, _EXACT)
        paint(words.exact, _EXACT)
        for place in pointers:
            codes[max(place, 0) : place + _WORD_BYTES] = _EXACT
        held = numpy.frombuffer(data, "u1")
        made = numpy.where((codes == _UNREAD) & self.clears_unread, 0, held).astype("u1")
        unread, changed = int((codes == _UNREAD).sum()), 0
        counts[1] += unread
        random = numpy.random.default_rng(
            int.from_bytes(blake3(self._choices.secret + data + codes.tobytes()).digest(length=16), "little")
        )
        for number, type_ in enumerate(self._types, 1):
            width = width_of(type_)
            skip = -address % width
            count = (len(data) - skip) // width
            whole = (codes[skip : skip + count * width].reshape(-1, width) == number).all(axis=1)
            elements = made[skip : skip + count * width].reshape(-1, width)
            if whole.any():
                bits = numpy.ascontiguousarray(elements[whole]).view(f"<u{width}").ravel()
                elements[whole] = self.values(bits, type_, random).view("u1").reshape(-1, width)
            changed += int(whole.sum()) * width
        counts[0] += changed
        counts[2] += len(data) - unread - changed
        return made.tobytes()

    def _given(self, address: int, value: Attachment) -> Attachment:
        counts = [0, 0, 0]
        if isinstance(value, bytes):
            return self._changed(address, value, [], None, counts) if value else value
        if not isinstance(value, Contents):
            return value
        digests = []
        for number, digest in enumerate(value.chunk_digests()):
            offset = number * CHUNK_BYTES
            data = read_chunk(self.reader, digest, min(CHUNK_BYTES, value.size_bytes - offset))
            digests.append(self.writer.write_chunk(self._changed(address + offset, data, [], None, counts)))
        return Contents(value.size_bytes, b"".join(digests))

    def _host_output(self, value: Attachment) -> Attachment:
        size = value.size_bytes if isinstance(value, Contents) else len(value)
        if self._choices.outputs is None or isinstance(value, str):
            return bytes(size) if isinstance(value, bytes) else self._zeros(size)
        self._host_outputs += 1
        path = self._choices.outputs / f"host-{self._host_outputs:04d}-actual.bin"
        if not path.exists() or path.stat().st_size != size:
            raise EngineError(f"the replay did not say what a copy to the host of {size} bytes wrote",
                              next="use --level paths or shapes")  # fmt: skip
        return path.read_bytes() if isinstance(value, bytes) else self._stored(path, size)

    def _after(self, item: Range, contents: Contents) -> Contents | None:
        outputs = self._choices.outputs
        if outputs is None:
            return self._zeros(contents.size_bytes)
        path = outputs / f"memory-{item.id:04d}-actual.bin"
        return self._stored(path, contents.size_bytes) if path.exists() else None

    def _zeros(self, size: int) -> Contents:
        return Contents(size, ZERO_DIGEST * -(-size // CHUNK_BYTES))

    def _stored(self, path: Path, size: int) -> Contents:
        with open(path, "rb") as file:
            return Contents(size, b"".join(self.writer.write_chunks_from(file, 0, size, CHUNK_BYTES)))
