"""Which handles of objects a recorded call gave out, and which it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from replay.api import structs
from replay.api.parts import CONFIG_ATTRIBUTES, find_bytes, find_struct
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.raw.events import RawCall

Key = tuple[str, int]  # C type of the handle, its value

_VALUE = "CUdevResource"  # no handle: a value that one call gives and another takes
_OBJECTS = HANDLE_TYPES | {_VALUE}
_ATTRIBUTES_WITH_EVENT = (
    structs.LaunchAttributeId.PROGRAMMATIC_EVENT,
    structs.LaunchAttributeId.LAUNCH_COMPLETION_EVENT,
)


def _words(array: bytes | None, bytes_each: int = 8) -> Iterator[int]:
    """The handles of an array. What has no handle and is passed on as it is, is its own bytes as a number."""
    data = array or b""
    for at in range(0, len(data) - bytes_each + 1, bytes_each):
        yield int.from_bytes(data[at : at + bytes_each], "little")


def handles_out(call: RawCall) -> Iterator[Key]:
    """The handles that a call gave out."""
    for parameter in call.function.parameters:
        if parameter.role in (Role.OUT, Role.INOUT) and parameter.element in _OBJECTS:
            for word in _words(find_bytes(call.outputs, parameter.name), parameter.element_bytes):
                if word:
                    yield parameter.element, word


def handles_in(call: RawCall) -> Iterator[Key]:
    """The handles that a call was given: by value, in arrays, and inside the structs that hold some."""
    for parameter, word in zip(call.function.parameters, call.arguments, strict=True):
        if parameter.role == Role.HANDLE:
            yield parameter.c_type, word
        elif parameter.role in (Role.IN, Role.INOUT) and parameter.element in _OBJECTS:
            for handle in _words(find_bytes(call.inputs, parameter.name), parameter.element_bytes):
                yield parameter.element, handle
    yield from _of_arrays(call)
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    if config is None:
        return
    yield "CUstream", config.hStream
    attributes = find_bytes(call.inputs, CONFIG_ATTRIBUTES) or b""
    with suppress(ValueError):
        for attribute in structs.read_launch_attributes(attributes):
            if attribute.id in _ATTRIBUTES_WITH_EVENT:
                yield "CUevent", attribute.value.programmaticEvent.event


def _of_arrays(call: RawCall) -> Iterator[Key]:
    """The arrays that the description of a copy or of a resource names."""
    resource = find_struct(call.inputs, "pResDesc", structs.CUDA_RESOURCE_DESC)
    copy = find_bytes(call.inputs, "pCopy")
    if resource is not None and resource.resType == structs.ResourceType.ARRAY:
        yield "CUarray", resource.res.array.hArray
    elif resource is not None and resource.resType == structs.ResourceType.MIPMAPPED_ARRAY:
        yield "CUmipmappedArray", resource.res.mipmap.hMipmappedArray
    if copy is not None:
        yield from (("CUarray", handle) for handle in structs.copied_arrays(copy))
