"""Columns of a long window: as they are while they are in use, else packed, so that a process does not grow with the
length of the window by more than a few bytes a call."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Any
from weakref import ref

MAXIMUM_WHOLE_BYTES = 16 << 20  # of all columns that are not packed
_SMALLEST_BYTES = 4096  # less is never packed
_LEVEL = 1  # zstd's: they are packed and unpacked while a replay waits

Column = Any  # array, numpy.ndarray of one dimension, or bytearray


class Kept:
    """Columns that nobody changes any more."""

    def __init__(self, *columns: Column) -> None:
        self._whole: tuple[Column, ...] | None = columns
        self._packed: list[tuple[Any, bytes]] | None = None
        self.whole_bytes = sum(len(one) * getattr(one, "itemsize", 1) for one in columns)
        _use(self)

    def get(self) -> tuple[Any, ...]:
        """The columns, of the types in which they were given."""
        if self._whole is None:
            assert self._packed is not None
            self._whole = tuple(_unpacked(kind, data) for kind, data in self._packed)
        found = self._whole
        _use(self)
        return found

    def __del__(self) -> None:
        _forget(self)

    def pack(self) -> None:
        """Free what is not packed; `get` has it again."""
        if self._packed is None and self._whole is not None:
            self._packed = [_packed(one) for one in self._whole]
        self._whole = None


# Those that are whole, by their id, used last at the end; each takes itself away when it goes
_used: OrderedDict[int, ref[Kept]] = OrderedDict()
_whole_bytes = 0


def _use(kept: Kept) -> None:
    """Note that it is whole and used now, and pack what was not used for longest where all of it is too much."""
    global _whole_bytes
    if kept.whole_bytes < _SMALLEST_BYTES:
        return
    known = _used.pop(id(kept), None)
    _used[id(kept)] = known or ref(kept)
    _whole_bytes += 0 if known else kept.whole_bytes
    while _whole_bytes > MAXIMUM_WHOLE_BYTES and len(_used) > 1:
        oldest = next(iter(_used.values()))()
        assert oldest is not None
        _forget(oldest)
        oldest.pack()


def _forget(kept: Kept) -> None:
    global _whole_bytes
    if _used.pop(id(kept), None) is not None:
        _whole_bytes -= kept.whole_bytes


def _packed(column: Column) -> tuple[Any, bytes]:
    """What is needed to make such a column again, and its bytes."""
    import numpy
    import zstandard

    from replay.snapshot.container.columns import pack_column

    words = numpy.frombuffer(column, "u1") if isinstance(column, bytearray) else numpy.asarray(column)
    wide = words.dtype.itemsize == 8 and len(words) > 0
    data = pack_column(words.view("<u8")) if wide else words.tobytes()
    kind = (type(column), getattr(column, "typecode", None), words.dtype, len(words), wide)
    return kind, bytes(memoryview(zstandard.compress(data, _LEVEL)))  # a copy: it was made in room for `data`


def _unpacked(kind: Any, packed: bytes) -> Column:
    import numpy
    import zstandard

    from replay.snapshot.container.columns import unpack_column

    made, code, words, count, wide = kind
    data = zstandard.decompress(packed)
    if made is bytearray:
        return bytearray(data)
    found = unpack_column(data, count).view(words) if wide else numpy.frombuffer(data, words)
    if made is array:
        column = array(code)
        column.frombytes(found.tobytes())
        return column
    return found.copy()
