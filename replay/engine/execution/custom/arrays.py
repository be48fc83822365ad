"""CUDA arrays and the texture and surface objects over them."""

from __future__ import annotations

import ctypes
import struct
from functools import partial
from typing import TYPE_CHECKING

from replay.api import structs
from replay.api.extents import CHANNEL_BYTES, Extent, box
from replay.api.vocabulary import Function, Role
from replay.engine.execution.custom.common import Arguments, Rebuild
from replay.engine.execution.handles import captured_handles
from replay.engine.execution.inputs import Late
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

# Objects made only to get a handle of the captured value. Drivers number such objects, so few are needed when the
# application had destroyed some before.
MAXIMUM_FILLERS = 256

MAXIMUM_RANK = 5  # of cuTensorMapEncode*

_ARRAY_DESCRIPTION = struct.Struct("<QQII")  # CUDA_ARRAY_DESCRIPTOR: width, height, format, channels

_PLACE = structs.CUDA_RESOURCE_DESC.place.offset
_PLACE_TYPES = {
    structs.ResourceType.ARRAY: "CUarray", structs.ResourceType.MIPMAPPED_ARRAY: "CUmipmappedArray",
    structs.ResourceType.LINEAR: "CUdeviceptr", structs.ResourceType.PITCH2D: "CUdeviceptr",
}  # fmt: skip


def _create_array(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """From now on the array has its contents (session.py)."""
    c_type = function.parameters[0].element
    for handle in captured_handles(prepared.call, function.parameters[0].name):
        prepared.then.append(partial(executor.on_array, c_type, handle, prepared.call))
    return {}


def _create_object(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The resource with the live array or address; the other descriptions are as they were."""
    data = executor.required(prepared, "pResDesc")
    if len(data) != structs.STRUCT_BYTES[structs.CUDA_RESOURCE_DESC]:
        raise EngineError("the description of the resource has a broken length", where=prepared.where)
    buffer = executor.buffer(prepared, data)
    described = structs.read_struct(structs.CUDA_RESOURCE_DESC, data)
    if described.resType not in list(structs.ResourceType):
        raise EngineError(f"a resource of the unknown type {described.resType}", where=prepared.where)
    if described.place:
        c_type = _PLACE_TYPES[structs.ResourceType(described.resType)]
        extent = _extent_of(described, prepared.where) if c_type == "CUdeviceptr" else Extent(0, 0)
        place = ctypes.addressof(buffer) + _PLACE
        executor.late_word(prepared, place, c_type, described.place, extent, "pResDesc")
    if prepared.call.section == "setup":
        prepared.then.append(lambda: _agree(executor, prepared, function))
    return {"pResDesc": buffer}


def _extent_of(described: structs.CUDA_RESOURCE_DESC, where: object) -> Extent:
    """Of linear or pitched memory."""
    if described.resType == structs.ResourceType.LINEAR:
        return Extent(0, described.extent[0])
    width, height, pitch = described.extent
    return _texels(described.format, described.numChannels, width, height, pitch, where)


def _texels(format: int, channels: int, width: int, height: int, pitch: int, where: object) -> Extent:
    if format not in CHANNEL_BYTES:
        raise EngineError(f"memory is read as texels of the format {format:#x}", where=where)
    return box(width * channels * CHANNEL_BYTES[format], height, pitch=pitch)


def _reference_to_pitched(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuTexRefSetAddress2D: the descriptor says what is read there."""
    description, (captured, pitch) = executor.required(prepared, "desc"), prepared.call.arguments[2:4]
    if len(description) < _ARRAY_DESCRIPTION.size:
        raise EngineError("the description of the array has a broken length", where=prepared.where)
    width, height, format, channels = _ARRAY_DESCRIPTION.unpack_from(description)
    extent = _texels(format, channels, width, max(height, 1), pitch, prepared.where)
    prepared.late_arguments.append(Late(2, "CUdeviceptr", captured, extent, "dptr"))
    return {"dptr": 0}


def _agree(executor: Executor, prepared: Prepared, function: Function) -> None:
    """Handles of objects stand in memory, where a small number cannot be told from one: try to get the captured value.

    Of objects made until it comes, this one stays and the others are destroyed.
    """
    c_type, name = function.parameters[0].element, function.parameters[0].name
    wanted = captured_handles(prepared.call, name)
    live = executor.handles.find(c_type, wanted[0]) if len(wanted) == 1 else None
    if live is None or live == wanted[0]:
        return
    destroy = executor.driver.function(
        "cuTexObjectDestroy" if c_type == "CUtexObject" else "cuSurfObjectDestroy"
    )
    made = [live]
    result = ctypes.c_uint64(0)
    # A driver whose handles are addresses never comes to the captured one by counting.
    fillers = MAXIMUM_FILLERS if wanted[0] > live and wanted[0] - live <= MAXIMUM_FILLERS else 0
    while made[-1] != wanted[0] and len(made) <= fillers:
        if prepared.function(ctypes.addressof(result), *prepared.arguments[1:]):
            break
        made.append(result.value)
    keep = made[-1] if made[-1] == wanted[0] else made[0]
    for handle in made:
        if handle != keep:
            destroy(handle)
    executor.handles.bind(c_type, wanted[0], keep)
    executor.handles_here.setdefault(wanted[0], set()).add(keep)
    executor.made[c_type, wanted[0]] = keep


def _encode_map(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The arrays of an encoder, and room for a map where cuda.h asks for it: at a multiple of 64."""
    rank = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))[
        "tensorRank"
    ]
    if not 1 <= rank <= MAXIMUM_RANK:
        raise EngineError(f"a tensor of {rank} dimensions", where=prepared.where)
    for parameter in function.parameters:
        if parameter.role in (Role.IN, Role.CUSTOM):
            fewer = {"globalStrides": 1, "pixelBoxLowerCorner": 2, "pixelBoxUpperCorner": 2}.get(
                parameter.name, 0
            )
            given = executor.optional(prepared, parameter.name) or b""
            if len(given) < max(rank - fewer, 0) * parameter.element_bytes:
                raise EngineError(f"{parameter.name} has {len(given)} bytes", where=prepared.where)
    room = executor.buffer(prepared, bytes(structs.TENSOR_MAP_BYTES + structs.TENSOR_MAP_ALIGNMENT))
    arguments: Arguments = {
        parameter.name: None if data is None else executor.buffer(prepared, data)
        for parameter in function.parameters
        if parameter.role == Role.CUSTOM
        for data in (executor.optional(prepared, parameter.name),)
    }
    place = -(-ctypes.addressof(room) // structs.TENSOR_MAP_ALIGNMENT) * structs.TENSOR_MAP_ALIGNMENT
    return arguments | {"tensorMap": place}


EXCEPTIONS: dict[str, Rebuild] = {
    **dict.fromkeys(
        ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide"), _encode_map
    ),
    **dict.fromkeys(("cuArrayCreate_v2", "cuArray3DCreate_v2", "cuMipmappedArrayCreate"), _create_array),
    **dict.fromkeys(("cuTexRefSetAddress2D_v2", "cuTexRefSetAddress2D_v3"), _reference_to_pitched),
    **dict.fromkeys(("cuTexObjectCreate", "cuSurfObjectCreate"), _create_object),
}
