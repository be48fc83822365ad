"""A column of 64-bit words as bytes that compress well. FORMAT.md has the layout.

A reader takes at most eight times the memory of the bytes, and nothing for a column of equal words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.errors import DamagedError

U64 = NDArray[np.uint64]

_EQUAL, _LISTED = 0, 9  # 1 to 8: bytes of each difference
_MOST_LISTED = 256
_WORD_BYTES = 8


def pack_column(words: U64) -> bytes:
    """At least one word."""
    first: bytes = words[:1].astype("<u8").tobytes()
    steps = np.diff(words).view(np.int64)
    turned = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    largest = int(turned.max()) if len(turned) else 0
    if not largest:
        return bytes((_EQUAL,)) + first
    width = (largest.bit_length() + 7) // 8
    if width > 2 and (listed := _pack_listed(words)):
        return listed
    planes = turned.astype("<u8").view(np.uint8).reshape(-1, _WORD_BYTES)[:, :width].T
    return bytes((width,)) + first + bytes(planes.tobytes())


def _pack_listed(words: U64) -> bytes:
    """The different words and which of them each one is; nothing where there are many."""
    if len(np.unique(words[:_MOST_LISTED])) > _MOST_LISTED // 2:
        return b""
    values, places = np.unique(words, return_inverse=True)
    if len(values) > _MOST_LISTED:
        return b""
    head = bytes((_LISTED, len(values) - 1))
    return head + bytes(values.astype("<u8").tobytes()) + bytes(places.astype(np.uint8).tobytes())


def unpack_column(data: object, count: int) -> U64:
    """`count` words, at least one. Raises DamagedError."""
    if not isinstance(data, bytes) or len(data) < 1 + _WORD_BYTES:
        raise DamagedError("a column of calls is too short")
    kind = data[0]
    if kind == _LISTED:
        return _unpack_listed(data, count)
    width = kind * (count - 1)
    if kind > _WORD_BYTES or len(data) != 1 + _WORD_BYTES + width:
        raise DamagedError("a column of calls has another length than its calls")
    first = np.frombuffer(data, "<u8", 1, 1)
    if kind == _EQUAL:
        return np.broadcast_to(first, count)
    planes = np.frombuffer(data, np.uint8, width, 1 + _WORD_BYTES).reshape(kind, count - 1)
    turned = np.zeros((count - 1, _WORD_BYTES), np.uint8)
    turned[:, :kind] = planes.T
    steps = turned.view("<u8")[:, 0]
    words = np.empty(count, np.uint64)
    words[:1] = first
    words[1:] = (steps >> np.uint64(1)) ^ (np.uint64(0) - (steps & np.uint64(1)))
    found: U64 = np.cumsum(words, dtype=np.uint64)
    return found


def _unpack_listed(data: bytes, count: int) -> U64:
    listed = data[1] + 1
    begin = 2 + _WORD_BYTES * listed
    if len(data) != begin + count:
        raise DamagedError("a column of calls has another length than its calls")
    values = np.frombuffer(data, "<u8", listed, 2)
    places = np.frombuffer(data, np.uint8, count, begin)
    if int(places.max()) >= listed:
        raise DamagedError("a column of calls refers to a word that it does not list")
    found: U64 = values[places]
    return found
