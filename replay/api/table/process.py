"""Initialisation, devices, contexts, logs."""

from __future__ import annotations

from replay.api.rows import ALWAYS, LEFT_OUT, NEVER, REFUSED, WINDOW, F, inputs
from replay.api.vocabulary import Effect

# fmt: off

# ---- initialisation, version, lookup ----------------------------------------------------------------------

F(1, "cuInit", ALWAYS, replayed=LEFT_OUT)
F(2, "cuDriverGetVersion", NEVER)
F(3, "cuGetProcAddress", NEVER)
F(4, "cuGetProcAddress_v2", NEVER)
F(5, "cuGetExportTable", NEVER)
F(6, "cuGetErrorName", NEVER)
F(7, "cuGetErrorString", NEVER)
F(8, "cuProfilerStart", ALWAYS, replayed=LEFT_OUT)  # a selection may begin and end with these
F(9, "cuProfilerStop", ALWAYS, replayed=LEFT_OUT)

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
F(34, "cuDeviceGetDefaultMemPool", ALWAYS, may_fail=True)
F(35, "cuDeviceGetMemPool", ALWAYS, may_fail=True)
F(36, "cuDeviceSetMemPool", ALWAYS, may_fail=True)
F(37, "cuDeviceGetTexture1DLinearMaxWidth", NEVER)
F(38, "cuDeviceGetExecAffinitySupport", NEVER)

# ---- contexts ---------------------------------------------------------------------------------------------

F(50, "cuDevicePrimaryCtxRetain", ALWAYS, Effect.RETAIN_PRIMARY, "pctx")
F(51, "cuDevicePrimaryCtxRelease_v2", ALWAYS, Effect.END_OF_CONTEXT, replayed=LEFT_OUT)
F(52, "cuDevicePrimaryCtxReset_v2", ALWAYS, Effect.END_OF_CONTEXT, replayed=REFUSED)
F(53, "cuDevicePrimaryCtxSetFlags_v2", ALWAYS, may_fail=True)
F(54, "cuDevicePrimaryCtxGetState", NEVER)
F(55, "cuCtxCreate_v2", ALWAYS, Effect.PUSH_CURRENT, "pctx", creates="CUcontext")
F(56, "cuCtxCreate_v3", ALWAYS, Effect.PUSH_CURRENT, "pctx", paramsArray=inputs("numParams"), creates="CUcontext")
F(57, "cuCtxCreate_v4", ALWAYS, Effect.PUSH_CURRENT, "pctx", ctxCreateParams=inputs("1"), custom="context",
  creates="CUcontext")
F(58, "cuCtxDestroy_v2", ALWAYS, Effect.END_OF_CONTEXT)
F(59, "cuCtxPushCurrent_v2", ALWAYS, Effect.PUSH_CURRENT, "ctx")
F(60, "cuCtxPopCurrent_v2", ALWAYS, Effect.POP_CURRENT)
F(61, "cuCtxSetCurrent", ALWAYS, Effect.SET_CURRENT, "ctx")
F(62, "cuCtxGetCurrent", NEVER)
F(63, "cuCtxGetDevice", NEVER)
F(64, "cuCtxGetFlags", NEVER)
F(65, "cuCtxSetFlags", ALWAYS, may_fail=True, of_current=True)
F(66, "cuCtxGetId", NEVER)
F(67, "cuCtxSynchronize", WINDOW, waits=True)
F(68, "cuCtxSetLimit", ALWAYS, may_fail=True, of_current=True, sets="value", getter="cuCtxGetLimit")
F(69, "cuCtxGetLimit", NEVER)
F(70, "cuCtxGetCacheConfig", NEVER)
F(71, "cuCtxSetCacheConfig", ALWAYS, may_fail=True, of_current=True, sets="config", getter="cuCtxGetCacheConfig")
F(72, "cuCtxGetApiVersion", NEVER)
F(73, "cuCtxGetStreamPriorityRange", NEVER)
F(74, "cuCtxResetPersistingL2Cache", WINDOW)
F(75, "cuCtxGetExecAffinity", NEVER)
F(76, "cuCtxEnablePeerAccess", ALWAYS, may_fail=True, of_current=True, replaces="peer access")
F(77, "cuCtxDisablePeerAccess", ALWAYS, may_fail=True, of_current=True, replaces="peer access", undoes=True)
F(78, "cuCtxSetSharedMemConfig", ALWAYS, may_fail=True, of_current=True, sets="config",
  getter="cuCtxGetSharedMemConfig")
F(79, "cuCtxGetSharedMemConfig", NEVER)
F(80, "cuCtxGetDevice_v2", NEVER)
F(81, "cuCtxSynchronize_v2", WINDOW, waits=True)
F(82, "cuCtxAttach", ALWAYS)
F(83, "cuCtxDetach", ALWAYS, Effect.END_OF_CONTEXT)
F(84, "cuCtxRecordEvent", WINDOW)
F(85, "cuCtxWaitEvent", WINDOW)

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
F(1100, "cuCoredumpRegisterStartCallback", NEVER)
F(1101, "cuCoredumpRegisterCompleteCallback", NEVER)
F(1102, "cuCoredumpDeregisterStartCallback", NEVER)
F(1103, "cuCoredumpDeregisterCompleteCallback", NEVER)
F(1104, "cuProfilerInitialize", NEVER)
F(1105, "cuDeviceRegisterAsyncNotification", NEVER)
F(1106, "cuDeviceUnregisterAsyncNotification", NEVER)
F(1107, "cuDeviceGetHostAtomicCapabilities", NEVER)
F(1108, "cuDeviceGetP2PAtomicCapabilities", NEVER)

# ---- checkpoints: a process that is restored finds everything as it was -----------------------------------

F(1110, "cuCheckpointProcessGetState", NEVER)
F(1111, "cuCheckpointProcessGetRestoreThreadId", NEVER)
F(1112, "cuCheckpointProcessLock", NEVER)
F(1113, "cuCheckpointProcessCheckpoint", NEVER)
F(1114, "cuCheckpointProcessRestore", NEVER)
F(1115, "cuCheckpointProcessUnlock", NEVER)
F(1116, "cuCheckpointOperationComplete", NEVER)
