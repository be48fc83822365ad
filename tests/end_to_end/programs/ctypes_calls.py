"""Driver calls through ctypes alone, for programs that pass numbers as the driver's own types need them."""

from __future__ import annotations

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    """A driver call that must succeed; a Python number is passed as 64 bits."""
    words = [ctypes.c_uint64(word) if isinstance(word, int) else word for word in arguments]
    result = getattr(cuda, name)(*words)
    if result:
        sys.exit(f"{name} returned {result}")


def made(name: str, *arguments: object) -> int:
    """The handle or address that a call gave through its first argument."""
    handle = ctypes.c_uint64(0)
    call(name, ctypes.byref(handle), *arguments)
    return handle.value
