"""Tensor maps of the captured memory and parameters, encoded anew for where their memory lives and by this driver.

What a map's 128 bytes say is the driver's own business, so a map of another driver, or one whose memory has moved, is
encoded again from the captured call. Not yet seen on a GPU (GT-TENSOR-MAPS).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from replay.api.functions import by_symbol
from replay.api.structs import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from replay.api.vocabulary import Role
from replay.engine.attachments import Attachments
from replay.engine.census import MapPlace
from replay.engine.driver import Driver, argument_value
from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError
from replay.snapshot.schema import Call, TensorMap

MAXIMUM_RANK = 5  # of cuTensorMapEncode*
_FEWER = {"globalStrides": 1, "pixelBoxLowerCorner": 2, "pixelBoxUpperCorner": 2}  # elements than dimensions


class LiveMaps:
    """The maps as this driver encodes them, once each. note: called with what could not be encoded."""

    def __init__(
        self,
        driver: Driver,
        attachments: Attachments,
        addresses: AddressMap,
        maps: Mapping[int, TensorMap],
        note: Callable[[str], None],
    ) -> None:
        self._driver, self._attachments, self._addresses = driver, attachments, addresses
        self._maps, self._note = maps, note
        self._live: dict[int, bytes] = {}
        self._numbers = {one.encoded: number for number, one in maps.items()}

    def live(self, number: int) -> bytes:
        """The 128 bytes that stand for a captured map here; the captured ones where encoding fails."""
        if number not in self._live:
            self._live[number] = self._encoded_again(self._maps[number])
        return self._live[number]

    def patch(self, data: bytearray, start: int, places: Iterable[MapPlace]) -> None:
        """Replace the maps in `data`, which begins at offset `start` of its site; only those that are wholly in it and
        still the captured ones."""
        for place in places:
            at, one = place.offset - start, self._maps.get(place.id)
            if one is not None and at >= 0 and data[at : at + TENSOR_MAP_BYTES] == one.encoded:
                data[at : at + TENSOR_MAP_BYTES] = self.live(place.id)

    def find(self, data: bytes) -> list[MapPlace]:
        """Where captured maps are in a parameter buffer of which no census tells."""
        places = range(0, len(data) - TENSOR_MAP_BYTES + 1, TENSOR_MAP_ALIGNMENT) if self._numbers else ()
        found = ((at, self._numbers.get(bytes(data[at : at + TENSOR_MAP_BYTES]))) for at in places)
        return [MapPlace(at, number) for at, number in found if number is not None]

    def _encoded_again(self, one: TensorMap) -> bytes:
        if not _encodes(one.call):
            raise EngineError(f"the tensor map {one.id} was made by {one.call.function}, which encodes none")
        try:
            return self._encode(one.call, self._addresses.live(one.address, f"tensor map {one.id}"))
        except EngineError as error:
            self._note(f"a tensor map was left as it was captured: {error.what}")
            return one.encoded

    def _encode(self, made: Call, address: int) -> bytes:
        """What the driver encodes when it is asked again, for a live global address."""
        function = by_symbol()[made.function]
        if len(made.arguments) != len(function.parameters):
            raise EngineError(f"has {len(made.arguments)} arguments", where=made.function)
        words = dict(zip((item.name for item in function.parameters), made.arguments, strict=True))
        rank = words["tensorRank"]
        if not 1 <= rank <= MAXIMUM_RANK:
            raise EngineError(f"a tensor of {rank} dimensions", where=made.function)
        room = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
        # cuda.h asks for a multiple of 64
        place = -(-ctypes.addressof(room) // TENSOR_MAP_ALIGNMENT) * TENSOR_MAP_ALIGNMENT
        arguments: list[Any] = []
        for parameter in function.parameters:
            if parameter.role == Role.VALUE:
                arguments.append(argument_value(parameter, words[parameter.name]))
            elif parameter.name in ("tensorMap", "globalAddress"):
                arguments.append(place if parameter.name == "tensorMap" else address)
            else:
                given = self._attachments.optional(made, parameter.name)
                wanted = max(rank - _FEWER.get(parameter.name, 0), 0) * parameter.element_bytes
                if len(given or b"") < wanted:
                    raise EngineError(f"{parameter.name} has {len(given or b'')} bytes", where=made.function)
                arguments.append(None if given is None else ctypes.create_string_buffer(given, len(given)))
        getattr(self._driver, made.function)(*arguments)
        return ctypes.string_at(place, TENSOR_MAP_BYTES)


def _encodes(call: Call) -> bool:
    function = by_symbol().get(call.function)
    made = function.tensor_map if function is not None else None
    return made is not None and made.role == Role.OUT
