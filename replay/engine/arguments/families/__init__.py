"""Families of functions whose arguments the table alone cannot rebuild.

The counterpart of `interposer/arguments`, by the same families; `replay/raw/FORMAT.md` says which parts a call
has. Each function gets the builder, the call being prepared and its row, and returns the
arguments it has rebuilt, by parameter name; the others are built generically.
"""

from __future__ import annotations

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.arguments.builder import Rebuild
from replay.engine.arguments.families import (
    arrays,
    copies,
    graphs,
    launches,
    managed,
    modules,
    pools,
    resources,
)

# By the name that a row of the table has for them
BUILDERS: dict[str, Rebuild] = {
    **arrays.BUILDERS,
    **launches.BUILDERS,
    **modules.BUILDERS,
    **copies.BUILDERS,
    **resources.BUILDERS,
    **graphs.BUILDERS,
    **managed.BUILDERS,
    **pools.BUILDERS,
}

# Of functions that a driver may lack: a replay does something else in their place, or loses nothing.
MAY_BE_MISSING = frozenset((*resources.BUILDERS, "pool_location"))
missing = resources.unavailable
concerns_managed = managed.concerns_managed

# Files of the application are not here; their contents were captured and are loaded from memory.
# So are events of another process.
INSTEAD = {
    "cuModuleLoad": "cuModuleLoadData",
    "cuLibraryLoadFromFile": "cuLibraryLoadData",
    "cuIpcOpenEventHandle": "cuEventCreate",
}

_IMAGE_ADVICE = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the image has no code for this device and no PTX; replay on the architecture "
    "it was captured on, or capture a build that includes PTX",
    "CUDA_ERROR_INVALID_PTX": "the PTX is damaged, or uses what this driver or device does not have",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the PTX is newer than this driver; use a newer driver",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": "this driver lacks its PTX compiler; install it completely",
}


def advice(function: str, error: str) -> str | None:
    """What to do about a failed call that succeeded in the application."""
    row = by_symbol()[function]
    if error == "CUDA_ERROR_NOT_FOUND" and (row.gives_kernels or row.effect == Effect.GLOBAL):
        return "the image is another one than was loaded there; `replay verify` checks the file"
    return _IMAGE_ADVICE.get(error)
