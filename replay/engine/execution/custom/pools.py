"""Memory pools, with the properties, attributes and access that the application gave them.

Memory that the application got from a pool is placed beforehand, at its captured address. So a pool of the replay is
empty, and one that this driver or device does not take is left out with a note.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from replay.api.structs import CUmemLocation
from replay.api.vocabulary import Function
from replay.engine.execution.custom.common import Arguments, Rebuild
from replay.engine.execution.custom.memory import live_location
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

# CUmemPoolProps: allocType, handleTypes, location {type, id}, win32SecurityAttributes, maxSize, usage, reserved
_PROPERTIES_BYTES, _PROPERTIES_LOCATION, _PROPERTIES_SECURITY, _PROPERTIES_RESERVED = 88, 8, 16, 34
_ACCESS_BYTES = 12  # CUmemAccessDesc: location {type, id}, flags
_LOCATION_BYTES = 8


def _put_location(executor: Executor, data: bytearray, at: int) -> None:
    captured = CUmemLocation.from_buffer_copy(bytes(data[at : at + _LOCATION_BYTES]))
    data[at : at + _LOCATION_BYTES] = bytes(live_location(captured, executor.live_device))


def _create(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    data = bytearray(executor.required(prepared, "poolProps"))
    if len(data) != _PROPERTIES_BYTES:
        raise EngineError("the properties of a memory pool have a broken length", where=prepared.where)
    _put_location(executor, data, _PROPERTIES_LOCATION)
    struct.pack_into("<Q", data, _PROPERTIES_SECURITY, 0)  # memory of the application
    data[_PROPERTIES_RESERVED:] = bytes(_PROPERTIES_BYTES - _PROPERTIES_RESERVED)
    return {"poolProps": executor.buffer(prepared, bytes(data))}


def _set_access(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    count = prepared.call.arguments[2]
    data = bytearray(executor.optional(prepared, "map") or b"")
    if len(data) != count * _ACCESS_BYTES:
        raise EngineError("the access to a memory pool was not captured", where=prepared.where)
    for at in range(0, len(data), _ACCESS_BYTES):
        _put_location(executor, data, at)
    return {"map": executor.buffer(prepared, bytes(data))}


def _at_location(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    data = bytearray(executor.required(prepared, "location"))
    if len(data) != _LOCATION_BYTES:
        raise EngineError("the location of a memory pool has a broken length", where=prepared.where)
    _put_location(executor, data, 0)
    return {"location": executor.buffer(prepared, bytes(data))}


EXCEPTIONS: dict[str, Rebuild] = {
    "cuMemPoolCreate": _create,
    "cuMemPoolSetAccess": _set_access,
    **dict.fromkeys(("cuMemGetMemPool", "cuMemGetDefaultMemPool", "cuMemSetMemPool"), _at_location),
}
# Functions that CUDA 12 lacks among them.
MAY_BE_MISSING = frozenset(("cuMemGetMemPool", "cuMemGetDefaultMemPool", "cuMemSetMemPool"))

# All that concern pools and allocate nothing. A replay without them gives the same outputs.
FUNCTIONS = (
    "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cuDeviceSetMemPool", "cuMemPoolCreate", "cuMemPoolDestroy",
    "cuMemPoolTrimTo", "cuMemPoolSetAttribute", "cuMemPoolSetAccess", "cuMemGetMemPool", "cuMemGetDefaultMemPool",
    "cuMemSetMemPool",
)  # fmt: skip
