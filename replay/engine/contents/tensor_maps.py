"""Tensor maps of the captured memory and parameters, encoded anew for where their memory lives and by this driver.

What a map's 128 bytes say is the driver's own business, so a map of another driver, or one whose memory has moved, is
encoded again from the captured call. Not yet seen on a GPU.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replay.api.executed import ENCODERS
from replay.api.structs import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from replay.errors import EngineError
from replay.snapshot.schema import TensorMap

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor


@dataclass(frozen=True)
class MapPlace:
    """Where a tensor map begins in its site."""

    offset: int
    id: int


def unpack_maps(words: bytes, maps: Mapping[int, TensorMap], site: str) -> list[MapPlace]:
    """The places of one Census. Raises EngineError for maps that do not exist."""
    if len(words) % 24:
        raise EngineError(f"the census of {site} has a broken length")
    places = [MapPlace(offset, number) for offset, _, number, _ in struct.iter_unpack("<QQII", words)]
    if any(place.id not in maps for place in places):
        raise EngineError(f"the census of {site} names a tensor map that is not in the snapshot")
    return places


@dataclass
class LiveMaps:
    """The maps as this driver encodes them, once each. note: called with what could not be encoded."""

    executor: Executor
    maps: Mapping[int, TensorMap]
    note: Callable[[str], None]
    _live: dict[int, bytes] = field(default_factory=dict)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def live(self, number: int) -> bytes:
        """The 128 bytes that stand for a captured map here; the captured ones where encoding fails."""
        if number not in self._live:
            self._live[number] = self._encode(self.maps[number])
        return self._live[number]

    def patch(self, data: bytearray, start: int, places: Iterable[MapPlace]) -> None:
        """Replace the maps in `data`, which begins at offset `start` of its site; only those that are wholly in it and
        still the captured ones."""
        for place in places:
            at = place.offset - start
            if at >= 0 and data[at : at + TENSOR_MAP_BYTES] == self.maps[place.id].encoded:
                data[at : at + TENSOR_MAP_BYTES] = self.live(place.id)

    def patch_all(self, data: bytearray) -> None:
        """Replace every captured map in a parameter buffer of which no census says where they are."""
        if not self._numbers:
            self._numbers = {one.encoded: number for number, one in self.maps.items()}
        for at in range(0, len(data) - TENSOR_MAP_BYTES + 1, TENSOR_MAP_ALIGNMENT) if self._numbers else ():
            number = self._numbers.get(bytes(data[at : at + TENSOR_MAP_BYTES]))
            if number is not None:
                data[at : at + TENSOR_MAP_BYTES] = self.live(number)

    def _encode(self, one: TensorMap) -> bytes:
        if one.call.function not in ENCODERS:
            raise EngineError(f"the tensor map {one.id} was made by {one.call.function}, which encodes none")
        try:
            live = self.executor.addresses.live(one.address, f"tensor map {one.id}")
            prepared = self.executor.prepare_encoder(one.call, live)
            code = prepared.function(*prepared.arguments)
            if code:
                raise EngineError(f"{one.call.function} returned {self.executor.driver.error_name(code)}")
        except EngineError as error:
            self.note(f"a tensor map was left as it was captured: {error.what}")
            return one.encoded
        return ctypes.string_at(prepared.arguments[0], TENSOR_MAP_BYTES)
