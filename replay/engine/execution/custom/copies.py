"""Copies of two and three dimensions, and copies whose sides may be host or device memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replay.api import extents
from replay.api.extents import Copy, Extent
from replay.api.structs import CUDA_MEMCPY2D, CUDA_MEMCPY3D, STRUCT_BYTES, MemoryType
from replay.api.vocabulary import Function
from replay.engine.execution.custom.common import (
    Arguments,
    Rebuild,
    clear_pointers,
    memory_operations,
    word_in,
)
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_ATTRIBUTES_BYTES, _LOCATION_DEVICE = 24, 1  # CUmemcpyAttributes, CU_MEM_LOCATION_TYPE_DEVICE
# CUDA_MEMCPY3D_BATCH_OP: two operands (type, pointer, row length, layer height, location {type, id}), the extent
_BOX_BYTES, _BOX, _OPERAND_POINTER = 112, "<I4xQQQIiI4xQQQIiQQQ", 1
_OPERATION_BYTES = 48  # CUstreamBatchMemOpParams


def _copy(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuMemcpy takes host and device addresses alike. What is in captured memory is no exception."""
    target, source, size = (word & (2**64 - 1) for word in prepared.call.arguments[:3])
    arguments: Arguments = {}
    if executor.optional(prepared, "src", 1) is not None:
        arguments["src"] = _address(executor.host_source(prepared, "src", source, size, 1))
    if executor.addresses.is_late(target) and "dst.2" not in prepared.call.outputs:
        return arguments
    # The page of registered memory is in the replay, and what stands behind it on that page may be any memory.
    if "dst.2" in prepared.call.outputs or executor.addresses.reach(target, size) is None:
        arguments["dst"] = _address(executor.host_target(prepared, "dst", target, size, 2))
    return arguments


def _address(value: Any) -> int:
    return value if isinstance(value, int) else ctypes.addressof(value)


def _copy_rectangle(layout: type[CUDA_MEMCPY2D] | type[CUDA_MEMCPY3D], peers: bool = False) -> Rebuild:
    """cuMemcpy2D and 3D: host sides come from tightly packed rows, device sides and arrays are translated."""

    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        data = executor.required(prepared, "pCopy")
        if len(data) != STRUCT_BYTES[layout]:
            raise EngineError("the copy's description has a broken length", where=prepared.where)
        copy = layout.from_buffer_copy(data)
        prepared.keep.append(copy)
        for side in extents.SIDES:
            _rebuild_side(executor, prepared, copy, side)
        for name in ("reserved0", "reserved1") if isinstance(copy, CUDA_MEMCPY3D) else ():
            context = getattr(copy, name)  # of the peer form; else it is nothing
            setattr(copy, name, 0)
            if peers and context:
                executor.late_word(prepared, word_in(copy, name), "CUcontext", context)
        return {"pCopy": ctypes.addressof(copy)}

    return rebuild


def _rebuild_side(executor: Executor, prepared: Prepared, copy: Copy, side: str) -> None:
    write = side == "dst"
    try:
        pointer = extents.pointer_name(copy, side)
    except ValueError as error:
        raise EngineError(f"pCopy: {error}", where=prepared.where) from None
    handle, captured = getattr(copy, side + "Array"), getattr(copy, pointer) if pointer else 0
    clear_pointers(copy, side)
    if not pointer:
        executor.late_word(prepared, word_in(copy, side + "Array"), "CUarray", handle)
        return
    extent, argument = extents.of_side(copy, side), f"pCopy->{pointer}"
    known = prepared.call.outputs if write else prepared.call.inputs
    pageable = f"pCopy.{2 if write else 1}" in known
    on_host = getattr(copy, side + "MemoryType") == MemoryType.HOST
    if not on_host and not pageable and executor.addresses.is_late(captured + extent.offset):
        place = word_in(copy, pointer)
        executor.late_word(prepared, place, "CUdeviceptr", captured, extent, argument, write)
        return
    first = executor.addresses.reach(captured + extent.offset, extent.size_bytes, write)
    if first is not None:  # device memory, or pinned memory, which is compared as a range
        setattr(copy, pointer, (first - extent.offset) % 2**64)
        return
    # Pageable memory comes with its bytes; with those that a call wrote only where it waited for the device.
    on_device = getattr(copy, side + "MemoryType") == MemoryType.DEVICE
    may_be = executor.addresses.may_be_pageable(captured + extent.offset, extent.size_bytes)
    beside = executor.addresses.reach(captured, 1) is not None  # it begins inside, and skips out of it
    if on_device or not may_be or not (pageable or (write and not beside) or not extent.size_bytes):
        executor.addresses.access(captured, extent, prepared.where, argument, write)
    total = copy.WidthInBytes * copy.Height * getattr(copy, "Depth", 1)
    if write or not total:
        buffer = executor.pageable_target(prepared, "pCopy", total, 2)
    else:
        buffer = executor.host_bytes(prepared, "pCopy", total, 1)
    for name in ("XInBytes", "Y", "Z"):
        if hasattr(copy, side + name):
            setattr(copy, side + name, 0)
    setattr(copy, side + "MemoryType", MemoryType.HOST)
    clear_pointers(copy, side)
    setattr(copy, side + "Host", _address(buffer))
    setattr(copy, side + "Pitch", copy.WidthInBytes)
    if hasattr(copy, side + "Height"):
        setattr(copy, side + "Height", copy.Height)


def _copy_with_attributes(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    data = executor.required(prepared, "attr")
    if len(data) < _ATTRIBUTES_BYTES:
        raise EngineError("its attributes have a broken length", where=prepared.where)
    return _copy(executor, prepared, function) | {
        "attr": executor.buffer(prepared, _live_attributes(data, executor.live_device))
    }


def _live_attributes(data: bytes, device: Callable[[int], int]) -> bytes:
    """CUmemcpyAttributes (order, two locations, flags) with the device that stands for every captured one."""
    found = bytearray(data)
    for at in range(0, len(found) // _ATTRIBUTES_BYTES * _ATTRIBUTES_BYTES, _ATTRIBUTES_BYTES):
        for location in (at + 4, at + 12):
            if int.from_bytes(found[location : location + 4], "little") == _LOCATION_DEVICE:
                ordinal = int.from_bytes(found[location + 4 : location + 8], "little")
                found[location + 4 : location + 8] = device(ordinal).to_bytes(4, "little")
    return bytes(found)


class _PageableSources:
    """Of a batch: the bytes that it copied out of memory the device does not know, by position of the copy."""

    def __init__(self, executor: Executor, prepared: Prepared, parameter: str) -> None:
        positions = executor.optional(prepared, parameter, 2) or b""
        self._data = executor.optional(prepared, parameter, 1) or b""
        self._order = [at for (at,) in struct.iter_unpack("<Q", positions[: len(positions) // 8 * 8])]
        self._next = 0

    def holds(self, position: int) -> bool:
        """Whether the bytes of a copy were captured with the call; to be asked in the order of positions."""
        return self._order[:1] == [position]

    def take(self, executor: Executor, prepared: Prepared, position: int, size_bytes: int) -> int:
        """Where the bytes of a copy are now; to be asked in the order of positions."""
        if self._next + size_bytes > len(self._data):
            raise EngineError(
                f"the host memory that copy {position} of it reads was not captured", where=prepared.where
            )
        del self._order[0]
        data, guessed = executor.addresses.patch_lookalikes(self._data[self._next : self._next + size_bytes])
        if guessed:
            executor.note(f"{prepared.where}: {guessed} words of its host memory were patched (a guess)")
        self._next += size_bytes
        return ctypes.addressof(executor.buffer(prepared, data))


def _batch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    words = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))
    count = words["count"]
    given = [executor.required(prepared, name) for name in ("dsts", "srcs", "sizes")]
    if any(len(data) != 8 * count for data in given):
        raise EngineError("its arrays have a broken length", where=prepared.where)
    targets, sources, sizes = ([value for (value,) in struct.iter_unpack("<Q", data)] for data in given)
    pageable = _PageableSources(executor, prepared, "srcs")
    late: list[tuple[str, int, int, int]] = []
    for position, size in enumerate(sizes):
        for name, values, write in (("srcs", sources, False), ("dsts", targets, True)):
            live = _batch_side(
                executor, prepared, pageable, position, values[position], Extent(0, size), size,
                f"{name}[{position}]", write,
            )  # fmt: skip
            if live is None:
                late.append((name, position, values[position], size))
            else:
                values[position] = live[0]
    arrays = {"dsts": targets, "srcs": sources}
    buffers = {
        name: executor.buffer(prepared, struct.pack(f"<{count}Q", *values)) for name, values in arrays.items()
    }
    for name, position, captured, size in late:
        place = ctypes.addressof(buffers[name]) + 8 * position
        extent, argument = Extent(0, size), f"{name}[{position}]"
        executor.late_word(prepared, place, "CUdeviceptr", captured, extent, argument, name == "dsts")
    attributes = executor.required(prepared, "attrs")
    if len(attributes) < words["numAttrs"] * _ATTRIBUTES_BYTES:
        raise EngineError("its attributes have a broken length", where=prepared.where)
    attributes = _live_attributes(attributes, executor.live_device)
    # The sizes that were looked at, whatever stands in their argument.
    given_sizes = executor.buffer(prepared, struct.pack(f"<{count}Q", *sizes))
    return buffers | {"sizes": given_sizes, "attrs": executor.buffer(prepared, attributes)}


def _batch_side(
    executor: Executor,
    prepared: Prepared,
    pageable: _PageableSources,
    position: int,
    captured: int,
    extent: Extent,
    packed_bytes: int,
    argument: str,
    write: bool,
) -> tuple[int, bool] | None:
    """The live address of one side of one copy, and whether it is a buffer whose rows are packed; None where that is
    known only when the call runs. Memory that no captured stretch holds is the application's own, of which a source
    comes with its bytes and a target is room of that size."""
    addresses, captured_here = executor.addresses, not write and pageable.holds(position)
    if addresses.is_late(captured) and not captured_here:
        return None
    live = addresses.reach(captured + extent.offset, extent.size_bytes, write)
    if live is not None:
        return live - extent.offset, False
    may_be = addresses.may_be_pageable(captured + extent.offset, extent.size_bytes)
    if not may_be or not (write or captured_here):
        return addresses.access(captured, extent, prepared.where, argument, write), False
    if not write:
        return pageable.take(executor, prepared, position, packed_bytes), True
    return _address(executor.pageable_target(prepared, argument, extent.end)), False


def _boxes(parameter: str) -> Rebuild:
    """3D copies in a batch, with pointers on both sides."""

    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        data = bytearray(executor.required(prepared, parameter))
        words = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))
        if len(data) != _BOX_BYTES * words.get("numOps", 1):
            raise EngineError("its copies have a broken length", where=prepared.where)
        pageable = _PageableSources(executor, prepared, parameter)
        late: list[tuple[int, int, Extent, str, bool]] = []
        for position, at in enumerate(range(0, len(data), _BOX_BYTES)):
            fields = struct.unpack_from(_BOX, data, at)
            width, height, depth = fields[12:]
            for write, start in ((False, 0), (True, 6)):
                kind, captured, row, rows, location, device = fields[start : start + 6]
                if kind != _OPERAND_POINTER:
                    raise EngineError("copies to or from a CUDA array in a batch, which is not replayed yet",
                                      where=prepared.where)  # fmt: skip
                extent = extents.box(width, height, depth, pitch=row, rows=rows)
                place, argument = at + 8 + 40 * write, f"{parameter}[{position}].{'dst' if write else 'src'}"
                side = _batch_side(
                    executor, prepared, pageable, position, captured, extent, width * height * depth,
                    argument, write,
                )  # fmt: skip
                if side is None:
                    late.append((place, captured, extent, argument, write))
                    continue
                struct.pack_into("<Q", data, place, side[0])
                if side[1]:
                    struct.pack_into("<QQ", data, place + 8, width, height)
                if location == _LOCATION_DEVICE:
                    struct.pack_into("<i", data, place + 28, executor.live_device(device))
        buffer = executor.buffer(prepared, bytes(data))
        for offset, captured, extent, argument, write in late:
            place = ctypes.addressof(buffer) + offset
            executor.late_word(prepared, place, "CUdeviceptr", captured, extent, argument, write)
        return {parameter: buffer}

    return rebuild


def _value_operations(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """Waits for and writes of single values."""
    data = executor.required(prepared, "paramArray")
    if len(data) != _OPERATION_BYTES * prepared.call.arguments[1]:
        raise EngineError("its operations have a broken length", where=prepared.where)
    operations = memory_operations(data, prepared.where)
    buffer = executor.buffer(prepared, operations.data)
    for place, captured, extent, argument, write in operations.addresses:
        at = ctypes.addressof(buffer) + place
        executor.late_word(prepared, at, "CUdeviceptr", captured, extent, argument, write)
    return {"paramArray": buffer}


EXCEPTIONS: dict[str, Rebuild] = {
    "cuMemcpy": _copy,
    "cuMemcpyAsync": _copy,
    "cuMemcpyWithAttributesAsync": _copy_with_attributes,
    "cuMemcpyBatchAsync": _batch,
    "cuMemcpyBatchAsync_v2": _batch,
    "cuMemcpy3DBatchAsync": _boxes("opList"),
    "cuMemcpy3DBatchAsync_v2": _boxes("opList"),
    "cuMemcpy3DWithAttributesAsync": _boxes("op"),
    "cuStreamBatchMemOp": _value_operations,
    "cuStreamBatchMemOp_v2": _value_operations,
    **dict.fromkeys(("cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"), _copy_rectangle(CUDA_MEMCPY3D, peers=True)),
    **dict.fromkeys(
        ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"), _copy_rectangle(CUDA_MEMCPY2D)
    ),
    **dict.fromkeys(("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"), _copy_rectangle(CUDA_MEMCPY3D)),
}
