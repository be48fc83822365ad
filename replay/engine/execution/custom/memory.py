"""Advice about managed memory: where it should be, and who uses it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

from replay.api.structs import CUmemLocation
from replay.api.vocabulary import Function
from replay.engine.driver import Driver
from replay.engine.execution.custom.common import Arguments, Rebuild
from replay.errors import EngineError
from replay.snapshot.schema import ATTACH, PREFETCH, Call, MemoryHint

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_LOCATION_DEVICE, _LOCATION_HOST, _DEVICE_CPU = 1, 2, -1  # CUmemLocationType, CU_DEVICE_CPU


def concerns_managed(executor: Executor, call: Call) -> bool:
    """Whether a hint is about memory that is managed in the replay."""
    given = call.inputs.get("dptrs")
    if isinstance(given, bytes):
        words = [int.from_bytes(given[at : at + 8], "little") for at in range(0, len(given) // 8 * 8, 8)]
    else:
        words = [call.arguments[1 if call.function == "cuStreamAttachMemAsync" else 0]]
    places = [executor.addresses.find(word) for word in words]
    return bool(places) and all(place is not None and executor.is_managed(place) for place in places)


def live_location(location: CUmemLocation, device: Callable[[int], int]) -> CUmemLocation:
    """A captured location with the device that stands for the captured one."""
    return CUmemLocation(
        location.type, device(location.id) if location.type == _LOCATION_DEVICE else location.id
    )


def _ordinal(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The processor is a device, too, in the first version of these functions."""
    for parameter, word in zip(function.parameters, prepared.call.arguments, strict=True):
        if parameter.c_type == "CUdevice":
            on_host = word & 0xFFFFFFFF == 0xFFFFFFFF
            return {parameter.name: _DEVICE_CPU if on_host else executor.live_device(word & 0xFFFFFFFF)}
    return {}


def _location(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    for parameter, word in zip(function.parameters, prepared.call.arguments, strict=True):
        if parameter.c_type == "CUmemLocation":
            captured = CUmemLocation.from_buffer_copy((word & (2**64 - 1)).to_bytes(8, "little"))
            return {parameter.name: by_value(live_location(captured, executor.live_device))}
    return {}


def by_value(location: CUmemLocation) -> object:
    """A location as an argument."""
    from replay.api.functions import by_symbol
    from replay.engine.driver import argument_value

    parameter = next(
        item for item in by_symbol()["cuMemAdvise_v2"].parameters if item.c_type == "CUmemLocation"
    )
    return argument_value(parameter, int.from_bytes(bytes(location), "little"))


def _locations(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """Of a batch: an array of them."""
    data = executor.optional(prepared, "prefetchLocs")
    if data is None or len(data) % ctypes.sizeof(CUmemLocation):
        raise EngineError("its locations were not captured", where=prepared.where)
    count = len(data) // ctypes.sizeof(CUmemLocation)
    words = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))
    if count < words["numPrefetchLocs"]:
        raise EngineError(
            f"prefetchLocs has {count} locations, of which the call reads {words['numPrefetchLocs']}",
            where=prepared.where,
        )
    array = (CUmemLocation * count).from_buffer_copy(data)
    for index in range(count):
        array[index] = live_location(array[index], executor.live_device)
    return {"prefetchLocs": executor.buffer(prepared, bytes(array))}


def give_hint(
    driver: Driver, hint: MemoryHint, live: int, device: Callable[[int], int], note: Callable[[str], None]
) -> None:
    """Tell the driver what the application had told it before the window."""
    if hint.advice == ATTACH:
        code, symbol = (
            driver.function("cuStreamAttachMemAsync")(0, live, hint.size_bytes, hint.location_type),
            "cuStreamAttachMemAsync",
        )
    else:
        ordinal = device(hint.location_id) if hint.location_type == _LOCATION_DEVICE else _DEVICE_CPU
        if hint.advice == PREFETCH:
            symbol = "cuMemPrefetchAsync"
            code = driver.function(symbol)(live, hint.size_bytes, ordinal, 0)
        else:
            symbol = "cuMemAdvise"
            code = driver.function(symbol)(live, hint.size_bytes, hint.advice, ordinal)
    if code:
        note(f"{symbol} of the setup returned {driver.error_name(code)}")


EXCEPTIONS: dict[str, Rebuild] = {
    "cuMemAdvise": _ordinal,
    "cuMemPrefetchAsync": _ordinal,
    "cuMemAdvise_v2": _location,
    "cuMemPrefetchAsync_v2": _location,
    "cuMemPrefetchBatchAsync": _locations,
    "cuMemDiscardAndPrefetchBatchAsync": _locations,
}
