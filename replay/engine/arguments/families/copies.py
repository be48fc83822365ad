"""Copies of two and three dimensions, and copies whose sides may be host or device memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from replay.api import extents
from replay.api.extents import Copy, Extent
from replay.api.parts import COPY_SOURCE, COPY_TARGET, find_part
from replay.api.structs import (
    CUDA_MEMCPY2D,
    CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_BATCH_OP,
    CUmemcpyAttributes,
    CUstreamBatchMemOpParams,
    MemoryType,
)
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.families.managed import live_location
from replay.engine.arguments.prepared import Prepared
from replay.engine.translation.structures import clear_pointers, memory_operations, word_in
from replay.errors import EngineError

_OPERAND_POINTER = 1  # CUmemcpy3DOperandType


def _copy(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """cuMemcpy takes host and device addresses alike. What is in captured memory is no exception."""
    target, source, size = (word & (2**64 - 1) for word in prepared.call.arguments[:3])
    arguments: Arguments = {}
    if builder.optional(prepared, "src", 1) is not None:
        arguments["src"] = _address(builder.host.source(prepared, "src", source, size, 1))
    pageable = find_part(prepared.call.outputs, "dst", 2) is not None
    if builder.addresses.is_late(target) and not pageable:
        return arguments
    # The page of registered memory is in the replay, and what follows it on that page may be any memory.
    if pageable or builder.addresses.reach(target, size) is None:
        arguments["dst"] = _address(builder.host.target(prepared, "dst", target, size, 2))
    return arguments


def _address(value: Any) -> int:
    return value if isinstance(value, int) else ctypes.addressof(value)


def _copy_rectangle(layout: type[CUDA_MEMCPY2D] | type[CUDA_MEMCPY3D], peers: bool = False) -> Rebuild:
    """cuMemcpy2D and 3D: host sides come from tightly packed rows, device sides and arrays are translated."""

    def rebuild(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
        copies = builder.structs(prepared, "pCopy", layout, 1, "the copy's description has")
        prepared.keep.append(copies)
        copy = copies[0]
        for side in extents.SIDES:
            _rebuild_side(builder, prepared, copy, side)
        for name in ("reserved0", "reserved1") if isinstance(copy, CUDA_MEMCPY3D) else ():
            context = getattr(copy, name)  # of the peer form; else it is nothing
            setattr(copy, name, 0)
            if peers and context:
                prepared.late_word(word_in(copy, name), "CUcontext", context)
        return {"pCopy": ctypes.addressof(copy)}

    return rebuild


def _rebuild_side(builder: Builder, prepared: Prepared, copy: Copy, side: str) -> None:
    write = side == "dst"
    try:
        pointer = extents.pointer_name(copy, side)
    except ValueError as error:
        raise EngineError(f"pCopy: {error}", where=prepared.where) from None
    handle, captured = getattr(copy, side + "Array"), getattr(copy, pointer) if pointer else 0
    clear_pointers(copy, side)
    if not pointer:
        prepared.late_word(word_in(copy, side + "Array"), "CUarray", handle)
        return
    extent, argument = extents.of_side(copy, side), f"pCopy->{pointer}"
    known = prepared.call.outputs if write else prepared.call.inputs
    pageable = (COPY_TARGET if write else COPY_SOURCE) in known
    on_host = getattr(copy, side + "MemoryType") == MemoryType.HOST
    if not on_host and not pageable and builder.addresses.is_late(captured + extent.offset):
        place = word_in(copy, pointer)
        prepared.late_word(place, "CUdeviceptr", captured, extent, argument, write)
        return
    first = builder.addresses.reach(captured + extent.offset, extent.size_bytes, write)
    if first is not None:  # device memory, or pinned memory, which is compared as a range
        setattr(copy, pointer, (first - extent.offset) % 2**64)
        return
    # Pageable memory comes with its bytes; with those that a call wrote only where it waited for the device.
    on_device = getattr(copy, side + "MemoryType") == MemoryType.DEVICE
    may_be = builder.addresses.may_be_pageable(captured + extent.offset, extent.size_bytes)
    beside = builder.addresses.reach(captured, 1) is not None  # it begins inside, and skips out of it
    if on_device or not may_be or not (pageable or (write and not beside) or not extent.size_bytes):
        builder.addresses.access(captured, extent, prepared.where, argument, write)
    total = copy.WidthInBytes * copy.Height * getattr(copy, "Depth", 1)
    if write or not total:
        buffer = builder.host.pageable_target(prepared, "pCopy", total, 2)
    else:
        buffer = builder.host.bytes_of(prepared, "pCopy", total, 1)
    for name in ("XInBytes", "Y", "Z"):
        if hasattr(copy, side + name):
            setattr(copy, side + name, 0)
    setattr(copy, side + "MemoryType", MemoryType.HOST)
    clear_pointers(copy, side)
    setattr(copy, side + "Host", _address(buffer))
    setattr(copy, side + "Pitch", copy.WidthInBytes)
    if hasattr(copy, side + "Height"):
        setattr(copy, side + "Height", copy.Height)


def _copy_with_attributes(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    data = builder.required(prepared, "attr")
    if len(data) < ctypes.sizeof(CUmemcpyAttributes):
        raise EngineError("its attributes have a broken length", where=prepared.where)
    return _copy(builder, prepared, function) | {
        "attr": builder.buffer(prepared, _live_attributes(data, builder.translation.devices.device))
    }


def _live_attributes(data: bytes, device: Callable[[int], int]) -> bytes:
    """CUmemcpyAttributes with the live device of every captured one."""
    found = (CUmemcpyAttributes * (len(data) // ctypes.sizeof(CUmemcpyAttributes))).from_buffer_copy(data)
    for item in found:
        item.srcLocHint = live_location(item.srcLocHint, device)
        item.dstLocHint = live_location(item.dstLocHint, device)
    return bytes(found)


class _PageableSources:
    """Of a batch: the bytes that it copied out of memory the device does not know, by position of the copy."""

    def __init__(self, builder: Builder, prepared: Prepared, parameter: str) -> None:
        positions = builder.optional(prepared, parameter, 2) or b""
        self._data = builder.optional(prepared, parameter, 1) or b""
        self._order = [at for (at,) in struct.iter_unpack("<Q", positions[: len(positions) // 8 * 8])]
        self._next = 0

    def holds(self, position: int) -> bool:
        """Whether the bytes of a copy were captured with the call; to be asked in the order of positions."""
        return self._order[:1] == [position]

    def take(self, builder: Builder, prepared: Prepared, position: int, size_bytes: int) -> int:
        """Where the bytes of a copy are now; to be asked in the order of positions."""
        if self._next + size_bytes > len(self._data):
            raise EngineError(
                f"the host memory that copy {position} of it reads was not captured", where=prepared.where
            )
        del self._order[0]
        data, guessed = builder.translation.guess(self._data[self._next : self._next + size_bytes])
        if guessed:
            builder.note(f"{prepared.where}: {guessed} words of its host memory were patched (a guess)")
        self._next += size_bytes
        return ctypes.addressof(builder.buffer(prepared, data))


def _batch(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    words = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))
    count = words["count"]
    given = [builder.required(prepared, name) for name in ("dsts", "srcs", "sizes")]
    if any(len(data) != 8 * count for data in given):
        raise EngineError("its arrays have a broken length", where=prepared.where)
    targets, sources, sizes = ([value for (value,) in struct.iter_unpack("<Q", data)] for data in given)
    pageable = _PageableSources(builder, prepared, "srcs")
    late: list[tuple[str, int, int, int]] = []
    for position, size in enumerate(sizes):
        for name, values, write in (("srcs", sources, False), ("dsts", targets, True)):
            live = _batch_side(
                builder, prepared, pageable, position, values[position], Extent(0, size), size,
                f"{name}[{position}]", write,
            )  # fmt: skip
            if live is None:
                late.append((name, position, values[position], size))
            else:
                values[position] = live[0]
    arrays = {"dsts": targets, "srcs": sources}
    buffers = {
        name: builder.buffer(prepared, struct.pack(f"<{count}Q", *values)) for name, values in arrays.items()
    }
    for name, position, captured, size in late:
        place = ctypes.addressof(buffers[name]) + 8 * position
        extent, argument = Extent(0, size), f"{name}[{position}]"
        prepared.late_word(place, "CUdeviceptr", captured, extent, argument, name == "dsts")
    attributes = builder.required(prepared, "attrs")
    if len(attributes) < words["numAttrs"] * ctypes.sizeof(CUmemcpyAttributes):
        raise EngineError("its attributes have a broken length", where=prepared.where)
    attributes = _live_attributes(attributes, builder.translation.devices.device)
    # The sizes that were looked at, whatever is in their argument.
    given_sizes = builder.buffer(prepared, struct.pack(f"<{count}Q", *sizes))
    return buffers | {"sizes": given_sizes, "attrs": builder.buffer(prepared, attributes)}


def _batch_side(
    builder: Builder,
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
    addresses, captured_here = builder.addresses, not write and pageable.holds(position)
    if addresses.is_late(captured) and not captured_here:
        return None
    live = addresses.reach(captured + extent.offset, extent.size_bytes, write)
    if live is not None:
        return live - extent.offset, False
    may_be = addresses.may_be_pageable(captured + extent.offset, extent.size_bytes)
    if not may_be or not (write or captured_here):
        return addresses.access(captured, extent, prepared.where, argument, write), False
    if not write:
        return pageable.take(builder, prepared, position, packed_bytes), True
    return _address(builder.host.pageable_target(prepared, argument, extent.end)), False


def _boxes(parameter: str) -> Rebuild:
    """3D copies in a batch, with pointers on both sides."""

    def rebuild(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
        data = builder.required(prepared, parameter)
        words = dict(zip((item.name for item in function.parameters), prepared.call.arguments, strict=True))
        count = words.get("numOps", 1)
        if len(data) != ctypes.sizeof(CUDA_MEMCPY3D_BATCH_OP) * count:
            raise EngineError("its copies have a broken length", where=prepared.where)
        pageable = _PageableSources(builder, prepared, parameter)
        buffer = builder.buffer(prepared, data)
        for position, copy in enumerate((CUDA_MEMCPY3D_BATCH_OP * count).from_buffer(buffer)):
            width, height, depth = copy.extent.width, copy.extent.height, copy.extent.depth
            for name, operand in (("src", copy.src), ("dst", copy.dst)):
                rows, write, argument = operand.op.ptr, name == "dst", f"{parameter}[{position}].{name}"
                if operand.type != _OPERAND_POINTER:
                    raise EngineError("copies to or from a CUDA array in a batch, which is not replayed yet",
                                      where=prepared.where)  # fmt: skip
                extent = extents.box(width, height, depth, pitch=rows.rowLength, rows=rows.layerHeight)
                side = _batch_side(
                    builder, prepared, pageable, position, rows.ptr, extent, width * height * depth,
                    argument, write,
                )  # fmt: skip
                if side is None:
                    place = word_in(rows, "ptr")
                    prepared.late_word(place, "CUdeviceptr", rows.ptr, extent, argument, write)
                    continue
                rows.ptr = side[0]
                if side[1]:
                    rows.rowLength, rows.layerHeight = width, height
                rows.locHint = live_location(rows.locHint, builder.translation.devices.device)
        return {parameter: buffer}

    return rebuild


def _value_operations(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """Waits for and writes of single values."""
    data = builder.required(prepared, "paramArray")
    count = prepared.call.arguments[1]
    if len(data) != ctypes.sizeof(CUstreamBatchMemOpParams) * count:
        raise EngineError("its operations have a broken length", where=prepared.where)
    operations = memory_operations(builder.buffer(prepared, data), count, prepared.where)
    for place, captured, extent, argument, write in operations.addresses:
        prepared.late_word(place, "CUdeviceptr", captured, extent, argument, write)
    return {"paramArray": operations.buffer}


BUILDERS: dict[str, Rebuild] = {
    "copy": _copy,
    "copy_with_attributes": _copy_with_attributes,
    "copy_rectangle": _copy_rectangle(CUDA_MEMCPY2D),
    "copy_box": _copy_rectangle(CUDA_MEMCPY3D),
    "copy_box_of_peers": _copy_rectangle(CUDA_MEMCPY3D, peers=True),
    "copy_batch": _batch,
    "box_batch": _boxes("opList"),
    "box_with_attributes": _boxes("op"),
    "value_operations": _value_operations,
}
