"""The driver's structs whose fields have to be understood, as `facts.json` has them from `cuda.h` on 64-bit Linux.

    from replay.api.structs import CUlaunchConfig

gives the ctypes type of that name, for every struct of `facts.json`: `CUlaunchConfig.from_buffer_copy(data).hStream`,
`CUlaunchConfig.attrs.offset`. Handles, device addresses and pointers are plain unsigned 64-bit numbers: they came out
of another process and must never be followed.
"""

from __future__ import annotations

import ctypes
import enum
import json
from ctypes import c_float, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64  # CUtensorMap

_NUMBERS: dict[str, Any] = {
    "u1": c_uint8, "u2": c_uint16, "u4": c_uint32, "u8": c_uint64, "i4": c_int32, "i8": c_int64, "f4": c_float
}  # fmt: skip
S = TypeVar("S", bound=ctypes.Structure)


class MemoryType(enum.IntEnum):
    """CUmemorytype."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


class LocationType(enum.IntEnum):
    """CUmemLocationType."""

    DEVICE = 1
    HOST = 2
    HOST_NUMA = 3
    HOST_NUMA_CURRENT = 4


class LaunchAttributeId(enum.IntEnum):
    """CUlaunchAttributeID, of streams, graph nodes and launches."""

    IGNORE = 0
    ACCESS_POLICY_WINDOW = 1
    COOPERATIVE = 2
    SYNCHRONIZATION_POLICY = 3
    CLUSTER_DIMENSION = 4
    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5
    PROGRAMMATIC_STREAM_SERIALIZATION = 6
    PROGRAMMATIC_EVENT = 7
    PRIORITY = 8
    MEM_SYNC_DOMAIN_MAP = 9
    MEM_SYNC_DOMAIN = 10
    PREFERRED_CLUSTER_DIMENSION = 11
    LAUNCH_COMPLETION_EVENT = 12
    DEVICE_UPDATABLE_KERNEL_NODE = 13
    PREFERRED_SHARED_MEMORY_CARVEOUT = 14
    NVLINK_UTIL_CENTRIC_SCHEDULING = 16
    PORTABLE_CLUSTER_SIZE_MODE = 17
    SHARED_MEMORY_MODE = 18


class ResourceType(enum.IntEnum):
    """CUresourcetype."""

    ARRAY = 0
    MIPMAPPED_ARRAY = 1
    LINEAR = 2
    PITCH2D = 3


def __getattr__(name: str) -> Any:
    if name not in facts()["structs"]:
        raise AttributeError(f"facts.json has no struct {name}")
    return _made(name)


@cache
def facts() -> dict[str, dict[str, Any]]:
    """What the headers state (`import_facts.py`): `types`, `structs` and `functions`, by name."""
    document: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("facts.json").read_text())
    return document


@cache
def _made(name: str) -> Any:
    _, kind, rows = facts()["structs"][name]
    fields, unnamed = [], []
    for place, (field, _, type_, *counts) in enumerate(rows):
        made = _NUMBERS.get(type_) or _made(type_)
        for count in counts:
            made = made * count
        if not field:
            unnamed.append(f"_{place}")
        fields.append((field or f"_{place}", made))
    # Without a dictionary, a name that is no field cannot be set either.
    members = {"__slots__": (), "_anonymous_": unnamed, "_fields_": fields}
    return type(name, (ctypes.Union if kind == "union" else ctypes.Structure,), members)


def read_struct(structure: type[S], data: bytes) -> S:
    """The struct in `data`. Raises ValueError when there are fewer bytes than the struct has."""
    if len(data) < ctypes.sizeof(structure):
        raise ValueError(f"{len(data)} bytes are too few for {structure.__name__}")
    return structure.from_buffer_copy(data)


def read_structs(structure: type[S], data: bytes) -> ctypes.Array[S]:
    """The structs in `data`, one after another. Raises ValueError when that is no whole number of them."""
    count, rest = divmod(len(data), ctypes.sizeof(structure))
    if rest:
        raise ValueError(f"{len(data)} bytes are not a whole number of {structure.__name__}")
    return (structure * count).from_buffer_copy(data)


def read_launch_attributes(data: bytes) -> list[Any]:
    """The attributes of a launch, from their bytes one after another. Raises ValueError for a broken length."""
    return list(read_structs(_made("CUlaunchAttribute"), data))


SHAPE_FIELDS = (
    "gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes",
)  # fmt: skip


def geometry(shape: Any) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Grid in blocks, block in threads, and dynamic shared memory in bytes: of a struct with SHAPE_FIELDS."""
    grid = (shape.gridDimX, shape.gridDimY, shape.gridDimZ)
    return grid, (shape.blockDimX, shape.blockDimY, shape.blockDimZ), shape.sharedMemBytes


def copy_layout(data: bytes) -> Any:
    """CUDA_MEMCPY2D or CUDA_MEMCPY3D, which are told apart by size. CUDA_MEMCPY3D_PEER is like the latter."""
    flat = _made("CUDA_MEMCPY2D")
    return flat if len(data) == ctypes.sizeof(flat) else _made("CUDA_MEMCPY3D")


def copied_arrays(data: bytes) -> list[int]:
    """The arrays that the description of a copy names; none where it is too short."""
    if len(data) < ctypes.sizeof(copy_layout(data)):
        return []
    copy = read_struct(copy_layout(data), data)
    sides = ((copy.srcMemoryType, copy.srcArray), (copy.dstMemoryType, copy.dstArray))
    return [handle for kind, handle in sides if kind == MemoryType.ARRAY]
