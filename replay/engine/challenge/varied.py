"""Other inputs of the same window, out of a snapshot that was made for it, and what the captured kernels leave of
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from replay.engine.checking.comparing import Comparing
from replay.engine.contents.store import ContentStore
from replay.inspection.pieces import describe, pieces
from replay.outputs.comparison import BufferComparison
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Contents, Range, all_of
from replay.snapshot.windows import choose_window


class Varied:
    """Opened before the worker is confined. number: from 1."""

    def __init__(self, number: int, reader: SnapshotReader, window: int | None) -> None:
        self.number, self._reader = number, reader
        choose_window(reader, window)
        self._ranges = {item.id: item for item in all_of(reader, Range)}

    def put(self, contents: ContentStore, ranges: Iterable[Range]) -> None:
        """Write these inputs over those that are there."""
        for range_ in ranges:
            other = self._ranges.get(range_.id)
            for offset, _, digest, size in () if other is None else _different(range_.before, other.before):
                contents.write(range_, offset, contents.as_here(range_, offset, digest, size, self._reader))
        contents.arrive()

    def take_back(self, contents: ContentStore, ranges: Iterable[Range]) -> None:
        """Write the captured inputs where others were."""
        for range_ in ranges:
            other = self._ranges.get(range_.id)
            for moment in () if other is None else (other.before, other.after):
                for offset, digest, _, size in _different(range_.before, moment):
                    contents.write(range_, offset, contents.as_here(range_, offset, digest, size))
        contents.arrive()

    def compare(self, comparing: Comparing, ranges: Iterable[Range]) -> list[BufferComparison]:
        """What a run of the window left, against what the captured kernels leave of the same inputs."""
        found = []
        for range_ in ranges:
            other = self._ranges.get(range_.id)
            if other is None or other.after is None or not comparing.contents.is_here(range_):
                continue
            result = BufferComparison(
                f"{describe(range_)} on other inputs ({self.number})", range_.address, range_.size_bytes,
                reading=partial(comparing.readings.of, range_),
            )  # fmt: skip
            for offset, digest, size in pieces(other.after):
                actual = comparing.contents.read(range_, offset, size)
                expected = comparing.contents.as_here(range_, offset, digest, size, self._reader)
                if expected != actual:
                    expected = comparing.expected_here(expected, actual)
                result.add(offset, expected, actual)
            found.append(result)
        return found


def _different(one: Contents | None, other: Contents | None) -> Iterator[tuple[int, bytes, bytes, int]]:
    """(offset, digest of the one, of the other, bytes) of chunks that are not the same."""
    if one is None or other is None or one.size_bytes != other.size_bytes:
        return
    for (offset, digest, size), (_, other_digest, _) in zip(pieces(one), pieces(other), strict=True):
        if digest != other_digest:
            yield offset, digest, other_digest, size


def open_varied(request: dict[str, Any], window: int | None) -> list[Varied]:
    """From the open files that the worker has inherited."""
    return [
        Varied(number, SnapshotReader(f"/proc/self/fd/{descriptor}"), window)
        for number, descriptor in enumerate(request["varied"], 1)
    ]
