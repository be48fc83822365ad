"""Prepares the process of a command that packs and ends. Import nothing here that brings numpy."""

from __future__ import annotations

import ctypes
import gc
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
_LINEAR_ALGEBRA_THREADS = "OPENBLAS_NUM_THREADS"


def import_numpy_without_threads() -> None:
    """Import numpy, without the threads that its linear algebra starts at once and that nothing here needs: they spin.

    The environment stays as it is: an application under capture inherits it.
    """
    if _LINEAR_ALGEBRA_THREADS in os.environ:
        return
    os.environ[_LINEAR_ALGEBRA_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_LINEAR_ALGEBRA_THREADS]


def prepare_to_pack() -> None:
    """Settle the memory of a process that is about to pack. It holds for the whole process and raises what that keeps.

    The C library uses freed blocks of a few megabytes again instead of giving each back to the kernel: packing asks for
    one after the other, and their page faults took a fifth of its time. Does nothing where there is no mallopt.
    The collector of cyclic garbage leaves out what was imported and comes less often: packing makes no cycles.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    for parameter, value in (
        (_M_ARENA_MAX, 1),
        (_M_MMAP_THRESHOLD, 32 << 20),
        (_M_TRIM_THRESHOLD, 512 << 20),
    ):
        mallopt(parameter, value)
