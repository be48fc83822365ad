"""Device memory and host memory."""

from __future__ import annotations

from replay.api.rows import ALWAYS, HOST, NEVER, WINDOW, F, inputs, outputs, reads
from replay.api.vocabulary import Effect

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
F(159, "cuMemPoolCreate", ALWAYS, custom=True)
F(160, "cuMemPoolDestroy", ALWAYS, Effect.DESTROY, "pool")
F(161, "cuMemPoolTrimTo", ALWAYS)
F(162, "cuMemPoolSetAttribute", ALWAYS, value=inputs("8"))
F(163, "cuMemPoolGetAttribute", NEVER)
F(164, "cuMemPoolSetAccess", ALWAYS, map=inputs("count"), custom=True)
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
F(177, "cuMemAdvise", ALWAYS, custom=True, touches=(reads("devPtr", "count"),))
F(178, "cuMemAdvise_v2", ALWAYS, custom=True, touches=(reads("devPtr", "count"),))
F(179, "cuMemPrefetchAsync", WINDOW, custom=True, touches=(reads("devPtr", "count"),))
F(180, "cuMemPrefetchAsync_v2", WINDOW, custom=True, touches=(reads("devPtr", "count"),))
F(181, "cuMemRangeGetAttribute", NEVER)
F(182, "cuMemRangeGetAttributes", NEVER)
F(183, "cuPointerGetAttribute", NEVER)
F(184, "cuPointerGetAttributes", NEVER)
F(185, "cuPointerSetAttribute", NEVER)
F(186, "cuMemGetMemPool", ALWAYS, location=inputs("1"), custom=True)
F(187, "cuMemGetDefaultMemPool", ALWAYS, location=inputs("1"), custom=True)
F(188, "cuMemSetMemPool", ALWAYS, location=inputs("1"), custom=True)

# ---- host memory ------------------------------------------------------------------------------------------

F(200, "cuMemAllocHost_v2", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(201, "cuMemHostAlloc", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(202, "cuMemFreeHost", ALWAYS, Effect.HOST_FREE, "p", p=HOST)
F(203, "cuMemHostRegister_v2", ALWAYS, Effect.HOST_REGISTER, "p", "bytesize", p=HOST)
F(204, "cuMemHostUnregister", ALWAYS, Effect.HOST_UNREGISTER, "p", p=HOST)
F(205, "cuMemHostGetDevicePointer_v2", ALWAYS, p=HOST)
F(206, "cuMemHostGetFlags", NEVER)

# ---- memory of other processes: imported memory is captured as plain memory ---------------------------------

F(850, "cuMemExportToShareableHandle", NEVER)
F(851, "cuMemImportFromShareableHandle", ALWAYS, osHandle=HOST)
F(852, "cuMemPoolExportToShareableHandle", NEVER)
F(853, "cuMemPoolImportFromShareableHandle", ALWAYS, handle=HOST)
F(854, "cuMemPoolExportPointer", NEVER)

F(859, "cuMemGetHandleForAddressRange", NEVER)
