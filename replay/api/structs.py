"""Layouts of the driver's structs whose fields have to be understood, as `cuda.h` declares them on 64-bit Linux.

Handles, device addresses and pointers are plain unsigned 64-bit numbers: they came out of another process and must
never be followed. `STRUCT_BYTES` states every size; a test compares it with the sizes that the headers gave.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import c_int32, c_ubyte, c_uint16, c_uint32, c_uint64
from typing import TypeVar

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64  # CUtensorMap

S = TypeVar("S", bound=ctypes.Structure)


class MemoryType(enum.IntEnum):
    """CUmemorytype."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


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


class CUDA_MEMCPY2D(ctypes.Structure):
    """Both sides and the extent of a 2D copy. Offsets, pitches and widths in bytes, heights in rows."""

    _fields_ = [
        ("srcXInBytes", c_uint64),
        ("srcY", c_uint64),
        ("srcMemoryType", c_uint32),
        ("srcHost", c_uint64),
        ("srcDevice", c_uint64),
        ("srcArray", c_uint64),
        ("srcPitch", c_uint64),
        ("dstXInBytes", c_uint64),
        ("dstY", c_uint64),
        ("dstMemoryType", c_uint32),
        ("dstHost", c_uint64),
        ("dstDevice", c_uint64),
        ("dstArray", c_uint64),
        ("dstPitch", c_uint64),
        ("WidthInBytes", c_uint64),
        ("Height", c_uint64),
    ]


class CUDA_MEMCPY3D(ctypes.Structure):
    """Both sides and the extent of a 3D copy. A pitch is in bytes a row, srcHeight and dstHeight in rows a slice."""

    _fields_ = [
        ("srcXInBytes", c_uint64),
        ("srcY", c_uint64),
        ("srcZ", c_uint64),
        ("srcLOD", c_uint64),
        ("srcMemoryType", c_uint32),
        ("srcHost", c_uint64),
        ("srcDevice", c_uint64),
        ("srcArray", c_uint64),
        ("reserved0", c_uint64),
        ("srcPitch", c_uint64),
        ("srcHeight", c_uint64),
        ("dstXInBytes", c_uint64),
        ("dstY", c_uint64),
        ("dstZ", c_uint64),
        ("dstLOD", c_uint64),
        ("dstMemoryType", c_uint32),
        ("dstHost", c_uint64),
        ("dstDevice", c_uint64),
        ("dstArray", c_uint64),
        ("reserved1", c_uint64),
        ("dstPitch", c_uint64),
        ("dstHeight", c_uint64),
        ("WidthInBytes", c_uint64),
        ("Height", c_uint64),
        ("Depth", c_uint64),
    ]


class CUlaunchConfig(ctypes.Structure):
    """Geometry, stream and attribute list of cuLaunchKernelEx. `attrs` is a pointer of the captured process."""

    _fields_ = [
        ("gridDimX", c_uint32),
        ("gridDimY", c_uint32),
        ("gridDimZ", c_uint32),
        ("blockDimX", c_uint32),
        ("blockDimY", c_uint32),
        ("blockDimZ", c_uint32),
        ("sharedMemBytes", c_uint32),
        ("hStream", c_uint64),
        ("attrs", c_uint64),
        ("numAttrs", c_uint32),
    ]


class _Dimension(ctypes.Structure):
    _fields_ = [("x", c_uint32), ("y", c_uint32), ("z", c_uint32)]


class _AccessPolicyWindow(ctypes.Structure):
    _fields_ = [
        ("base_ptr", c_uint64),
        ("num_bytes", c_uint64),
        ("hitRatio", ctypes.c_float),
        ("hitProp", c_uint32),
        ("missProp", c_uint32),
    ]


class _LaunchEvent(ctypes.Structure):
    _fields_ = [("event", c_uint64), ("flags", c_int32), ("triggerAtBlockStart", c_int32)]


class CUlaunchAttributeValue(ctypes.Union):
    """64 bytes; which member holds depends on the attribute's id."""

    _fields_ = [
        ("pad", c_ubyte * 64),
        ("number", c_int32),  # all the attributes that are one int or enum
        ("accessPolicyWindow", _AccessPolicyWindow),
        ("clusterDim", _Dimension),  # CLUSTER_DIMENSION and PREFERRED_CLUSTER_DIMENSION
        ("event", _LaunchEvent),  # PROGRAMMATIC_EVENT and, without its last field, LAUNCH_COMPLETION_EVENT
    ]


class CUlaunchAttribute(ctypes.Structure):
    """One attribute of a launch."""

    _fields_ = [("id", c_uint32), ("pad", c_ubyte * 4), ("value", CUlaunchAttributeValue)]


class CUDA_RESOURCE_DESC(ctypes.Structure):
    """What a texture or surface object reads: `place` is a CUarray, a CUmipmappedArray or a device address."""

    _fields_ = [
        ("resType", c_uint32),
        ("place", c_uint64),
        ("format", c_uint32),  # this and what follows: of linear and pitched memory
        ("numChannels", c_uint32),
        ("extent", c_uint64 * 3),  # linear: bytes; pitched: width and height in elements, pitch in bytes
        ("reserved", c_ubyte * 88),
        ("flags", c_uint32),
    ]


class ResourceType(enum.IntEnum):
    """CUresourcetype."""

    ARRAY = 0
    MIPMAPPED_ARRAY = 1
    LINEAR = 2
    PITCH2D = 3


class CUmemLocation(ctypes.Structure):
    """type: 1 device, 2 host, 3 host NUMA node, 4 current host NUMA node; id: ordinal of that."""

    _fields_ = [("type", c_uint32), ("id", c_int32)]


class _AllocationFlags(ctypes.Structure):
    _fields_ = [
        ("compressionType", c_ubyte),
        ("gpuDirectRDMACapable", c_ubyte),
        ("usage", c_uint16),
        ("reserved", c_ubyte * 4),
    ]


class CUmemAllocationProp(ctypes.Structure):
    """What cuMemCreate allocates, and where."""

    _fields_ = [
        ("type", c_uint32),
        ("requestedHandleTypes", c_uint32),
        ("location", CUmemLocation),
        ("win32HandleMetaData", c_uint64),
        ("allocFlags", _AllocationFlags),
    ]


class CUmemAccessDesc(ctypes.Structure):
    """Who may access a mapping. flags: 0 none, 1 read, 3 read and write."""

    _fields_ = [("location", CUmemLocation), ("flags", c_uint32)]


STRUCT_BYTES: dict[type[ctypes.Structure], int] = {
    CUDA_MEMCPY2D: 128,
    CUDA_MEMCPY3D: 200,
    CUlaunchConfig: 56,
    CUlaunchAttribute: 72,
    CUDA_RESOURCE_DESC: 144,
    CUmemLocation: 8,
    CUmemAllocationProp: 32,
    CUmemAccessDesc: 12,
}

for _structure, _bytes in STRUCT_BYTES.items():
    assert ctypes.sizeof(_structure) == _bytes, _structure


def read_struct(structure: type[S], data: bytes) -> S:
    """The struct in `data`. Raises ValueError when there are fewer bytes than the struct has."""
    if len(data) < ctypes.sizeof(structure):
        raise ValueError(f"{len(data)} bytes are too few for {structure.__name__}")
    return structure.from_buffer_copy(data)


def read_launch_attributes(data: bytes) -> list[CUlaunchAttribute]:
    """The attributes of a launch, from their bytes one after another. Raises ValueError for a broken length."""
    if len(data) % ctypes.sizeof(CUlaunchAttribute):
        raise ValueError(f"{len(data)} bytes are not a whole number of launch attributes")
    count = len(data) // ctypes.sizeof(CUlaunchAttribute)
    return list((CUlaunchAttribute * count).from_buffer_copy(data))


def geometry(config: CUlaunchConfig) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Grid in blocks, block in threads, and dynamic shared memory in bytes of a launch."""
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    return grid, (config.blockDimX, config.blockDimY, config.blockDimZ), config.sharedMemBytes


def copied_arrays(data: bytes) -> list[int]:
    """The arrays that a CUDA_MEMCPY2D, a CUDA_MEMCPY3D or a CUDA_MEMCPY3D_PEER names; the three are told apart by size,
    and the last two differ only in fields that say nothing of arrays."""
    layout = CUDA_MEMCPY2D if len(data) == STRUCT_BYTES[CUDA_MEMCPY2D] else CUDA_MEMCPY3D
    if len(data) < STRUCT_BYTES[layout]:
        return []
    copy = read_struct(layout, data)
    sides = ((copy.srcMemoryType, copy.srcArray), (copy.dstMemoryType, copy.dstArray))
    return [handle for kind, handle in sides if kind == MemoryType.ARRAY]
