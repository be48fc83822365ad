"""Advice about managed memory: where it should be, and who uses it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from replay.api.functions import by_symbol
from replay.api.structs import CUmemLocation, LocationType
from replay.api.vocabulary import Function, Role
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import Driver, DriverFailure, argument_value
from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError
from replay.snapshot.schema import ATTACH, PREFETCH, Call, MemoryHint

_DEVICE_CPU = -1  # CU_DEVICE_CPU


def concerns_managed(addresses: AddressMap, call: Call) -> bool:
    """Whether a hint is about memory that is managed in the replay."""
    given = call.inputs.get("dptrs")
    if isinstance(given, bytes):
        words = [int.from_bytes(given[at : at + 8], "little") for at in range(0, len(given) // 8 * 8, 8)]
    else:
        parameters = by_symbol()[call.function].parameters
        words = [w for p, w in zip(parameters, call.arguments, strict=True) if p.role == Role.ADDRESS][:1]
    return bool(words) and all(map(addresses.is_managed, words))


def live_location(location: CUmemLocation, device: Callable[[int], int]) -> CUmemLocation:
    """A captured location with the live device of the captured one."""
    on_device = location.type == LocationType.DEVICE
    return CUmemLocation(type=location.type, id=device(location.id) if on_device else location.id)


def _ordinal(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """The processor is a device, too, in the first version of these functions."""
    for parameter, word in zip(function.parameters, prepared.call.arguments, strict=True):
        if parameter.c_type == "CUdevice":
            ordinal = word & 0xFFFFFFFF
            on_host = ordinal == 0xFFFFFFFF
            return {parameter.name: _DEVICE_CPU if on_host else builder.translation.devices.device(ordinal)}
    return {}


def _location(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    for parameter, word in zip(function.parameters, prepared.call.arguments, strict=True):
        if parameter.c_type == "CUmemLocation":
            captured = CUmemLocation.from_buffer_copy((word & (2**64 - 1)).to_bytes(8, "little"))
            live = live_location(captured, builder.translation.devices.device)
            return {parameter.name: argument_value(parameter, int.from_bytes(bytes(live), "little"))}
    return {}


def _locations(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """Of a batch: an array of them."""
    data = builder.optional(prepared, "prefetchLocs")
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
        array[index] = live_location(array[index], builder.translation.devices.device)
    return {"prefetchLocs": builder.buffer(prepared, bytes(array))}


def give_hint(
    driver: Driver, hint: MemoryHint, live: int, device: Callable[[int], int], note: Callable[[str], None]
) -> None:
    """Tell the driver what the application had told it before the window."""
    try:
        if hint.advice == ATTACH:
            driver.cuStreamAttachMemAsync(0, live, hint.size_bytes, hint.location_type)
            return
        ordinal = device(hint.location_id) if hint.location_type == LocationType.DEVICE else _DEVICE_CPU
        if hint.advice == PREFETCH:
            driver.cuMemPrefetchAsync(live, hint.size_bytes, ordinal, 0)
        else:
            driver.cuMemAdvise(live, hint.size_bytes, hint.advice, ordinal)
    except DriverFailure as failure:
        note(f"{failure.function} of the setup returned {failure.name}")


BUILDERS: dict[str, Rebuild] = {
    "hint_by_ordinal": _ordinal,
    "hint_by_location": _location,
    "hint_batch": _locations,
}
