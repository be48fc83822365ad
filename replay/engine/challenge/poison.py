"""Random bytes in outputs before each run, other ones each time: nothing of an earlier run, and nothing that a kernel
could know them by, is there. Only bytes that the captured kernels write, and that nothing reads before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from replay.engine.contents.store import ContentStore
from replay.planning.spans import is_array, is_global
from replay.snapshot.schema import CHUNK_BYTES, Range

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


class Poison:
    """ranges: memory that is there when a run of the window begins. runs: addresses as captured, (n, 2), in order."""

    def __init__(self, contents: ContentStore, ranges: Iterable[Range], runs: NDArray[numpy.uint64]) -> None:
        self._contents = contents
        self._pieces: list[tuple[Range, int, int, NDArray[numpy.bool_] | None]] = []
        self.size_bytes, self._seed = 0, os.urandom(32)
        for range_ in ranges:
            if not (is_array(range_) or is_global(range_) or range_.physical):
                self._take(range_, runs)

    def _take(self, range_: Range, runs: NDArray[numpy.uint64]) -> None:
        import numpy

        for offset in range(0, range_.size_bytes, CHUNK_BYTES):
            size = min(CHUNK_BYTES, range_.size_bytes - offset)
            begin = range_.address + offset
            first = int(numpy.searchsorted(runs[:, 1], begin, side="right"))
            last = int(numpy.searchsorted(runs[:, 0], begin + size))
            if first >= last:
                continue
            mask = numpy.zeros(size, "?")
            for start, end in runs[first:last].tolist():
                mask[max(start - begin, 0) : end - begin] = True
            self.size_bytes += int(mask.sum())
            self._pieces.append((range_, offset, size, None if mask.all() else mask))

    def write(self, *, again: bool = False) -> None:
        """Fill them anew; again: with what was there last. All of it is there afterwards."""
        import numpy

        self._seed = self._seed if again else os.urandom(32)
        random = numpy.random.default_rng(int.from_bytes(self._seed, "little"))
        for range_, offset, size, mask in self._pieces:
            data = random.bytes(size)
            if mask is not None:
                held = numpy.frombuffer(self._contents.read(range_, offset, size), "u1")
                data = numpy.where(mask, numpy.frombuffer(data, "u1"), held).astype("u1").tobytes()
            self._contents.write(range_, offset, data)
        if self._pieces:
            self._contents.arrive()
