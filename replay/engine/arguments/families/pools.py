"""Memory pools, with the properties, attributes and access that the application gave them.

Memory that the application got from a pool is placed beforehand, at its captured address. So a pool of the replay is
empty, and one that this driver or device does not take is left out with a note.
"""

from __future__ import annotations

import ctypes

from replay.api.structs import CUmemAccessDesc, CUmemLocation, CUmemPoolProps
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.families.managed import live_location
from replay.engine.arguments.prepared import Prepared
from replay.errors import EngineError


def _create(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    what = "the properties of a memory pool have"
    (given,) = builder.structs(prepared, "poolProps", CUmemPoolProps, 1, what)
    properties = CUmemPoolProps(  # without win32SecurityAttributes, which is memory of the application
        allocType=given.allocType, handleTypes=given.handleTypes, maxSize=given.maxSize, usage=given.usage,
        location=live_location(given.location, builder.translation.devices.device),
    )  # fmt: skip
    return {"poolProps": builder.buffer(prepared, bytes(properties))}


def _set_access(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    count, data = prepared.call.arguments[2], builder.optional(prepared, "map") or b""
    if len(data) != count * ctypes.sizeof(CUmemAccessDesc):
        raise EngineError("the access to a memory pool was not captured", where=prepared.where)
    access = (CUmemAccessDesc * count).from_buffer_copy(data)
    for item in access:
        item.location = live_location(item.location, builder.translation.devices.device)
    return {"map": builder.buffer(prepared, bytes(access))}


def _at_location(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    (given,) = builder.structs(prepared, "location", CUmemLocation, 1, "the location of a memory pool has")
    live = live_location(given, builder.translation.devices.device)
    return {"location": builder.buffer(prepared, bytes(live))}


BUILDERS: dict[str, Rebuild] = {
    "pool": _create,
    "pool_access": _set_access,
    "pool_location": _at_location,
}
