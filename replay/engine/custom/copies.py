"""Copies of two and three dimensions, and copies whose sides may be host or device memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from replay.api.vocabulary import Function
from replay.engine.custom.common import Arguments, Rebuild
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execute import Executor
    from replay.engine.inputs import Prepared

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


def _copy(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuMemcpy takes host and device addresses alike."""
    target, source, size = prepared.call.arguments[:3]
    arguments: Arguments = {}
    if executor.optional(prepared, "src", 1) is not None:
        arguments["src"] = _address(executor.host_source(prepared, "src", source, 1))
    elif executor.addresses.find(source) is None:
        raise EngineError("the host memory that it reads was not captured", where=prepared.where)
    if executor.addresses.find(target) is None:
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
        width, height, depth = (1 if offset is None else get(offset) for offset in layout["extent"])
        for side in ("source", "target"):
            x, y, z, memory_type, host, device, pitch, rows = layout[side]
            kind = get(memory_type, 4)
            if kind == _MEMORY_ARRAY:
                arrays.append(device + _ARRAY_BEHIND_DEVICE)
                continue
            captured = get(host) if kind == _MEMORY_HOST else get(device)
            live = executor.addresses.find(captured)
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
        return {"pCopy": description}

    return rebuild


EXCEPTIONS: dict[str, Rebuild] = {
    "cuMemcpy": _copy,
    "cuMemcpyAsync": _copy,
    **dict.fromkeys(
        ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"), _copy_rectangle(_COPY_2D)
    ),
    **dict.fromkeys(("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"), _copy_rectangle(_COPY_3D)),
}
