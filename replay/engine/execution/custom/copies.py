"""Copies of two and three dimensions, and copies whose sides may be host or device memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replay.api.vocabulary import Function
from replay.engine.execution.custom.common import Arguments, Rebuild
from replay.engine.execution.inputs import MAXIMUM_BUFFER_BYTES
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_MEMORY_HOST, _MEMORY_DEVICE, _MEMORY_ARRAY, _MEMORY_UNIFIED = 1, 2, 3, 4  # CUmemorytype

# Offsets in CUDA_MEMCPY2D and CUDA_MEMCPY3D: of one side, then of the extent
_COPY_2D = {
    "bytes": 128, "source": (0, 8, None, 16, 24, 32, 48, None), "target": (56, 64, None, 72, 80, 88, 104, None),
    "extent": (112, 120, None),
}  # fmt: skip
_COPY_3D = {
    "bytes": 200, "source": (0, 8, 16, 32, 40, 48, 72, 80), "target": (88, 96, 104, 120, 128, 136, 160, 168),
    "extent": (176, 184, 192),
}  # fmt: skip


_ARRAY_BEHIND_DEVICE = 8  # srcArray follows srcDevice
_COPY_3D_PEER = {**_COPY_3D, "contexts": (64, 152)}

_ATTRIBUTES_BYTES, _LOCATION_DEVICE = 24, 1  # CUmemcpyAttributes, CU_MEM_LOCATION_TYPE_DEVICE
# CUDA_MEMCPY3D_BATCH_OP: two operands (type, pointer, row length, layer height, location {type, id}), the extent
_BOX_BYTES, _BOX, _OPERAND_POINTER = 112, "<I4xQQQIiI4xQQQIiQQQ", 1
_OPERATION_BYTES, _WITH_ADDRESS = 48, (1, 2, 4, 5)  # CUstreamBatchMemOpParams: waits and writes


def _copy(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuMemcpy takes host and device addresses alike."""
    target, source, size = prepared.call.arguments[:3]
    arguments: Arguments = {}
    if executor.optional(prepared, "src", 1) is not None:
        arguments["src"] = _address(executor.host_source(prepared, "src", source, 1))
    elif executor.addresses.find(source) is None and not executor.addresses.is_late(source):
        raise EngineError("the host memory that it reads was not captured", where=prepared.where)
    if executor.addresses.is_late(target) and "dst.2" not in prepared.call.outputs:
        return arguments
    live = executor.addresses.find(target)
    # The page of registered memory is in the replay, and what stands behind it on that page may be any memory.
    whole = live is not None and executor.addresses.find(target + size) == live + size
    if not whole or "dst.2" in prepared.call.outputs:
        arguments["dst"] = _address(executor.host_target(prepared, "dst", target, size, 2))
    return arguments


def _address(value: Any) -> int:
    return value if isinstance(value, int) else ctypes.addressof(value)


def _copy_rectangle(layout: dict[str, Any]) -> Rebuild:
    """cuMemcpy2D and 3D: host sides come from tightly packed rows, device sides and arrays are translated."""

    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        data = bytearray(executor.required(prepared, "pCopy"))
        if len(data) != layout["bytes"]:
            raise EngineError("the copy's description has a broken length", where=prepared.where)

        def get(offset: int, size: int = 8) -> int:
            return int.from_bytes(data[offset : offset + size], "little")

        def put(offset: int, value: int, size: int = 8) -> None:
            data[offset : offset + size] = value.to_bytes(size, "little")

        arrays: list[int] = []  # offsets of their handles
        late: list[int] = []  # offsets of addresses that are known only when the call runs
        width, height, depth = (1 if offset is None else get(offset) for offset in layout["extent"])
        for side in ("source", "target"):
            x, y, z, memory_type, host, device, pitch, rows = layout[side]
            kind = get(memory_type, 4)
            if kind == _MEMORY_ARRAY:
                arrays.append(device + _ARRAY_BEHIND_DEVICE)
                continue
            captured = get(host) if kind == _MEMORY_HOST else get(device)
            live = executor.addresses.find(captured)
            known = prepared.call.inputs if side == "source" else prepared.call.outputs
            pageable = ("pCopy.1" if side == "source" else "pCopy.2") in known
            if kind != _MEMORY_HOST and not pageable and executor.addresses.is_late(captured):
                late.append(device)
                continue
            if live is not None:  # device memory, or pinned memory, which is compared as a range
                put(host if kind == _MEMORY_HOST else device, live)
                continue
            if side == "source":
                buffer, size = executor.host_bytes(prepared, "pCopy", 1)
                if size < width * height * depth:
                    raise EngineError("the host memory that it reads was not captured", where=prepared.where)
            else:
                total = width * height * depth
                if total > 1 << 30:
                    raise EngineError(f"copies {total} bytes to the host at once", where=prepared.where)
                buffer = executor.host_target(prepared, "pCopy", captured, total, 2)
            for offset in (x, y, z):
                if offset is not None:
                    put(offset, 0)
            put(memory_type, _MEMORY_HOST, 4)
            put(host, ctypes.addressof(buffer))
            put(pitch, width)
            if rows is not None:
                put(rows, height)
        description = executor.buffer(prepared, bytes(data))
        for offset in arrays:
            executor.late_word(prepared, ctypes.addressof(description) + offset, "CUarray", get(offset))
        for offset in late:
            executor.late_word(prepared, ctypes.addressof(description) + offset, "CUdeviceptr", get(offset))
        for offset in layout.get("contexts", ()):
            if get(offset):
                executor.late_word(prepared, ctypes.addressof(description) + offset, "CUcontext", get(offset))
        return {"pCopy": description}

    return rebuild


def _copy_with_attributes(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    data = executor.required(prepared, "attr")
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
        if not self._order or self._order[0] != position or self._next + size_bytes > len(self._data):
            raise EngineError(
                f"the host memory that copy {position} of it reads was not captured", where=prepared.where
            )
        del self._order[0]
        data, guessed = executor.addresses.patch_lookalikes(self._data[self._next : self._next + size_bytes])
        if guessed:
            executor.note(f"{prepared.where}: {guessed} words of its host memory were patched (a guess)")
        self._next += size_bytes
        return ctypes.addressof(executor.buffer(prepared, data))


def _target(executor: Executor, prepared: Prepared, captured: int, size_bytes: int) -> int:
    """Device or pinned memory; else a place that stands for pageable memory."""
    live = executor.addresses.find(captured)
    if live is not None:
        return live
    if not 0 <= size_bytes <= MAXIMUM_BUFFER_BYTES:
        raise EngineError(f"copies {size_bytes} bytes to the host at once", where=prepared.where)
    return ctypes.addressof(executor.buffer(prepared, bytes(size_bytes)))


def _batch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    count = prepared.call.arguments[3]
    given = [executor.required(prepared, name) for name in ("dsts", "srcs", "sizes")]
    if any(len(data) != 8 * count for data in given):
        raise EngineError("its arrays have a broken length", where=prepared.where)
    targets, sources, sizes = ([value for (value,) in struct.iter_unpack("<Q", data)] for data in given)
    pageable = _PageableSources(executor, prepared, "srcs")
    late: list[tuple[str, int, int]] = []
    for position in range(count):
        if executor.addresses.is_late(sources[position]) and not pageable.holds(position):
            late.append(("srcs", position, sources[position]))
        else:
            live = executor.addresses.find(sources[position])
            if live is None:
                live = pageable.take(executor, prepared, position, sizes[position])
            sources[position] = live
        if executor.addresses.is_late(targets[position]):
            late.append(("dsts", position, targets[position]))
        else:
            targets[position] = _target(executor, prepared, targets[position], sizes[position])
    arrays = {"dsts": targets, "srcs": sources}
    buffers = {
        name: executor.buffer(prepared, struct.pack(f"<{count}Q", *values)) for name, values in arrays.items()
    }
    for name, position, captured in late:
        place = ctypes.addressof(buffers[name]) + 8 * position
        executor.late_word(prepared, place, "CUdeviceptr", captured)
    attributes = _live_attributes(executor.required(prepared, "attrs"), executor.live_device)
    return buffers | {"attrs": executor.buffer(prepared, attributes)}


def _boxes(parameter: str) -> Rebuild:
    """3D copies in a batch, with pointers on both sides."""

    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        data = bytearray(executor.required(prepared, parameter))
        if not data or len(data) % _BOX_BYTES:
            raise EngineError("its copies have a broken length", where=prepared.where)
        pageable = _PageableSources(executor, prepared, parameter)
        late: list[tuple[int, int]] = []
        for position, at in enumerate(range(0, len(data), _BOX_BYTES)):
            (source_type, source, _, _, source_location, source_device,
             target_type, target, rows, layers, target_location, target_device,
             width, height, depth) = struct.unpack_from(_BOX, data, at)  # fmt: skip
            if source_type != _OPERAND_POINTER or target_type != _OPERAND_POINTER:
                raise EngineError("copies to or from a CUDA array in a batch, which is not replayed yet",
                                  where=prepared.where)  # fmt: skip
            if executor.addresses.is_late(source) and not pageable.holds(position):
                late.append((at + 8, source))
            else:
                live = executor.addresses.find(source)
                if live is None:
                    live = pageable.take(executor, prepared, position, width * height * depth)
                    struct.pack_into("<QQ", data, at + 16, width, height)  # tightly packed
                struct.pack_into("<Q", data, at + 8, live)
            pitch = rows or width
            extent = ((depth - 1) * (layers or height) + height - 1) * pitch + width
            if executor.addresses.is_late(target):
                late.append((at + 48, target))
            else:
                struct.pack_into("<Q", data, at + 48, _target(executor, prepared, target, extent))
            for offset, location, ordinal in (
                (36, source_location, source_device),
                (76, target_location, target_device),
            ):
                if location == _LOCATION_DEVICE:
                    struct.pack_into("<i", data, at + offset, executor.live_device(ordinal))
        buffer = executor.buffer(prepared, bytes(data))
        for offset, captured in late:
            executor.late_word(prepared, ctypes.addressof(buffer) + offset, "CUdeviceptr", captured)
        return {parameter: buffer}

    return rebuild


def _value_operations(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """Waits for and writes of single values."""
    data = executor.required(prepared, "paramArray")
    if len(data) != _OPERATION_BYTES * prepared.call.arguments[1]:
        raise EngineError("its operations have a broken length", where=prepared.where)
    buffer = executor.buffer(prepared, data)
    for at in range(0, len(data), _OPERATION_BYTES):
        operation = int.from_bytes(data[at : at + 4], "little")
        address = int.from_bytes(data[at + 8 : at + 16], "little")
        if operation in _WITH_ADDRESS and address:
            executor.late_word(prepared, ctypes.addressof(buffer) + at + 8, "CUdeviceptr", address)
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
    **dict.fromkeys(("cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"), _copy_rectangle(_COPY_3D_PEER)),
    **dict.fromkeys(
        ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"), _copy_rectangle(_COPY_2D)
    ),
    **dict.fromkeys(("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"), _copy_rectangle(_COPY_3D)),
}
