"""The exceptions to generic execution: calls whose arguments the table alone cannot rebuild.

The counterpart of `interposer/call/exceptions.c`, by the same families; which parts a call has stands in
`replay/raw/FORMAT.md`. Each function gets the executor, the call being prepared and its row, and returns the
arguments it has rebuilt, by parameter name; the others are built generically.
"""

from __future__ import annotations

from replay.engine.execution.custom import arrays, copies, graphs, launches, memory, modules, pools, resources
from replay.engine.execution.custom.common import Rebuild

EXCEPTIONS: dict[str, Rebuild] = {
    **arrays.EXCEPTIONS,
    **launches.EXCEPTIONS,
    **modules.EXCEPTIONS,
    **copies.EXCEPTIONS,
    **resources.EXCEPTIONS,
    **graphs.EXCEPTIONS,
    **memory.EXCEPTIONS,
    **pools.EXCEPTIONS,
}

# Functions for which something else may stand where the driver lacks them.
MAY_BE_MISSING = frozenset(resources.EXCEPTIONS) | pools.MAY_BE_MISSING
missing = resources.unavailable
concerns_managed = memory.concerns_managed
POOL_FUNCTIONS = pools.FUNCTIONS

# Files of the application are not here; their contents were captured and are loaded from memory.
# So are events of another process.
INSTEAD = {
    "cuModuleLoad": "cuModuleLoadData",
    "cuLibraryLoadFromFile": "cuLibraryLoadData",
    "cuIpcOpenEventHandle": "cuEventCreate",
    **dict.fromkeys(("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"), "cuLaunchKernel"),
}

_IMAGE_ADVICE = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the image has no code for this device and no PTX; replay on the architecture "
    "it was captured on, or capture a build that includes PTX",
    "CUDA_ERROR_INVALID_PTX": "the PTX is damaged, or uses what this driver or device does not have",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the PTX is newer than this driver; use a newer driver",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": "this driver lacks its PTX compiler; install it completely",
}


_GETTERS = ("cuModuleGetFunction", "cuModuleGetGlobal_v2", "cuLibraryGetKernel", "cuLibraryGetGlobal")


def advice(function: str, error: str) -> str | None:
    """What to do about a failed call that succeeded in the application."""
    if error == "CUDA_ERROR_NOT_FOUND" and function in _GETTERS:
        return "the image is another one than was loaded there; `replay verify` checks the file"
    return _IMAGE_ADVICE.get(error)
