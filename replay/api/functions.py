"""The table: what each driver function means. Every other list of functions in this project is made from it.

A row says only what the headers cannot: when a call is recorded, what it does to memory, and the roles of pointers
whose C type does not tell. A function of the headers that has no row is *unlisted*: the shim passes it through and
notes its name when it is called inside a window.

Ids are append-only: they stand in captures. Never reuse or renumber one.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

from .rows import (
    CUSTOM,
    HOST,
    IMAGE,
    OPAQUE,
    ROWS,
    F,
    function_of,
    host_read,
    host_write,
    inputs,
    outputs,
)
from .vocabulary import Effect, Function, Keep

NEVER, WINDOW, ALWAYS = Keep.NEVER, Keep.WINDOW, Keep.ALWAYS

# ---- initialisation, version, lookup ----------------------------------------------------------------------

F(1, "cuInit", ALWAYS)
F(2, "cuDriverGetVersion", NEVER)
F(3, "cuGetProcAddress", NEVER, custom=True)
F(4, "cuGetProcAddress_v2", NEVER, custom=True)
F(5, "cuGetExportTable", NEVER)
F(6, "cuGetErrorName", NEVER)
F(7, "cuGetErrorString", NEVER)
F(8, "cuProfilerStart", ALWAYS)  # a selection may begin and end with these
F(9, "cuProfilerStop", ALWAYS)

# ---- devices ----------------------------------------------------------------------------------------------

F(20, "cuDeviceGet", NEVER)
F(21, "cuDeviceGetCount", NEVER)
F(22, "cuDeviceGetName", NEVER)
F(23, "cuDeviceGetAttribute", NEVER)
F(24, "cuDeviceGetUuid", NEVER)
F(25, "cuDeviceGetUuid_v2", NEVER)
F(26, "cuDeviceTotalMem_v2", NEVER)
F(27, "cuDeviceComputeCapability", NEVER)
F(28, "cuDeviceGetProperties", NEVER)
F(29, "cuDeviceGetPCIBusId", NEVER)
F(30, "cuDeviceGetByPCIBusId", NEVER)
F(31, "cuDeviceGetLuid", NEVER)
F(32, "cuDeviceCanAccessPeer", NEVER)
F(33, "cuDeviceGetP2PAttribute", NEVER)
F(34, "cuDeviceGetDefaultMemPool", ALWAYS)
F(35, "cuDeviceGetMemPool", ALWAYS)
F(36, "cuDeviceSetMemPool", ALWAYS)
F(37, "cuDeviceGetTexture1DLinearMaxWidth", NEVER)
F(38, "cuDeviceGetExecAffinitySupport", NEVER)

# ---- contexts ---------------------------------------------------------------------------------------------

F(50, "cuDevicePrimaryCtxRetain", ALWAYS)
F(51, "cuDevicePrimaryCtxRelease_v2", ALWAYS, Effect.END_OF_CONTEXT)
F(52, "cuDevicePrimaryCtxReset_v2", ALWAYS, Effect.END_OF_CONTEXT)
F(53, "cuDevicePrimaryCtxSetFlags_v2", ALWAYS)
F(54, "cuDevicePrimaryCtxGetState", NEVER)
F(55, "cuCtxCreate_v2", ALWAYS)
F(56, "cuCtxCreate_v3", ALWAYS, paramsArray=inputs("numParams"))
F(57, "cuCtxCreate_v4", ALWAYS, ctxCreateParams=CUSTOM, custom=True)
F(58, "cuCtxDestroy_v2", ALWAYS, Effect.END_OF_CONTEXT)
F(59, "cuCtxPushCurrent_v2", ALWAYS)
F(60, "cuCtxPopCurrent_v2", ALWAYS)
F(61, "cuCtxSetCurrent", ALWAYS)
F(62, "cuCtxGetCurrent", NEVER)
F(63, "cuCtxGetDevice", NEVER)
F(64, "cuCtxGetFlags", NEVER)
F(65, "cuCtxSetFlags", ALWAYS)
F(66, "cuCtxGetId", NEVER)
F(67, "cuCtxSynchronize", WINDOW)
F(68, "cuCtxSetLimit", ALWAYS)
F(69, "cuCtxGetLimit", NEVER)
F(70, "cuCtxGetCacheConfig", NEVER)
F(71, "cuCtxSetCacheConfig", ALWAYS)
F(72, "cuCtxGetApiVersion", NEVER)
F(73, "cuCtxGetStreamPriorityRange", NEVER)
F(74, "cuCtxResetPersistingL2Cache", WINDOW)
F(75, "cuCtxGetExecAffinity", NEVER)
F(76, "cuCtxEnablePeerAccess", ALWAYS)
F(77, "cuCtxDisablePeerAccess", ALWAYS)
F(78, "cuCtxSetSharedMemConfig", ALWAYS)
F(79, "cuCtxGetSharedMemConfig", NEVER)
F(80, "cuCtxGetDevice_v2", NEVER)
F(81, "cuCtxSynchronize_v2", WINDOW)
F(82, "cuCtxAttach", ALWAYS)
F(83, "cuCtxDetach", ALWAYS, Effect.END_OF_CONTEXT)
F(84, "cuCtxRecordEvent", WINDOW)
F(85, "cuCtxWaitEvent", WINDOW)

# ---- modules, libraries, functions ------------------------------------------------------------------------

_JIT: dict[str, Any] = {"options": inputs("numOptions"), "optionValues": inputs("numOptions")}
_LIBRARY: dict[str, Any] = {
    "jitOptions": inputs("numJitOptions"),
    "jitOptionsValues": inputs("numJitOptions"),
    "libraryOptions": inputs("numLibraryOptions"),
    "libraryOptionValues": inputs("numLibraryOptions"),
}

F(100, "cuModuleLoad", ALWAYS, custom=True)
F(101, "cuModuleLoadData", ALWAYS, image=IMAGE)
F(102, "cuModuleLoadDataEx", ALWAYS, image=IMAGE, custom=True, **_JIT)
F(103, "cuModuleLoadFatBinary", ALWAYS, fatCubin=IMAGE)
F(104, "cuModuleUnload", ALWAYS, Effect.DESTROY, "hmod")
F(105, "cuModuleGetFunction", ALWAYS)
F(106, "cuModuleGetGlobal_v2", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom=True)
F(107, "cuModuleGetLoadingMode", NEVER)
F(108, "cuModuleGetFunctionCount", NEVER)
F(109, "cuModuleEnumerateFunctions", ALWAYS, functions=outputs("numFunctions"))
F(110, "cuLibraryLoadData", ALWAYS, code=IMAGE, custom=True, **_LIBRARY)
F(111, "cuLibraryLoadFromFile", ALWAYS, custom=True, **_LIBRARY)
F(112, "cuLibraryUnload", ALWAYS, Effect.DESTROY, "library")
F(113, "cuLibraryGetKernel", ALWAYS)
F(114, "cuLibraryGetModule", ALWAYS)
F(115, "cuLibraryGetGlobal", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom=True)
F(116, "cuLibraryGetManaged", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom=True)
F(117, "cuLibraryGetKernelCount", NEVER)
F(118, "cuLibraryEnumerateKernels", ALWAYS, kernels=outputs("numKernels"))
F(119, "cuKernelGetFunction", ALWAYS)
F(120, "cuKernelGetLibrary", NEVER)
F(121, "cuKernelGetAttribute", NEVER)
F(122, "cuKernelSetAttribute", ALWAYS)
F(123, "cuKernelSetCacheConfig", ALWAYS)
F(124, "cuKernelGetName", NEVER)
F(125, "cuKernelGetParamInfo", NEVER)
F(126, "cuFuncGetAttribute", NEVER)
F(127, "cuFuncSetAttribute", ALWAYS)
F(128, "cuFuncSetCacheConfig", ALWAYS)
F(129, "cuFuncSetSharedMemConfig", ALWAYS)
F(130, "cuFuncGetModule", ALWAYS)
F(131, "cuFuncGetName", NEVER)
F(132, "cuFuncGetParamInfo", NEVER)
F(133, "cuFuncIsLoaded", NEVER)
F(134, "cuFuncLoad", ALWAYS)
F(135, "cuKernelGetParamCount", NEVER)
F(136, "cuFuncGetParamCount", NEVER)

# ---- device memory ----------------------------------------------------------------------------------------

F(150, "cuMemAlloc_v2", ALWAYS, Effect.ALLOC, "dptr", "bytesize")
F(151, "cuMemAllocPitch_v2", ALWAYS, Effect.ALLOC, "dptr", "pPitch*Height")
F(152, "cuMemAllocManaged", ALWAYS, Effect.MANAGED_ALLOC, "dptr", "bytesize")
F(153, "cuMemFree_v2", ALWAYS, Effect.FREE, "dptr")
F(154, "cuMemGetInfo_v2", NEVER)
F(155, "cuMemGetAddressRange_v2", NEVER)
F(156, "cuMemAllocAsync", ALWAYS, Effect.ALLOC, "dptr", "bytesize")
F(157, "cuMemAllocFromPoolAsync", ALWAYS, Effect.ALLOC, "dptr", "bytesize")
F(158, "cuMemFreeAsync", ALWAYS, Effect.FREE, "dptr")
F(159, "cuMemPoolCreate", ALWAYS)
F(160, "cuMemPoolDestroy", ALWAYS, Effect.DESTROY, "pool")
F(161, "cuMemPoolTrimTo", ALWAYS)
F(162, "cuMemPoolSetAttribute", ALWAYS, value=inputs("8"))
F(163, "cuMemPoolGetAttribute", NEVER)
F(164, "cuMemPoolSetAccess", ALWAYS, map=inputs("count"))
F(165, "cuMemPoolGetAccess", NEVER)
F(166, "cuMemAddressReserve", ALWAYS)
F(167, "cuMemAddressFree", ALWAYS)
F(168, "cuMemCreate", ALWAYS)
F(169, "cuMemRelease", ALWAYS, Effect.DESTROY, "handle")
F(170, "cuMemMap", ALWAYS, Effect.MAP, "ptr", "size")
F(171, "cuMemUnmap", ALWAYS, Effect.UNMAP, "ptr", "size")
F(172, "cuMemSetAccess", ALWAYS, desc=inputs("count"))
F(173, "cuMemGetAccess", NEVER)
F(174, "cuMemGetAllocationGranularity", NEVER)
F(175, "cuMemGetAllocationPropertiesFromHandle", NEVER)
F(176, "cuMemRetainAllocationHandle", ALWAYS, addr=HOST)
F(177, "cuMemAdvise", ALWAYS)
F(178, "cuMemAdvise_v2", ALWAYS)
F(179, "cuMemPrefetchAsync", WINDOW)
F(180, "cuMemPrefetchAsync_v2", WINDOW)
F(181, "cuMemRangeGetAttribute", NEVER)
F(182, "cuMemRangeGetAttributes", NEVER)
F(183, "cuPointerGetAttribute", NEVER)
F(184, "cuPointerGetAttributes", NEVER)
F(185, "cuPointerSetAttribute", NEVER)
F(186, "cuMemGetMemPool", ALWAYS, location=inputs("1"))
F(187, "cuMemGetDefaultMemPool", ALWAYS, location=inputs("1"))
F(188, "cuMemSetMemPool", ALWAYS, location=inputs("1"))

# ---- host memory ------------------------------------------------------------------------------------------

F(200, "cuMemAllocHost_v2", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(201, "cuMemHostAlloc", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(202, "cuMemFreeHost", ALWAYS, Effect.HOST_FREE, "p", p=HOST)
F(203, "cuMemHostRegister_v2", ALWAYS, Effect.HOST_REGISTER, "p", "bytesize", p=HOST)
F(204, "cuMemHostUnregister", ALWAYS, Effect.HOST_UNREGISTER, "p", p=HOST)
F(205, "cuMemHostGetDevicePointer_v2", ALWAYS, p=HOST)
F(206, "cuMemHostGetFlags", NEVER)

# ---- copies and fills -------------------------------------------------------------------------------------

F(220, "cuMemcpyHtoD_v2", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"))
F(221, "cuMemcpyHtoDAsync_v2", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"))
F(222, "cuMemcpyDtoH_v2", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"),
  synchronizes=True)  # fmt: skip
F(223, "cuMemcpyDtoHAsync_v2", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"))
F(224, "cuMemcpyDtoD_v2", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(225, "cuMemcpyDtoDAsync_v2", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(226, "cuMemcpy", WINDOW, Effect.COPY, "dst", "src", "ByteCount", custom=True)
F(227, "cuMemcpyAsync", WINDOW, Effect.COPY, "dst", "src", "ByteCount", custom=True)
F(228, "cuMemcpyPeer", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(229, "cuMemcpyPeerAsync", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(230, "cuMemcpy2D_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True, synchronizes=True)
F(231, "cuMemcpy2DUnaligned_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True, synchronizes=True)
F(232, "cuMemcpy2DAsync_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True)
F(233, "cuMemcpy3D_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True, synchronizes=True)
F(234, "cuMemcpy3DAsync_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True)
F(240, "cuMemsetD8_v2", WINDOW, Effect.WRITE, "dstDevice", "N")
F(241, "cuMemsetD16_v2", WINDOW, Effect.WRITE, "dstDevice", "N*2")
F(242, "cuMemsetD32_v2", WINDOW, Effect.WRITE, "dstDevice", "N*4")
F(243, "cuMemsetD8Async", WINDOW, Effect.WRITE, "dstDevice", "N")
F(244, "cuMemsetD16Async", WINDOW, Effect.WRITE, "dstDevice", "N*2")
F(245, "cuMemsetD32Async", WINDOW, Effect.WRITE, "dstDevice", "N*4")
F(246, "cuMemsetD2D8_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")
F(247, "cuMemsetD2D16_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")
F(248, "cuMemsetD2D32_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")
F(249, "cuMemsetD2D8Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")
F(250, "cuMemsetD2D16Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")
F(251, "cuMemsetD2D32Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height")

# ---- streams ----------------------------------------------------------------------------------------------

F(270, "cuStreamCreate", ALWAYS)
F(271, "cuStreamCreateWithPriority", ALWAYS)
F(272, "cuStreamDestroy_v2", ALWAYS, Effect.DESTROY, "hStream")
F(273, "cuStreamSynchronize", WINDOW)
F(274, "cuStreamQuery", WINDOW)
F(275, "cuStreamWaitEvent", WINDOW)
F(276, "cuStreamGetPriority", NEVER)
F(277, "cuStreamGetFlags", NEVER)
F(278, "cuStreamGetId", NEVER)
F(279, "cuStreamGetCtx", NEVER)
F(280, "cuStreamGetDevice", NEVER)
F(281, "cuStreamSetAttribute", ALWAYS)
F(282, "cuStreamGetAttribute", NEVER)
F(283, "cuStreamCopyAttributes", ALWAYS)
F(284, "cuStreamAttachMemAsync", ALWAYS)
F(285, "cuStreamWriteValue32_v2", WINDOW, Effect.WRITE, "addr", "4")
F(286, "cuStreamWaitValue32_v2", WINDOW, Effect.READ, "addr", "4")
F(287, "cuStreamWriteValue64_v2", WINDOW, Effect.WRITE, "addr", "8")
F(288, "cuStreamWaitValue64_v2", WINDOW, Effect.READ, "addr", "8")
F(289, "cuStreamIsCapturing", NEVER)
F(290, "cuStreamGetCaptureInfo_v2", NEVER)
F(291, "cuStreamGetCaptureInfo_v3", NEVER)
F(292, "cuThreadExchangeStreamCaptureMode", NEVER)
F(
    293,
    "cuStreamBeginCapture_v2",
    WINDOW,
    Effect.BEGIN_CAPTURE,
    unsupported="stream capture is not replayed yet",
)
F(294, "cuStreamEndCapture", WINDOW, Effect.END_CAPTURE, unsupported="stream capture is not replayed yet")
F(
    295,
    "cuStreamAddCallback",
    WINDOW,
    userData=OPAQUE,
    unsupported="host callbacks are the application's own code",
)
F(
    296,
    "cuLaunchHostFunc",
    WINDOW,
    userData=OPAQUE,
    unsupported="host functions are the application's own code",
)
F(297, "cuStreamGetCtx_v2", NEVER)
F(298, "cuStreamGetCaptureInfo", NEVER)
F(299, "cuStreamBeginCaptureToGraph", WINDOW, Effect.BEGIN_CAPTURE, dependencies=inputs("numDependencies"),
  dependencyData=OPAQUE, unsupported="stream capture is not replayed yet")  # fmt: skip

# ---- events -----------------------------------------------------------------------------------------------

F(310, "cuEventCreate", ALWAYS)
F(311, "cuEventDestroy_v2", ALWAYS, Effect.DESTROY, "hEvent")
F(312, "cuEventRecord", WINDOW)
F(313, "cuEventRecordWithFlags", WINDOW)
F(314, "cuEventSynchronize", WINDOW)
F(315, "cuEventQuery", WINDOW)
F(316, "cuEventElapsedTime", NEVER)
F(317, "cuEventElapsedTime_v2", NEVER)

# ---- launches and occupancy -------------------------------------------------------------------------------

_LAUNCH: dict[str, Any] = {"kernelParams": CUSTOM, "custom": True}

F(330, "cuLaunchKernel", WINDOW, Effect.LAUNCH, "f", extra=CUSTOM, **_LAUNCH)
F(331, "cuLaunchKernelEx", WINDOW, Effect.LAUNCH, "f", config=CUSTOM, extra=CUSTOM, **_LAUNCH)
F(332, "cuLaunchCooperativeKernel", WINDOW, Effect.LAUNCH, "f", **_LAUNCH)
F(340, "cuOccupancyMaxActiveBlocksPerMultiprocessor", NEVER)
F(341, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", NEVER)
F(342, "cuOccupancyMaxPotentialBlockSize", NEVER)
F(343, "cuOccupancyMaxPotentialBlockSizeWithFlags", NEVER)
F(344, "cuOccupancyAvailableDynamicSMemPerBlock", NEVER)
F(345, "cuOccupancyMaxActiveClusters", NEVER)
F(346, "cuOccupancyMaxPotentialClusterSize", NEVER)

# ---- linking: what it makes reaches the driver again as an image, so the steps need no record -------------

F(360, "cuLinkCreate_v2", NEVER)
F(361, "cuLinkAddData_v2", NEVER)
F(362, "cuLinkAddFile_v2", NEVER)
F(363, "cuLinkComplete", NEVER)
F(364, "cuLinkDestroy", NEVER)

# ---- tensor maps: host-side encoders, the result travels inside kernel parameters -------------------------

F(370, "cuTensorMapEncodeTiled", NEVER)
F(371, "cuTensorMapEncodeIm2col", NEVER)
F(372, "cuTensorMapEncodeIm2colWide", NEVER)
F(373, "cuTensorMapReplaceAddress", NEVER)

# ---- logs and diagnostics of the driver -------------------------------------------------------------------

F(380, "cuLogsRegisterCallback", NEVER)
F(381, "cuLogsUnregisterCallback", NEVER)
F(382, "cuLogsCurrent", NEVER)
F(383, "cuLogsDumpToFile", NEVER)
F(384, "cuLogsDumpToMemory", NEVER)
F(385, "cuCoredumpGetAttribute", NEVER)
F(386, "cuCoredumpGetAttributeGlobal", NEVER)
F(387, "cuCoredumpSetAttribute", NEVER)
F(388, "cuCoredumpSetAttributeGlobal", NEVER)


@lru_cache(maxsize=1)
def all_functions() -> tuple[Function, ...]:
    """Every driver function of the headers, per-thread twins folded into their base, in the order of their symbols.

    Raises ValueError when a row contradicts the headers.
    """
    document = json.loads(resources.files(__package__).joinpath("facts.json").read_text())
    facts: dict[str, dict[str, Any]] = document["functions"]
    rows = {row[1]: row for row in ROWS}
    if len(rows) != len(ROWS) or len({row[0] for row in ROWS}) != len(ROWS):
        raise ValueError("the table lists a symbol or an id twice")
    if missing := rows.keys() - facts.keys():
        raise ValueError(f"the headers have no {', '.join(sorted(missing))}")
    functions = []
    for symbol, fact in facts.items():
        if fact["per_thread"]:
            continue
        twin = next(
            (
                {"symbol": name, **facts[name]}
                for name in (f"{symbol}_ptsz", f"{symbol}_ptds")
                if name in facts
            ),
            None,
        )
        functions.append(function_of(rows.get(symbol), symbol, fact, document["types"], twin))
    return tuple(functions)


@lru_cache(maxsize=1)
def listed_functions() -> tuple[Function, ...]:
    """The functions that have a row, in the order of their ids."""
    return tuple(
        sorted((function for function in all_functions() if function.id), key=lambda function: function.id)
    )


@lru_cache(maxsize=1)
def by_symbol() -> dict[str, Function]:
    """Every driver function by its symbol; a per-thread twin gives the function of its base."""
    table = {function.symbol: function for function in all_functions()}
    table.update({function.twin: function for function in all_functions() if function.twin})
    return table


@lru_cache(maxsize=1)
def by_id() -> dict[int, Function]:
    """The listed functions by id."""
    return {function.id: function for function in listed_functions()}
