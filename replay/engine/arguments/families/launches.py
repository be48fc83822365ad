"""Launches: the parameter buffer, and the configuration with its attributes."""

from __future__ import annotations

import ctypes
import struct

from replay.api.structs import (
    CUlaunchAttribute,
    CUlaunchAttributeValue,
    CUlaunchConfig,
    LaunchAttributeId,
    read_launch_attributes,
)
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared
from replay.engine.census import NOTHING
from replay.engine.translation.structures import live_attribute, word_in
from replay.errors import EngineError

_LAUNCH_PARAM_BUFFER_POINTER, _LAUNCH_PARAM_BUFFER_SIZE, _LAUNCH_PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*


def _launch(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """The parameter buffer as an array of pointers where the layout is known, else through `extra`; and the
    configuration, where that is one argument."""
    names = {parameter.name for parameter in function.parameters}
    config = _configuration(builder, prepared) if "config" in names else {}
    layout = builder.optional(prepared, "kernelParams", 1)
    data = builder.optional(prepared, "kernelParams")
    if data is None:
        data = builder.optional(prepared, "extra")
    return config | _with_buffer(builder, prepared, names, data, layout)


def _with_buffer(
    builder: Builder, prepared: Prepared, names: set[str], data: bytes | None, layout: bytes | None
) -> Arguments:
    arguments: Arguments = {"kernelParams": None} | ({"extra": None} if "extra" in names else {})
    if not data:
        return arguments
    buffer = builder.buffer(prepared, data)
    address, translation = ctypes.addressof(buffer), builder.translation
    site = translation.census.calls.get(prepared.call.number, NOTHING)
    slots = list(struct.iter_unpack("<II", layout[: len(layout) // 8 * 8])) if layout is not None else []

    def patch() -> None:
        content, whole = bytearray(data), {offset for offset, size in slots if size == 8}
        translation.patch(content, site, whole=whole, where=prepared.where)
        ctypes.memmove(buffer, bytes(content), len(content))

    if translation.window_makes(site.handles):
        prepared.first.append(patch)
    else:
        patch()
    for word in site.words:
        # A variable of a module that the window itself loads has no address yet, or other memory's.
        unsettled = builder.addresses.find(word.target) is None or builder.addresses.may_change(word.target)
        if unsettled and word.offset + 8 <= len(data):
            prepared.late_word(address + word.offset, "CUdeviceptr", word.target)
    if layout is not None:
        if any(offset + size > len(data) for offset, size in slots):
            raise EngineError("the layout of the parameters exceeds their buffer", where=prepared.where)
        pointers = (ctypes.c_void_p * max(len(slots), 1))(*(address + offset for offset, _ in slots))
        prepared.keep.append(pointers)
        return arguments | {"kernelParams": pointers}
    if "extra" not in names:
        raise EngineError("the layout of the parameters was not captured", where=prepared.where)
    size = ctypes.c_size_t(len(data))
    given = (_LAUNCH_PARAM_BUFFER_POINTER, address, _LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(size))
    extra = (ctypes.c_void_p * 5)(*given, _LAUNCH_PARAM_END)
    prepared.keep += [size, extra]
    return arguments | {"extra": extra}


def _configuration(builder: Builder, prepared: Prepared) -> Arguments:
    """The launch configuration, with live handles and addresses in its attributes."""
    data = builder.required(prepared, "config")
    given = builder.optional(prepared, "config", 1) or b""
    if len(data) != ctypes.sizeof(CUlaunchConfig) or len(given) % ctypes.sizeof(CUlaunchAttribute):
        raise EngineError("the launch configuration has a broken length", where=prepared.where)
    live = []
    for attribute in read_launch_attributes(given):
        if attribute.id == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:
            builder.note(
                "a launch attribute was left out: a device-updatable graph node exists only in a graph"
            )
        elif (one := live_attribute(builder.addresses, attribute, builder.note)) is not None:
            live.append(one)
    attribute_buffer = builder.buffer(prepared, b"".join(bytes(one.data) for one in live))
    attributes = (CUlaunchAttribute * len(live)).from_buffer(attribute_buffer)
    for attribute, one in zip(attributes, live, strict=True):
        if one.late is not None:
            prepared.late_word(ctypes.addressof(attribute.value), *one.late)
    config_buffer = builder.buffer(prepared, data)
    config = CUlaunchConfig.from_buffer(config_buffer)
    config.attrs, config.numAttrs = ctypes.addressof(attribute_buffer) if live else 0, len(live)
    prepared.late_word(word_in(config, "hStream"), "CUstream", config.hStream)
    return {"config": config_buffer}


def _stream_attribute(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """One attribute of a stream: its number is an argument, its value in memory."""
    kind, what = prepared.call.arguments[1] & 0xFFFFFFFF, "the value of an attribute has"
    (value,) = builder.structs(prepared, "param", CUlaunchAttributeValue, 1, what)
    captured = CUlaunchAttribute(id=kind, value=value)
    live = live_attribute(builder.addresses, captured, builder.note)
    if live is None:
        prepared.function = lambda *_: 0
    data = bytes(ctypes.sizeof(value)) if live is None else bytes(live.data.value)
    buffer = builder.buffer(prepared, data)
    if live is not None and live.late is not None:
        prepared.late_word(ctypes.addressof(buffer), *live.late)
    return {"param": buffer}


BUILDERS: dict[str, Rebuild] = {
    "launch": _launch,
    "stream_attribute": _stream_attribute,
}
