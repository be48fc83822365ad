"""Launches: the parameter buffer, and the configuration with its attributes."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

from replay.api.graphs import ATTRIBUTE_BYTES
from replay.api.structs import LaunchAttributeId
from replay.api.vocabulary import Function
from replay.engine.contents.words import HandleWord, patch
from replay.engine.execution.custom.common import ATTRIBUTE_VALUE, Arguments, Rebuild, live_attribute
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_LAUNCH_PARAM_BUFFER_POINTER, _LAUNCH_PARAM_BUFFER_SIZE, _LAUNCH_PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*
# What the shim says of a launch by the protocol of CUDA 2 and 3, by the parameters of cuLaunchKernel
_SHAPE = struct.Struct("<7I")
_SHAPE_NAMES = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
_KERNEL_FUNCTION, _KERNEL_STREAM = 0, 8  # positions
# CUlaunchConfig and CUlaunchAttribute, as cuda.h lays them out
_CONFIG_BYTES, _CONFIG_STREAM, _CONFIG_ATTRIBUTES, _CONFIG_COUNT = 56, 32, 40, 48


def _launch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The parameter buffer as an array of pointers where the layout is known, else through `extra`."""
    layout = executor.optional(prepared, "kernelParams", 1)
    data = executor.optional(prepared, "kernelParams")
    if data is None:
        data = executor.optional(prepared, "extra")
    return _with_buffer(
        executor, prepared, {parameter.name for parameter in function.parameters}, data, layout
    )


def _with_buffer(
    executor: Executor, prepared: Prepared, names: set[str], data: bytes | None, layout: bytes | None
) -> Arguments:
    arguments: Arguments = {"kernelParams": None} | ({"extra": None} if "extra" in names else {})
    if not data:
        return arguments
    buffer = executor.buffer(prepared, data)
    address = ctypes.addressof(buffer)
    words = executor.words.get(prepared.call.number, [])
    content = bytearray(data)
    if executor.maps is not None:  # before the addresses, of which some stand in a map
        executor.maps.patch(content, 0, executor.map_places.get(prepared.call.number, ()))
    patch(content, 0, words, executor.addresses)
    ctypes.memmove(buffer, bytes(content), len(content))
    slots = list(struct.iter_unpack("<II", layout[: len(layout) // 8 * 8])) if layout is not None else []
    for place, candidates in _handles_by_place(executor, prepared, len(data)).items():
        executor.object_word(prepared, address + place, place, candidates, (place, 8) in slots)
    for word in words:
        # A variable of a module that the window itself loads has no address yet, or other memory's.
        unsettled = executor.addresses.find(word.target) is None or executor.addresses.may_change(word.target)
        if unsettled and word.offset + 8 <= len(data):
            executor.late_word(prepared, address + word.offset, "CUdeviceptr", word.target)
    if layout is not None:
        if any(offset + size > len(data) for offset, size in slots):
            raise EngineError("the layout of the parameters exceeds their buffer", where=prepared.where)
        pointers = (ctypes.c_void_p * max(len(slots), 1))(*(address + offset for offset, _ in slots))
        prepared.keep.append(pointers)
        return arguments | {"kernelParams": pointers}
    if "extra" not in names:
        raise EngineError("the layout of the parameters was not captured", where=prepared.where)
    size = ctypes.c_size_t(len(data))
    extra = (ctypes.c_void_p * 5)(
        _LAUNCH_PARAM_BUFFER_POINTER,
        address,
        _LAUNCH_PARAM_BUFFER_SIZE,
        ctypes.addressof(size),
        _LAUNCH_PARAM_END,
    )
    prepared.keep += [size, extra]
    return arguments | {"extra": extra}


def _handles_by_place(executor: Executor, prepared: Prepared, size_bytes: int) -> dict[int, list[HandleWord]]:
    """The words of a parameter buffer that hold handles of objects: a texture and a surface may have the same."""
    places: dict[int, list[HandleWord]] = {}
    for word in executor.handle_words.get(prepared.call.number, ()):
        if word.offset + 8 <= size_bytes:
            places.setdefault(word.offset, []).append(word)
    return places


def _launch_ex(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The launch configuration, with live handles and addresses in its attributes."""
    config = executor.required(prepared, "config")
    attributes = executor.optional(prepared, "config", 1) or b""
    if len(config) != _CONFIG_BYTES or len(attributes) % ATTRIBUTE_BYTES:
        raise EngineError("the launch configuration has a broken length", where=prepared.where)
    live = []
    for at in range(0, len(attributes), ATTRIBUTE_BYTES):
        attribute = attributes[at : at + ATTRIBUTE_BYTES]
        if int.from_bytes(attribute[:4], "little") == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:
            executor.note(
                "a launch attribute was left out: a device-updatable graph node exists only in a graph"
            )
        elif (one := live_attribute(executor, attribute)) is not None:
            live.append(one)
    kept = b"".join(one.data for one in live)
    attribute_buffer = executor.buffer(prepared, kept)
    for number, one in enumerate(live):
        if one.late is not None:
            place = ctypes.addressof(attribute_buffer) + number * ATTRIBUTE_BYTES + ATTRIBUTE_VALUE
            executor.late_word(prepared, place, *one.late)
    rebuilt = bytearray(config)
    pointer = ctypes.addressof(attribute_buffer) if kept else 0
    rebuilt[_CONFIG_ATTRIBUTES : _CONFIG_ATTRIBUTES + 8] = pointer.to_bytes(8, "little")
    rebuilt[_CONFIG_COUNT : _CONFIG_COUNT + 4] = (len(kept) // ATTRIBUTE_BYTES).to_bytes(4, "little")
    config_buffer = executor.buffer(prepared, bytes(rebuilt))
    stream = int.from_bytes(config[_CONFIG_STREAM : _CONFIG_STREAM + 8], "little")
    executor.late_word(prepared, ctypes.addressof(config_buffer) + _CONFIG_STREAM, "CUstream", stream)
    return _launch(executor, prepared, function) | {"config": config_buffer}


def _old_launch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuLaunch and its like become a cuLaunchKernel with everything that the function was told before."""
    shape = executor.required(prepared, "f", 3)
    if len(shape) != _SHAPE.size:
        raise EngineError("the shape of the launch has a broken length", where=prepared.where)
    words = dict(zip((p.name for p in function.parameters), prepared.call.arguments, strict=True))
    arguments: Arguments = dict(zip(_SHAPE_NAMES, _SHAPE.unpack(shape), strict=True))
    arguments["f"] = executor.late(prepared, _KERNEL_FUNCTION, "CUfunction", words["f"])
    arguments["hStream"] = executor.late(prepared, _KERNEL_STREAM, "CUstream", words.get("hStream", 0))
    data = executor.optional(prepared, "f", 2)
    return arguments | _with_buffer(executor, prepared, {"kernelParams", "extra"}, data, None)


def _stream_attribute(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """One attribute of a stream: its number is an argument, its value in memory."""
    kind, value = prepared.call.arguments[1] & 0xFFFFFFFF, executor.required(prepared, "param")
    if len(value) != ATTRIBUTE_BYTES - ATTRIBUTE_VALUE:
        raise EngineError("the value of an attribute has a broken length", where=prepared.where)
    live = live_attribute(executor, struct.pack("<I4x", kind) + value)
    if live is None:
        prepared.function = lambda *_: 0
    data = bytes(len(value)) if live is None else live.data[ATTRIBUTE_VALUE:]
    buffer = executor.buffer(prepared, data)
    if live is not None and live.late is not None:
        executor.late_word(prepared, ctypes.addressof(buffer), *live.late)
    return {"param": buffer}


EXCEPTIONS: dict[str, Rebuild] = {
    **dict.fromkeys(("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"), _old_launch),
    "cuStreamSetAttribute": _stream_attribute,
    "cuLaunchKernel": _launch,
    "cuLaunchCooperativeKernel": _launch,
    "cuLaunchKernelEx": _launch_ex,
}
