"""The structs of shaped copies (CUDA_MEMCPY2D, CUDA_MEMCPY3D)."""

from __future__ import annotations

import ctypes

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4


class Copy2D(ctypes.Structure):
    _fields_ = [
        *[(f"{side}_{name}", kind) for side in ("source", "destination") for name, kind in (
            ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p),
            ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t))],
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]  # fmt: skip


class Copy3D(ctypes.Structure):
    _fields_ = [
        *[(f"{side}_{name}", kind) for side in ("source", "destination") for name, kind in (
            ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("lod", ctypes.c_size_t),
            ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64),
            ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p), ("pitch", ctypes.c_size_t),
            ("height", ctypes.c_size_t))],
        ("width", ctypes.c_size_t),
        ("rows", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    ]  # fmt: skip
