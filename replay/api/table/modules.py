"""Modules, libraries, functions, and linking."""

from __future__ import annotations

from typing import Any

from replay.api.rows import ALWAYS, IMAGE, NEVER, F, inputs, outputs
from replay.api.vocabulary import Effect

# fmt: off

# ---- modules, libraries, functions ------------------------------------------------------------------------

_JIT: dict[str, Any] = {"options": inputs("numOptions"), "optionValues": inputs("numOptions")}
_LIBRARY: dict[str, Any] = {
    "jitOptions": inputs("numJitOptions"),
    "jitOptionsValues": inputs("numJitOptions"),
    "libraryOptions": inputs("numLibraryOptions"),
    "libraryOptionValues": inputs("numLibraryOptions"),
}

F(100, "cuModuleLoad", ALWAYS, custom="module_file", creates="CUmodule", enter="load_file_enter")
F(101, "cuModuleLoadData", ALWAYS, image=IMAGE, creates="CUmodule")
F(102, "cuModuleLoadDataEx", ALWAYS, image=IMAGE, custom="module", creates="CUmodule", **_JIT)
F(103, "cuModuleLoadFatBinary", ALWAYS, fatCubin=IMAGE, creates="CUmodule")
F(104, "cuModuleUnload", ALWAYS, Effect.DESTROY, "hmod")
F(105, "cuModuleGetFunction", ALWAYS)
F(106, "cuModuleGetGlobal_v2", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom="variable", leave="variable_leave")
F(107, "cuModuleGetLoadingMode", NEVER)
F(108, "cuModuleGetFunctionCount", NEVER)
F(109, "cuModuleEnumerateFunctions", ALWAYS, functions=outputs("numFunctions"))
F(110, "cuLibraryLoadData", ALWAYS, code=IMAGE, custom="library", creates="CUlibrary", **_LIBRARY)
F(111, "cuLibraryLoadFromFile", ALWAYS, custom="library_file", creates="CUlibrary", enter="load_file_enter", **_LIBRARY)
F(112, "cuLibraryUnload", ALWAYS, Effect.DESTROY, "library")
F(113, "cuLibraryGetKernel", ALWAYS)
F(114, "cuLibraryGetModule", ALWAYS)
F(115, "cuLibraryGetGlobal", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom="variable", leave="variable_leave")
F(116, "cuLibraryGetManaged", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom="variable", managed=True,
  leave="variable_leave")
F(117, "cuLibraryGetKernelCount", NEVER)
F(118, "cuLibraryEnumerateKernels", ALWAYS, kernels=outputs("numKernels"))
F(119, "cuKernelGetFunction", ALWAYS)
F(120, "cuKernelGetLibrary", NEVER)
F(121, "cuKernelGetAttribute", NEVER)
F(122, "cuKernelSetAttribute", ALWAYS, sets="val", getter="cuKernelGetAttribute")
F(123, "cuKernelSetCacheConfig", ALWAYS, may_fail=True, sets="config")
F(124, "cuKernelGetName", NEVER)
F(125, "cuKernelGetParamInfo", NEVER)
F(126, "cuFuncGetAttribute", NEVER)
F(127, "cuFuncSetAttribute", ALWAYS, sets="value", getter="cuFuncGetAttribute")
F(128, "cuFuncSetCacheConfig", ALWAYS, may_fail=True, sets="config")
F(129, "cuFuncSetSharedMemConfig", ALWAYS, may_fail=True, sets="config")
F(130, "cuFuncGetModule", ALWAYS)
F(131, "cuFuncGetName", NEVER)
F(132, "cuFuncGetParamInfo", NEVER)
F(133, "cuFuncIsLoaded", NEVER)
F(134, "cuFuncLoad", ALWAYS)
F(135, "cuKernelGetParamCount", NEVER)
F(136, "cuFuncGetParamCount", NEVER)
F(1120, "cuLibraryGetUnifiedFunction", NEVER,
  unsupported="gives the address of a function's code, which differs in a replay")

# ---- linking: what it makes reaches the driver again as an image, so the steps need no record -------------

F(360, "cuLinkCreate_v2", NEVER)
F(361, "cuLinkAddData_v2", NEVER)
F(362, "cuLinkAddFile_v2", NEVER)
F(363, "cuLinkComplete", NEVER)
F(364, "cuLinkDestroy", NEVER)
