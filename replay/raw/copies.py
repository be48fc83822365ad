"""COPY records: readings of a range, of which only what had changed was written, made whole again."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replay.api.vocabulary import CopyFlag, Moment
from replay.errors import FormatError
from replay.raw.records import Record

NO_BLOB = (1 << 64) - 1  # offset of contents that are all zero and were not written
PIECE_BYTES = 256 * 1024  # of a copy; a chunk of a snapshot
MAXIMUM_ALLOCATION_BYTES = 1 << 44  # a snapshot holds no larger range

_COPY = struct.Struct("<QQIIII")  # base, bytes, serial, moment, flags, bytes of a piece
_ENTRY = np.dtype([("piece", "<u4"), ("check", "<u4"), ("blob", "<u8")])
_PLACE = np.dtype([("check", "<u4"), ("blob", "<u8")])
_MOMENTS = frozenset((Moment.BEFORE, Moment.AFTER))
Places = NDArray[np.void]


@dataclass(eq=False)
class RawCopy:
    """One reading of a range, of which only what had changed since the one before was written.

    serial: of the range; an address that is used again has another. moment: see Moment. places: where each piece of
    PIECE_BYTES lies in the blobs file (NO_BLOB: zeros), and its CRC-32C; None until the copy is `whole`. Two copies
    between which nothing changed share their places.
    """

    call: int
    thread: int
    base: int
    allocation_bytes: int
    serial: int
    moment: Moment
    places: Places | None = None

    @property
    def whole(self) -> bool:
        """Whether everything that had changed was read."""
        return self.places is not None

    @property
    def piece_count(self) -> int:
        """Pieces of the range; the last one may be shorter than the others."""
        return -(-self.allocation_bytes // PIECE_BYTES)


class Copies:
    """Follows the COPY records: what is listed of a range, and what its copy takes over from the one before."""

    def __init__(self) -> None:
        self._whole: dict[int, RawCopy] = {}  # by base, the last one
        # Copy, whether it inherits, its entries
        self._open: dict[int, tuple[RawCopy, bool, list[Places]]] = {}

    def record(self, record: Record) -> RawCopy | None:
        """The copy that the record begins, or None when it belongs to one that was begun."""
        base, size, serial, moment, flags, piece_bytes = _COPY.unpack_from(record.payload)
        possible = 0 < size <= MAXIMUM_ALLOCATION_BYTES and base + size <= 1 << 64
        if piece_bytes != PIECE_BYTES or not possible or moment not in _MOMENTS:
            raise FormatError(f"a copy of {size} bytes at {base:#x} in pieces of {piece_bytes}")
        entries = np.frombuffer(record.payload, _ENTRY, offset=_COPY.size, count=_entries(record.payload))
        begun = None
        if flags & CopyFlag.FIRST:
            begun = RawCopy(record.call, record.thread, base, size, serial, Moment(moment))
            self._open[serial] = (begun, bool(flags & CopyFlag.INHERITS), [])
        found = self._open.get(serial)
        if found is None or (found[0].base, found[0].allocation_bytes) != (base, size):
            raise FormatError(f"a copy of {size} bytes at {base:#x} that has no beginning")
        copy, inherits, listed = found
        if len(entries) and int(entries["piece"].max()) >= copy.piece_count:
            raise FormatError(f"a copy of {size} bytes with a piece past its end")
        if len(entries):
            listed.append(entries)
        if flags & CopyFlag.LAST:
            del self._open[serial]
            copy.places = self._resolved(copy, inherits, listed)
            self._whole[base] = copy
        return begun

    def _resolved(self, copy: RawCopy, inherits: bool, listed: list[Places]) -> Places:
        before = self._whole.get(copy.base) if inherits else None
        same = before is not None and before.serial == copy.serial
        if inherits and not (
            same and before is not None and before.allocation_bytes == copy.allocation_bytes
        ):
            raise FormatError(f"a copy at {copy.base:#x} inherits from one that is not there")
        if before is not None and before.places is not None:
            if not listed:
                return before.places
            places: Places = before.places.copy()
        else:
            if sum(map(len, listed)) < copy.piece_count:
                raise FormatError(f"a copy at {copy.base:#x} does not list all of its pieces")
            places = np.zeros(copy.piece_count, _PLACE)
        for entries in listed:
            places["check"][entries["piece"]] = entries["check"]
            places["blob"][entries["piece"]] = entries["blob"]
        return places


def _entries(payload: bytes) -> int:
    return (len(payload) - _COPY.size) // _ENTRY.itemsize
