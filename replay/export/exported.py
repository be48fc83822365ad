"""The one table of driver functions that an exported program may call, and what is special about them.

A snapshot whose window needs any other function is refused by its name.
"""

from __future__ import annotations

_PLAIN = """
cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleUnload cuModuleGetFunction
cuModuleGetGlobal_v2 cuLibraryLoadData cuLibraryUnload cuLibraryGetKernel cuLibraryGetModule cuLibraryGetGlobal
cuLibraryGetManaged cuKernelGetFunction cuFuncSetAttribute cuKernelSetAttribute cuFuncSetCacheConfig
cuKernelSetCacheConfig cuFuncLoad
cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel
cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamWaitEvent cuStreamQuery
cuEventCreate cuEventRecord cuEventRecordWithFlags cuEventSynchronize cuEventDestroy_v2 cuEventQuery
cuCtxSynchronize cuCtxSetLimit cuCtxEnablePeerAccess cuCtxDisablePeerAccess
cuStreamWaitValue32_v2 cuStreamWaitValue64_v2 cuStreamWriteValue32_v2 cuStreamWriteValue64_v2 cuStreamBatchMemOp_v2
cuMemcpy cuMemcpyAsync cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoD_v2
cuMemcpyDtoDAsync_v2 cuMemcpyPeer cuMemcpyPeerAsync
cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy2DAsync_v2 cuMemcpy3D_v2 cuMemcpy3DAsync_v2
cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2 cuMemsetD2D8_v2 cuMemsetD2D16_v2 cuMemsetD2D32_v2
cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async
cuArrayCreate_v2 cuArray3DCreate_v2 cuArrayDestroy cuTexObjectCreate cuTexObjectDestroy cuSurfObjectCreate
cuSurfObjectDestroy cuMipmappedArrayCreate cuMipmappedArrayGetLevel cuMipmappedArrayDestroy
"""

FUNCTIONS = frozenset(_PLAIN.split())

# What a replay needs of them happens otherwise: memory is placed whatever pool it came from, the context is the
# program's own, and graphs are launched node by node, so that only the work of their nodes reaches the driver.
ANSWERED = (
    "cuInit", "cuDevice", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuGraph",
    "cuMemPool", "cuMemGetDefaultMemPool", "cuMemGetMemPool", "cuMemSetMemPool",
)  # fmt: skip

WHY_NOT = {
    "cuGraphLaunch": "a graph with conditional nodes runs as a whole, and exported graphs run node by node",
    "cuCtxCreate": "the window works in a context that no call of the snapshot made",
    "cuGreenCtx": "green contexts are not exported",
    "cuTexRef": "texture references are not exported",
    "cuMulticast": "multicast objects are not exported",
}


def why_not(symbol: str) -> str:
    """The reason for people why a function is not exported."""
    return next(
        (text for start, text in WHY_NOT.items() if symbol.startswith(start)), f"{symbol} is not exported"
    )
