"""NVTX ranges of this process, for a profiler that looks on.

NVTX has no library to link to: each program brings the part that finds a profiler's, whose path is in
NVTX_INJECTION64_PATH, and hands it a table of function pointers to fill in. That is the published interface of
nvtx3/nvtxDetail/nvtxTypes.h, of which this is the program's side, as far as ranges need it. Not yet seen on a GPU
(GT-PROFILERS), that is with ncu or nsys.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

VARIABLE = "NVTX_INJECTION64_PATH"
_ENTRY = "InitializeInjectionNvtx2"

# NvtxExportTableID, NvtxCallbackModule with the number of its functions, NvtxCallbackIdCore; nvToolsExt.h: NVTX_VERSION
_TABLE_CALLBACKS, _TABLE_VERSION = 1, 3
_FUNCTIONS = {1: 16, 2: 9, 3: 15, 4: 7, 5: 16, 6: 7}
_CORE, _PUSH_ASCII, _POP = 1, 9, 11
_NVTX_VERSION = 3

_GetTable = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
)
_SetVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
_GetExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_Push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
_Pop = ctypes.CFUNCTYPE(ctypes.c_int)


class _Callbacks(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("get_table", _GetTable))


class _Version(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("set_version", _SetVersion),
    )


class Nvtx:
    """The ranges; without effect when `unavailable` says why there is no profiler to show them to.

    One for the whole life of the process: the profiler keeps the tables.
    """

    def __init__(self, path: str) -> None:
        self.unavailable = ""
        self._slots = {module: (ctypes.c_void_p * count)() for module, count in _FUNCTIONS.items()}
        # An array of pointers to the slots, whose first entry and the one after the last are null.
        self._tables = {
            module: (ctypes.c_void_p * (len(slots) + 1))(
                None, *(ctypes.addressof(slots) + 8 * number for number in range(1, len(slots)))
            )
            for module, slots in self._slots.items()
        }
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(self._get_table))
        self._version = _Version(ctypes.sizeof(_Version), _NVTX_VERSION, 0, _SetVersion(lambda version: None))
        self._export = _GetExportTable(self._get_export_table)
        self._library: ctypes.CDLL | None = None
        if not path:
            self.unavailable = f"no profiler has set {VARIABLE}"
            return
        try:
            self._library = ctypes.CDLL(path)
            if not getattr(self._library, _ENTRY)(self._export):
                self.unavailable = f"{path} does not want NVTX ranges"
        except (OSError, AttributeError) as error:
            self.unavailable = f"{path}: {error}"

    def _get_table(
        self, module: int, table: ctypes._Pointer[ctypes.c_void_p], size: ctypes._Pointer[ctypes.c_uint]
    ) -> int:
        if module not in self._tables:
            return 0
        if table:
            table[0] = ctypes.addressof(self._tables[module])
        if size:
            size[0] = len(self._slots[module])
        return 1

    def _get_export_table(self, number: int) -> int | None:
        if number == _TABLE_CALLBACKS:
            return ctypes.addressof(self._callbacks)
        return ctypes.addressof(self._version) if number == _TABLE_VERSION else None

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """A range of this thread, by name, in NVTX's default domain."""
        push, pop = self._slots[_CORE][_PUSH_ASCII], self._slots[_CORE][_POP]
        if self.unavailable or not push or not pop:
            yield
            return
        _Push(push)(name.encode())
        try:
            yield
        finally:
            _Pop(pop)()


@cache
def nvtx() -> Nvtx:
    """The ranges of this process."""
    return Nvtx(os.environ.get(VARIABLE, ""))
