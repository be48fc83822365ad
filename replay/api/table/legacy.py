"""Symbols that a newer version has replaced, and the launch protocol of CUDA 2 and 3.

Where the newer version takes the same things, `same_as` names it: a replay calls that one. The oldest versions of the
memory functions have device addresses and sizes of 32 bits, which only memory below 4 GiB fits.
"""

from __future__ import annotations

from replay.api.rows import (
    ALWAYS,
    HOST,
    NEVER,
    WINDOW,
    F,
    host_read,
    host_write,
    inputs,
    outputs,
    reads,
    writes,
)
from replay.api.vocabulary import Effect

# fmt: off

# ---- contexts, streams, events ----------------------------------------------------------------------------

F(930, "cuCtxCreate", ALWAYS, Effect.PUSH_CURRENT, "pctx", same_as="cuCtxCreate_v2")
F(931, "cuCtxDestroy", ALWAYS, Effect.END_OF_CONTEXT, same_as="cuCtxDestroy_v2")
F(932, "cuCtxPushCurrent", ALWAYS, Effect.PUSH_CURRENT, "ctx", same_as="cuCtxPushCurrent_v2")
F(933, "cuCtxPopCurrent", ALWAYS, Effect.POP_CURRENT, same_as="cuCtxPopCurrent_v2")
F(934, "cuDevicePrimaryCtxRelease", ALWAYS, Effect.END_OF_CONTEXT, same_as="cuDevicePrimaryCtxRelease_v2")
F(935, "cuDevicePrimaryCtxReset", ALWAYS, Effect.END_OF_CONTEXT, same_as="cuDevicePrimaryCtxReset_v2")
F(936, "cuDevicePrimaryCtxSetFlags", ALWAYS, same_as="cuDevicePrimaryCtxSetFlags_v2")
F(937, "cuDeviceTotalMem", NEVER)
F(938, "cuStreamDestroy", ALWAYS, Effect.DESTROY, "hStream", same_as="cuStreamDestroy_v2")
F(939, "cuEventDestroy", ALWAYS, Effect.DESTROY, "hEvent", same_as="cuEventDestroy_v2")
F(940, "cuStreamWriteValue32", WINDOW, Effect.WRITE, "addr", "4", same_as="cuStreamWriteValue32_v2")
F(941, "cuStreamWaitValue32", WINDOW, Effect.READ, "addr", "4", same_as="cuStreamWaitValue32_v2")
F(942, "cuStreamWriteValue64", WINDOW, Effect.WRITE, "addr", "8", same_as="cuStreamWriteValue64_v2")
F(943, "cuStreamWaitValue64", WINDOW, Effect.READ, "addr", "8", same_as="cuStreamWaitValue64_v2")

# ---- linking: see modules.py ------------------------------------------------------------------------------

F(945, "cuLinkCreate", NEVER)
F(946, "cuLinkAddData", NEVER)
F(947, "cuLinkAddFile", NEVER)

# ---- memory -----------------------------------------------------------------------------------------------

F(950, "cuMemAlloc", ALWAYS, Effect.ALLOC, "dptr", "bytesize", same_as="cuMemAlloc_v2")
F(951, "cuMemAllocPitch", ALWAYS, Effect.ALLOC, "dptr", "pPitch*Height", same_as="cuMemAllocPitch_v2")
F(952, "cuMemFree", ALWAYS, Effect.FREE, "dptr", same_as="cuMemFree_v2")
F(953, "cuMemGetInfo", NEVER)
F(954, "cuMemGetAddressRange", NEVER)
F(955, "cuMemAllocHost", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs(), same_as="cuMemAllocHost_v2")
F(956, "cuMemHostGetDevicePointer", ALWAYS, p=HOST, same_as="cuMemHostGetDevicePointer_v2")
F(957, "cuMemHostRegister", ALWAYS, Effect.HOST_REGISTER, "p", "bytesize", p=HOST, same_as="cuMemHostRegister_v2")
F(958, "cuModuleGetGlobal", ALWAYS, Effect.GLOBAL, "dptr", "bytes", custom="variable", same_as="cuModuleGetGlobal_v2")

# ---- copies and fills -------------------------------------------------------------------------------------

F(960, "cuMemcpyHtoD", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"),
  same_as="cuMemcpyHtoD_v2")
F(961, "cuMemcpyHtoDAsync", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"),
  same_as="cuMemcpyHtoDAsync_v2")
F(962, "cuMemcpyDtoH", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"),
  synchronizes=True, same_as="cuMemcpyDtoH_v2")
F(963, "cuMemcpyDtoHAsync", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"),
  same_as="cuMemcpyDtoHAsync_v2")
F(964, "cuMemcpyDtoD", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount", same_as="cuMemcpyDtoD_v2")
F(965, "cuMemcpyDtoDAsync", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount", same_as="cuMemcpyDtoDAsync_v2")
F(966, "cuMemsetD8", WINDOW, Effect.WRITE, "dstDevice", "N", same_as="cuMemsetD8_v2")
F(967, "cuMemsetD16", WINDOW, Effect.WRITE, "dstDevice", "N*2", same_as="cuMemsetD16_v2")
F(968, "cuMemsetD32", WINDOW, Effect.WRITE, "dstDevice", "N*4", same_as="cuMemsetD32_v2")
F(969, "cuMemsetD2D8", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height", same_as="cuMemsetD2D8_v2",
  touches=(writes("dstDevice", "Width", "Height", "dstPitch"),))
F(970, "cuMemsetD2D16", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height", same_as="cuMemsetD2D16_v2",
  touches=(writes("dstDevice", "Width*2", "Height", "dstPitch"),))
F(971, "cuMemsetD2D32", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height", same_as="cuMemsetD2D32_v2",
  touches=(writes("dstDevice", "Width*4", "Height", "dstPitch"),))

F(1130, "cuMemcpyAtoA", WINDOW, Effect.CUSTOM, same_as="cuMemcpyAtoA_v2")
F(1131, "cuMemcpyAtoD", WINDOW, Effect.CUSTOM, same_as="cuMemcpyAtoD_v2", touches=(writes("dstDevice", "ByteCount"),))
F(1132, "cuMemcpyAtoH", WINDOW, Effect.CUSTOM, dstHost=host_write("ByteCount"), synchronizes=True,
  same_as="cuMemcpyAtoH_v2")
F(1133, "cuMemcpyAtoHAsync", WINDOW, Effect.CUSTOM, dstHost=host_write("ByteCount"), same_as="cuMemcpyAtoHAsync_v2")
F(1134, "cuMemcpyDtoA", WINDOW, Effect.CUSTOM, same_as="cuMemcpyDtoA_v2", touches=(reads("srcDevice", "ByteCount"),))
F(1135, "cuMemcpyHtoA", WINDOW, Effect.CUSTOM, srcHost=host_read("ByteCount"), same_as="cuMemcpyHtoA_v2")
F(1136, "cuMemcpyHtoAAsync", WINDOW, Effect.CUSTOM, srcHost=host_read("ByteCount"), same_as="cuMemcpyHtoAAsync_v2")
F(1137, "cuTexRefSetAddress", ALWAYS, same_as="cuTexRefSetAddress_v2", touches=(reads("dptr", "bytes"),))
F(1138, "cuTexRefGetAddress", NEVER)
F(1139, "cuArrayGetDescriptor", NEVER)
F(1140, "cuArray3DGetDescriptor", NEVER)

_SHORT_STRUCT = "its struct has sizes and addresses of 32 bits, unlike that of _v2, which is captured"

F(1141, "cuArrayCreate", NEVER, unsupported=_SHORT_STRUCT)
F(1142, "cuArray3DCreate", NEVER, unsupported=_SHORT_STRUCT)
F(1143, "cuTexRefSetAddress2D", NEVER, unsupported=_SHORT_STRUCT)

F(972, "cuMemcpy2D", NEVER, unsupported=_SHORT_STRUCT)
F(973, "cuMemcpy2DUnaligned", NEVER, unsupported=_SHORT_STRUCT)
F(974, "cuMemcpy2DAsync", NEVER, unsupported=_SHORT_STRUCT)
F(975, "cuMemcpy3D", NEVER, unsupported=_SHORT_STRUCT)
F(976, "cuMemcpy3DAsync", NEVER, unsupported=_SHORT_STRUCT)

# ---- the launch protocol of CUDA 2 and 3: shape and parameters are state of the function -------------------

_PROTOCOL = "the launch protocol before cuLaunchKernel (CUDA 4.0) is deprecated, and its state is not followed"

F(980, "cuFuncSetBlockShape", NEVER, unsupported=_PROTOCOL)
F(981, "cuFuncSetSharedSize", NEVER, unsupported=_PROTOCOL)
F(982, "cuParamSetSize", NEVER, unsupported=_PROTOCOL)
F(983, "cuParamSeti", NEVER, unsupported=_PROTOCOL)
F(984, "cuParamSetf", NEVER, unsupported=_PROTOCOL)
F(985, "cuParamSetv", NEVER, ptr=inputs("numbytes"), unsupported=_PROTOCOL)
F(986, "cuParamSetTexRef", NEVER, unsupported=_PROTOCOL)
F(987, "cuLaunch", NEVER, unsupported=_PROTOCOL)
F(988, "cuLaunchGrid", NEVER, unsupported=_PROTOCOL)
F(989, "cuLaunchGridAsync", NEVER, unsupported=_PROTOCOL)
