"""What a snapshot says of contents: their pieces, what the window writes of them. Nothing here knows a driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.errors import EngineError
from replay.planning.spans import is_global
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents, Range, Summary, first_of

LEAST_ZERO_BYTES = 4 * CHUNK_BYTES  # that are worth a call of their own


def read_contents(reader: SnapshotReader, contents: Contents) -> bytes:
    """All bytes of an attachment or image."""
    digests = contents.chunk_digests()
    return b"".join(
        read_chunk(reader, digest, min(CHUNK_BYTES, contents.size_bytes - number * CHUNK_BYTES))
        for number, digest in enumerate(digests)
    )


def require_contents(reader: SnapshotReader) -> None:
    """Raises EngineError for a snapshot that was redacted to shapes."""
    summary = first_of(reader, Summary)
    if summary is not None and summary.redacted == "shapes":
        raise EngineError("holds no contents of memory: it was redacted with --level shapes", where=reader.path,
                          next="ask for one of --level noise")  # fmt: skip


def read_chunk(reader: SnapshotReader, digest: bytes, size_bytes: int) -> bytes:
    """One chunk, checked; zeros for ZERO_DIGEST."""
    return bytes(size_bytes) if digest == ZERO_DIGEST else reader.chunk(digest, size_bytes)


def written_stretches(range_: Range) -> list[tuple[int, int]]:
    """(offset, bytes) of what the window writes in a range, neighbours joined."""
    before, after = range_.before, range_.after
    if before is None:
        return []
    if after is None or after.size_bytes != before.size_bytes:
        return [(0, before.size_bytes)]
    stretches: list[tuple[int, int]] = []
    for number, (old, new) in enumerate(zip(before.chunk_digests(), after.chunk_digests(), strict=True)):
        if old != new:
            offset = number * CHUNK_BYTES
            size = min(CHUNK_BYTES, before.size_bytes - offset)
            if stretches and sum(stretches[-1]) == offset:
                stretches[-1] = (stretches[-1][0], stretches[-1][1] + size)
            else:
                stretches.append((offset, size))
    return stretches


def describe(range_: Range) -> str:
    """A range for people."""
    if is_global(range_):
        return f"global {range_.name or hex(range_.address)} ({range_.size_bytes} bytes)"
    if range_.array is not None:
        return f"array {range_.owner:#x} ({range_.array}, {range_.size_bytes} bytes)"
    return f"{range_.kind} buffer {range_.address:#x} ({range_.size_bytes} bytes)"


def pieces(contents: Contents) -> Iterable[tuple[int, bytes, int]]:
    """(offset, digest, bytes) of each chunk."""
    for number, digest in enumerate(contents.chunk_digests()):
        offset = number * CHUNK_BYTES
        yield offset, digest, min(CHUNK_BYTES, contents.size_bytes - offset)


def loads(contents: Contents, start: int, widest_fill_bytes: int) -> Iterator[tuple[int, bytes, int]]:
    """(offset, digest, bytes) of what is written one after another to load contents from chunk border `start` on:
    chunks, and zeros joined up to `widest_fill_bytes`."""
    fill_offset = fill_bytes = 0
    for offset, digest, size in pieces(contents):
        if offset < start:
            continue
        if fill_bytes and (digest != ZERO_DIGEST or fill_bytes + size > widest_fill_bytes):
            yield fill_offset, ZERO_DIGEST, fill_bytes
            fill_bytes = 0
        if digest == ZERO_DIGEST:
            fill_offset = fill_offset if fill_bytes else offset
            fill_bytes += size
        else:
            yield offset, digest, size
    if fill_bytes:
        yield fill_offset, ZERO_DIGEST, fill_bytes


def apart_from_zeros(range_: Range, stretches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """(offset, bytes, whether it holds only zeros before the window) of stretches of a range that are in order, cut
    where at least LEAST_ZERO_BYTES of zeros begin and end. Arrays, which a call cannot fill, are not cut."""
    runs: list[tuple[int, int]] = []
    if range_.before is not None and range_.array is None:
        found = loads(range_.before, 0, range_.before.size_bytes)
        runs = [
            (at, at + size)
            for at, digest, size in found
            if digest == ZERO_DIGEST and size >= LEAST_ZERO_BYTES
        ]
    next_run = 0
    for offset, size in stretches:
        end = offset + size
        while next_run < len(runs) and runs[next_run][1] <= offset:
            next_run += 1
        at = next_run
        while at < len(runs) and runs[at][0] < end:
            start, stop = max(runs[at][0], offset), min(runs[at][1], end)
            if offset < start:
                yield offset, start - offset, False
            yield start, stop - start, True
            offset, at = stop, at + 1
        if offset < end:
            yield offset, end - offset, False


def copied_bytes(range_: Range) -> int:
    """What the copies take from which the writes of the window to a range are undone."""
    stretches = apart_from_zeros(range_, written_stretches(range_))
    return sum(size for _, size, is_zero in stretches if not is_zero)
