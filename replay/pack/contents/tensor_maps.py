"""Tensor maps among captured bytes: 128 opaque bytes that a recorded call has encoded.

Not yet seen on a GPU (GT-TENSOR-MAPS).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np

from replay.api.parts import find_bytes
from replay.api.structs import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from replay.api.vocabulary import Role
from replay.raw.events import RawCall
from replay.records import dataclass

MAXIMUM_MAPS = 65_536  # remembered; the shim remembers fewer


@dataclass(frozen=True)
class EncodedMap:
    """How a map was made: the call that encoded it, and the global address that it holds now."""

    encoded: bytes
    call: RawCall
    address: int


@dataclass
class TensorMaps:
    """The maps that were encoded so far, the latest for each content."""

    known: dict[bytes, EncodedMap] = field(default_factory=dict)
    # The 128 bytes of a map -> its id, from 1, in the order in which they were found
    used: dict[bytes, int] = field(default_factory=dict)
    _first_words: np.ndarray[tuple[int], np.dtype[np.uint64]] | None = None

    def apply(self, call: RawCall) -> None:
        """Take over what a successful call made."""
        parameter = call.function.tensor_map
        if parameter is None:
            return
        made = find_bytes(call.outputs, parameter.name)
        if made is None or len(made) != TENSOR_MAP_BYTES:
            return
        source = call
        if parameter.role == Role.INOUT:
            before = self.known.get(find_bytes(call.inputs, parameter.name) or b"")
            if before is None:
                return
            source = before.call
        self.known.pop(made, None)
        self.known[made] = EncodedMap(made, source, call.argument("globalAddress"))
        self._first_words = None
        if len(self.known) > MAXIMUM_MAPS:
            del self.known[next(iter(self.known))]

    def find(self, data: bytes | memoryview) -> Iterator[tuple[int, EncodedMap]]:
        """(offset, map) of the maps in `data`, whose beginning is aligned."""
        if not self.known or len(data) < TENSOR_MAP_BYTES:
            return
        if self._first_words is None:
            self._first_words = np.array(
                sorted({int.from_bytes(key[:8], "little") for key in self.known}), "<u8"
            )
        words = np.frombuffer(data, "<u8", len(data) // 8)[:: TENSOR_MAP_ALIGNMENT // 8]
        for block in np.flatnonzero(np.isin(words, self._first_words)).tolist():
            at = block * TENSOR_MAP_ALIGNMENT
            found = self.known.get(bytes(data[at : at + TENSOR_MAP_BYTES]))
            if found is not None:
                yield at, found

    def copy(self) -> TensorMaps:
        """What is known now, none of it used."""
        return TensorMaps(dict(self.known))

    def use(self, found: EncodedMap) -> int:
        """The id of a map that is in the snapshot."""
        return self.used.setdefault(found.encoded, len(self.used) + 1)
