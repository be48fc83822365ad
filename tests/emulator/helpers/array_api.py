"""The structs of arrays, textures and surfaces, and arrays made with them."""

from __future__ import annotations

import ctypes

import driver_api as api
from driver_api import Driver

U8, U16, U32, HALF, FLOAT, NV12, UNORM8X4, BC1 = 1, 2, 3, 0x10, 0x20, 0xB0, 0xC2, 0x91
LAYERED, SURFACE, CUBEMAP, GATHER, SPARSE = 1, 2, 4, 8, 0x40


class Flat(ctypes.Structure):
    _fields_ = [
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
    ]


class Box(ctypes.Structure):
    _fields_ = [
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("flags", ctypes.c_uint),
    ]


class Resource(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("words", ctypes.c_uint64 * 16), ("flags", ctypes.c_uint)]


class Texture(ctypes.Structure):
    _fields_ = [
        ("address_mode", ctypes.c_int * 3),
        ("filter_mode", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("max_anisotropy", ctypes.c_uint),
        ("mipmap_filter_mode", ctypes.c_int),
        ("level", ctypes.c_float * 3),
        ("border", ctypes.c_float * 4),
        ("reserved", ctypes.c_int * 12),
    ]


def create(cuda: Driver, *shape: int, kind: int = U8, channels: int = 1, flags: int = 0) -> int:
    width, height, depth = (*shape, 0, 0)[:3]
    return cuda.make("cuArray3DCreate_v2", api.out(Box(width, height, depth, kind, channels, flags)))
