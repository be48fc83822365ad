"""C++ names as people write them, through the C++ runtime that is installed (`__cxa_demangle`).

Only for names of an application on this machine: a hostile name can make the C++ runtime take unbounded time. What
reads a stranger's snapshot shows the demangled name that is stored in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache

MAX_NAME_BYTES = 64 << 10


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """`_Z6vecAddPf` as `vecAdd(float*)`. The name itself when it is not mangled or no C++ runtime is installed."""
    if not name.startswith("_Z") or len(name) > MAX_NAME_BYTES or "\0" in name:
        return name
    function = _runtime()
    return (function(name) if function else None) or name


def short_name(demangled: str) -> str:
    """`void ns::kernel<float, 4>(float*, int)` as `kernel`: for columns that have no room for more."""
    depth = 0
    end = len(demangled)
    # From the end: leave out the parameter list and template arguments, keep what is before them.
    for index in range(len(demangled) - 1, -1, -1):
        character = demangled[index]
        if character in ")>":
            depth += 1
        elif character in "(<":
            depth -= 1
            if depth == 0:
                end = index
        elif depth == 0 and (character == " " or demangled[index - 1 : index + 1] == "::"):
            return demangled[index + 1 : end] or demangled
    return demangled[:end] or demangled


@cache
def _runtime() -> Callable[[str], str | None] | None:
    for library in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
            free = ctypes.CDLL(None).free
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        free.restype = None
        free.argtypes = [ctypes.c_void_p]

        return _caller(function, free)
    return None


def _caller(function: Callable[..., int | None], free: Callable[[int], None]) -> Callable[[str], str | None]:
    def call(name: str) -> str | None:
        status = ctypes.c_int()
        address = function(name.encode("utf-8", "surrogateescape"), None, None, ctypes.byref(status))
        if not address:
            return None
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            free(address)

    return call
