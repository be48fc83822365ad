"""Green contexts, the device resources that they are made from, and events of other processes.

A CUdevResource is a value: its captured bytes are known by the live bytes that this driver gave in the same place.
Where the driver or the device cannot divide its resources like that, a plain context stands for a green one, which
changes times and no results. Not yet seen on a GPU (GT-GREEN-CONTEXTS).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from replay.api.structs import facts
from replay.api.vocabulary import Function, Role
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import Driver, Operation
from replay.engine.translation.handles import captured_handles
from replay.errors import EngineError

_RESOURCE = "CUdevResource"
_RESOURCE_BYTES = facts()["types"]["CUdevResource *"][2]  # of what it points to
_MAXIMUM_RESOURCES = 4096
_EVENT_DISABLE_TIMING = 2
# CUDA_ERROR_NOT_FOUND, NOT_SUPPORTED, INVALID_RESOURCE_TYPE, INVALID_RESOURCE_CONFIGURATION
_CANNOT = frozenset((500, 801, 914, 915))
_NOTE = (
    "green contexts were replayed as a plain context, since this device or driver cannot divide its resources as in "
    "the application: times are those of the whole device"
)


def unavailable(*arguments: Any) -> int:
    """Stands for a function that the driver lacks."""
    return 801


def _numbers(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[at : at + _RESOURCE_BYTES], "little")
        for at in range(0, len(data) - _RESOURCE_BYTES + 1, _RESOURCE_BYTES)
    ]


def _else(builder: Builder, prepared: Prepared, substitute: Callable[[], int]) -> None:
    real = prepared.function

    def run(*arguments: Any) -> int:
        code = real(*arguments)
        if code not in _CANNOT or prepared.call.result != 0:
            return code
        builder.note(_NOTE)
        return substitute()

    prepared.function = run


def _resources_in(builder: Builder, prepared: Prepared, name: str, count: int = 1) -> Any:
    """The live bytes of `count` captured resources, put there when the call runs."""
    captured = _numbers(builder.required(prepared, name))
    if len(captured) < count:
        raise EngineError(
            f"{name} has {len(captured)} resources, of which the call reads {count}", where=prepared.where
        )
    buffer = builder.buffer(prepared, bytes(_RESOURCE_BYTES * max(len(captured), 1)))

    def fill() -> None:
        for place, number in enumerate(captured):
            live = builder.handles.live(_RESOURCE, number, prepared.where)
            data = live.to_bytes(_RESOURCE_BYTES, "little")
            ctypes.memmove(ctypes.addressof(buffer) + place * _RESOURCE_BYTES, data, _RESOURCE_BYTES)

    prepared.first.append(fill)
    return buffer


def _resources_out(builder: Builder, prepared: Prepared, name: str, count: int) -> Any:
    """Room for `count` resources, each of which is known by its captured bytes afterwards."""
    if not 0 <= count <= _MAXIMUM_RESOURCES:
        raise EngineError(f"asks for {count} resources", where=prepared.where)
    data = prepared.call.outputs.get(name)
    captured = _numbers(data if isinstance(data, bytes) else b"")
    buffer = builder.buffer(prepared, bytes(_RESOURCE_BYTES * max(count, len(captured), 1)))

    def bind() -> None:
        live = _numbers(bytes(buffer))
        for number, found in zip(captured, live, strict=False):
            builder.handles.bind(_RESOURCE, number, found)

    prepared.then.append(bind)
    return buffer


def _resources(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """Every parameter that is a resource, of the functions that give or divide them."""
    _else(builder, prepared, lambda: 0)
    words = prepared.call.arguments
    arguments: Arguments = {}
    for position, parameter in enumerate(function.parameters):
        if parameter.element != _RESOURCE or words[position] == 0:
            continue
        if parameter.role == Role.IN:
            arguments[parameter.name] = _resources_in(builder, prepared, parameter.name)
            continue
        count = 1
        for term in parameter.count.parameters:
            counter = function.parameters[term]
            # Where the number is both asked and answered, the room is what was asked for.
            asked = builder.required(prepared, counter.name) if counter.role == Role.INOUT else b""
            count = int.from_bytes(asked[: counter.element_bytes], "little") if asked else words[term]
        arguments[parameter.name] = _resources_out(builder, prepared, parameter.name, count)
    return arguments


def _handle_out(builder: Builder, prepared: Prepared, name: str, c_type: str) -> Any:
    buffer = (ctypes.c_uint64 * 1)()
    prepared.keep.append(buffer)
    prepared.outputs.append((buffer, c_type, captured_handles(prepared.call, name)))
    return buffer


def _making(name: str, c_type: str, stand_in: Callable[[Builder, Prepared, Any], int]) -> Rebuild:
    """A function that gives a handle; `stand_in` fills the buffer where the driver cannot."""

    def rebuild(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
        buffer = _handle_out(builder, prepared, name, c_type)
        _else(builder, prepared, lambda: stand_in(builder, prepared, buffer))
        arguments: Arguments = {name: buffer}
        if any(parameter.name == "resources" for parameter in function.parameters):
            arguments["resources"] = _resources_in(
                builder, prepared, "resources", prepared.call.arguments[2] & 0xFFFFFFFF
            )
        return arguments

    return rebuild


def _own_context(builder: Builder, prepared: Prepared, buffer: Any) -> int:
    buffer[0] = builder.translation.devices.context
    return 0


def _any_handle(builder: Builder, prepared: Prepared, buffer: Any) -> int:
    buffer[0] = 1
    return 0


def _plain_stream(builder: Builder, prepared: Prepared, buffer: Any) -> int:
    flags, priority = prepared.call.arguments[2] & 0xFFFFFFFF, prepared.call.arguments[3] & 0xFFFFFFFF
    return builder.driver.cuStreamCreateWithPriority.code(ctypes.addressof(buffer), flags, priority)


def _destroy(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    _else(builder, prepared, lambda: 0)
    return {}


def _with_event(plain: Callable[[Driver], Operation]) -> Rebuild:
    """An event of everything in a green context; of the whole plain context where there is no green one."""

    def rebuild(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
        def substitute() -> int:
            event = builder.handles.live("CUevent", prepared.call.arguments[1], prepared.where)
            return plain(builder.driver).code(builder.translation.devices.context, event)

        _else(builder, prepared, substitute)
        return {}

    return rebuild


def _event_of_another_process(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """Becomes an event of this process: nobody else records it, so waiting for it does not wait."""
    builder.note("an event of another process was replayed as a plain event that only this process records")
    return {"handle": _EVENT_DISABLE_TIMING}


BUILDERS: dict[str, Rebuild] = {
    "resources": _resources,
    "resource_description": _making("phDesc", "CUdevResourceDesc", _any_handle),
    "green_context": _making("phCtx", "CUgreenCtx", _own_context),
    "green_context_as_context": _making("pContext", "CUcontext", _own_context),
    "green_stream": _making("phStream", "CUstream", _plain_stream),
    "green_context_end": _destroy,
    "green_event": _with_event(lambda driver: driver.cuCtxRecordEvent),
    "green_wait": _with_event(lambda driver: driver.cuCtxWaitEvent),
    "event_of_another_process": _event_of_another_process,
}
