"""CUDA arrays and the texture and surface objects over them."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

from replay.api import structs
from replay.api.extents import CHANNEL_BYTES, Extent, box
from replay.api.functions import destroyer
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared
from replay.engine.translation.handles import captured_handles
from replay.engine.translation.translation import Late
from replay.errors import EngineError

# Objects made only to get a handle of the captured value. Drivers number such objects, so few are needed when the
# application had destroyed some before.
MAXIMUM_FILLERS = 256

_PLACE_TYPES = {
    structs.ResourceType.ARRAY: "CUarray", structs.ResourceType.MIPMAPPED_ARRAY: "CUmipmappedArray",
    structs.ResourceType.LINEAR: "CUdeviceptr", structs.ResourceType.PITCH2D: "CUdeviceptr",
}  # fmt: skip


def _create_array(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """From now on the array has its contents."""
    c_type = function.parameters[0].element
    for handle in captured_handles(prepared.call, function.parameters[0].name):
        prepared.then.append(partial(builder.appearing.array, c_type, handle, prepared.call))
    return {}


def _create_object(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """The resource with the live array or address; the other descriptions are as they were."""
    data = builder.required(prepared, "pResDesc")
    if len(data) != ctypes.sizeof(structs.CUDA_RESOURCE_DESC):
        raise EngineError("the description of the resource has a broken length", where=prepared.where)
    buffer = builder.buffer(prepared, data)
    described = structs.read_struct(structs.CUDA_RESOURCE_DESC, data)
    if described.resType not in list(structs.ResourceType):
        raise EngineError(f"a resource of the unknown type {described.resType}", where=prepared.where)
    if captured := described.res.linear.devPtr:  # or a handle, with which the other members begin
        c_type = _PLACE_TYPES[structs.ResourceType(described.resType)]
        extent = _extent_of(described, prepared.where) if c_type == "CUdeviceptr" else Extent(0, 0)
        place = ctypes.addressof(buffer) + structs.CUDA_RESOURCE_DESC.res.offset
        prepared.late_word(place, c_type, captured, extent, "pResDesc")
    if prepared.call.section == "setup":
        _agree(builder, prepared)
    return {"pResDesc": buffer}


def _extent_of(described: structs.CUDA_RESOURCE_DESC, where: object) -> Extent:
    """Of linear or pitched memory."""
    if described.resType == structs.ResourceType.LINEAR:
        return Extent(0, described.res.linear.sizeInBytes)
    rows = described.res.pitch2D
    return _texels(rows.format, rows.numChannels, rows.width, rows.height, rows.pitchInBytes, where)


def _texels(format: int, channels: int, width: int, height: int, pitch: int, where: object) -> Extent:
    if format not in CHANNEL_BYTES:
        raise EngineError(f"memory is read as texels of the format {format:#x}", where=where)
    return box(width * channels * CHANNEL_BYTES[format], height, pitch=pitch)


def _reference_to_pitched(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """cuTexRefSetAddress2D: the descriptor says what is read there."""
    description, (captured, pitch) = builder.required(prepared, "desc"), prepared.call.arguments[2:4]
    if len(description) < ctypes.sizeof(structs.CUDA_ARRAY_DESCRIPTOR):
        raise EngineError("the description of the array has a broken length", where=prepared.where)
    texels = structs.read_struct(structs.CUDA_ARRAY_DESCRIPTOR, description)
    height = max(texels.Height, 1)
    extent = _texels(texels.Format, texels.NumChannels, texels.Width, height, pitch, prepared.where)
    prepared.late_arguments.append(Late(2, "CUdeviceptr", captured, extent, "dptr"))
    return {"dptr": 0}


def _agree(builder: Builder, prepared: Prepared) -> None:
    """Handles of objects are in memory, where a small number cannot be told from one: try to get the captured value.

    Of objects made until it comes, this one stays and the others are destroyed.
    """
    create = prepared.function

    def run(*arguments: Any) -> int:
        code = create(*arguments)
        buffer, c_type, captured = prepared.outputs[0]
        if code or len(captured) != 1:
            return code
        made, wanted = [buffer[0]], captured[0]
        # A driver whose handles are addresses never comes to the captured one by counting.
        fillers = MAXIMUM_FILLERS if 0 < wanted - made[0] <= MAXIMUM_FILLERS else 0
        while made[-1] != wanted and len(made) <= fillers and create(*arguments) == 0:
            made.append(buffer[0])
        buffer[0] = keep = wanted if made[-1] == wanted else made[0]
        destroy = builder.driver.function(destroyer(c_type))
        for handle in made:
            if handle != keep:
                destroy(handle)
        return 0

    prepared.function = run


BUILDERS: dict[str, Rebuild] = {
    "array": _create_array,
    "object": _create_object,
    "texture_reference": _reference_to_pitched,
}
