"""Which contents may be overwritten: what nothing reads, and what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, Role
from replay.inspection.pieces import pieces, read_chunk
from replay.minimising.candidates.cuts import Fill, Piece
from replay.minimising.candidates.writing import PATTERN_BYTES
from replay.minimising.passes.known import gaps
from replay.planning.spans import is_array, is_global
from replay.redaction.rewriting import role_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import ZERO_DIGEST, Attachment, Call, Census, Contents, Range

if TYPE_CHECKING:
    from replay.run.touched import Runs

MOST_STRETCHES = 1024
_WORD_BYTES = 8


def unread(ranges: Iterable[Range], calls: Iterable[Call], read: Runs) -> Iterator[Piece]:
    """Zeros for what no instruction and no copy reads, in memory and in what copies were given by the host."""
    for item in ranges:
        if item.before is not None and not is_global(item) and not is_array(item):
            for begin, end in gaps(item.address, item.before.size_bytes, read):
                yield Piece("range", item.id, begin, end)
    for call in calls:
        for value in _given(call):
            for begin, end in gaps(call.arguments[0], _size(value), read):
                yield Piece("call", call.number, begin, end)


def _given(call: Call) -> Iterator[Attachment]:
    """What the host gave to a call that copies it to the address that is its first argument."""
    row = by_symbol().get(call.function)
    if row is not None and row.effect == Effect.WRITE and row.effect_terms[0].parameters == (0,):
        for key, value in call.inputs.items():
            if role_of(call, key) == Role.HOST_READ and _size(value) > 0:
                yield value


def _size(value: Attachment) -> int:
    if isinstance(value, Contents):
        return value.size_bytes
    return len(value) if isinstance(value, bytes) else 0


def _stored_size(value: Attachment) -> int:
    """Without chunks of zeros."""
    if isinstance(value, Contents):
        return sum(size for _, digest, size in pieces(value) if digest != ZERO_DIGEST)
    return _size(value)


def stretches(
    reader: SnapshotReader,
    ranges: list[Range],
    calls: list[Call],
    census: Iterable[Census],
    fill: Fill,
    least: int,
) -> list[Piece]:
    """What is not zero, in pieces of `least` bytes or more that are cut where pointers are."""
    pointers: dict[int, list[int]] = {}
    for item in census:
        if not item.kind.startswith("call"):
            words = (
                int.from_bytes(item.words[at : at + 8], "little") for at in range(0, len(item.words), 24)
            )
            pointers.setdefault(item.site, []).extend(words)
    sources: list[tuple[Literal["range", "call"], int, Attachment]] = [
        ("range", item.id, item.before) for item in ranges if item.before is not None
    ]
    sources += [("call", call.number, value) for call in calls for value in _given(call)]
    total = sum(_stored_size(value) for _, _, value in sources)
    step = max(least, total // MOST_STRETCHES)
    found = []
    for of, number, value in sources:
        holes = sorted(pointers.get(number, ())) if of == "range" else []
        for begin, end in _not_zero(reader, value, step):
            for first, last in _around(begin, end, holes):
                if last - first >= (4 * PATTERN_BYTES if fill == "pattern" else 1):
                    found.append(Piece(of, number, first, last, fill))
    return found


def _not_zero(reader: SnapshotReader, value: Attachment, step: int) -> Iterator[tuple[int, int]]:
    if isinstance(value, bytes):
        parts: Iterable[tuple[int, bytes]] = [(0, value)]
    elif isinstance(value, Contents):
        parts = (
            (at, read_chunk(reader, digest, size))
            for at, digest, size in pieces(value)
            if digest != ZERO_DIGEST
        )
    else:
        return
    for offset, data in parts:
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            if kept := piece.rstrip(b"\0"):
                yield offset + at + len(kept) - len(kept.lstrip(b"\0")), offset + at + len(kept)


def _around(begin: int, end: int, holes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for hole in holes:
        if hole + _WORD_BYTES > begin and hole < end:
            if hole > begin:
                yield begin, hole
            begin = hole + _WORD_BYTES
    if begin < end:
        yield begin, end
