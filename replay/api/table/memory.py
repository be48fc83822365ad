"""Device memory and host memory."""

from __future__ import annotations

from replay.api.rows import ALWAYS, HOST, LEFT_OUT, NEVER, PLACED, WINDOW, F, inputs, outputs, reads
from replay.api.vocabulary import Effect

# fmt: off

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
F(159, "cuMemPoolCreate", ALWAYS, custom="pool", creates="CUmemoryPool", may_fail=True)
F(160, "cuMemPoolDestroy", ALWAYS, Effect.DESTROY, "pool", may_fail=True)
F(161, "cuMemPoolTrimTo", WINDOW, may_fail=True)
F(162, "cuMemPoolSetAttribute", ALWAYS, value=inputs("8"), may_fail=True)
F(163, "cuMemPoolGetAttribute", NEVER)
F(164, "cuMemPoolSetAccess", ALWAYS, map=inputs("count"), custom="pool_access", may_fail=True)
F(165, "cuMemPoolGetAccess", NEVER)
F(166, "cuMemAddressReserve", ALWAYS, replayed=PLACED)
F(167, "cuMemAddressFree", ALWAYS, replayed=PLACED)
F(168, "cuMemCreate", ALWAYS, creates="CUmemGenericAllocationHandle", replayed=PLACED, after="physical_made")
F(169, "cuMemRelease", ALWAYS, Effect.DESTROY, "handle", replayed=PLACED)
F(170, "cuMemMap", ALWAYS, Effect.MAP, "ptr", "size")
F(171, "cuMemUnmap", ALWAYS, Effect.UNMAP, "ptr", "size")
F(172, "cuMemSetAccess", ALWAYS, desc=inputs("count"), replayed=PLACED)
F(173, "cuMemGetAccess", NEVER)
F(174, "cuMemGetAllocationGranularity", NEVER)
F(175, "cuMemGetAllocationPropertiesFromHandle", NEVER)
F(176, "cuMemRetainAllocationHandle", ALWAYS, addr=HOST, replayed=PLACED, after="physical_retained")
F(177, "cuMemAdvise", ALWAYS, custom="hint_by_ordinal", touches=(reads("devPtr", "count"),), may_fail=True, hint=True)
F(178, "cuMemAdvise_v2", ALWAYS, custom="hint_by_location", touches=(reads("devPtr", "count"),), may_fail=True,
  hint=True)
F(179, "cuMemPrefetchAsync", WINDOW, custom="hint_by_ordinal", touches=(reads("devPtr", "count"),), may_fail=True,
  hint=True)
F(180, "cuMemPrefetchAsync_v2", WINDOW, custom="hint_by_location", touches=(reads("devPtr", "count"),),
  may_fail=True, hint=True)
F(181, "cuMemRangeGetAttribute", NEVER)
F(182, "cuMemRangeGetAttributes", NEVER)
F(183, "cuPointerGetAttribute", NEVER)
F(184, "cuPointerGetAttributes", NEVER)
F(185, "cuPointerSetAttribute", NEVER, shares=True)  # of memory that other devices read and write
F(186, "cuMemGetMemPool", ALWAYS, location=inputs("1"), custom="pool_location", may_fail=True)
F(187, "cuMemGetDefaultMemPool", ALWAYS, location=inputs("1"), custom="pool_location", may_fail=True)
F(188, "cuMemSetMemPool", ALWAYS, location=inputs("1"), custom="pool_location", may_fail=True)

# ---- host memory ------------------------------------------------------------------------------------------

F(200, "cuMemAllocHost_v2", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(201, "cuMemHostAlloc", ALWAYS, Effect.HOST_ALLOC, "pp", "bytesize", pp=outputs())
F(202, "cuMemFreeHost", ALWAYS, Effect.HOST_FREE, "p", p=HOST)
F(203, "cuMemHostRegister_v2", ALWAYS, Effect.HOST_REGISTER, "p", "bytesize", p=HOST)
F(204, "cuMemHostUnregister", ALWAYS, Effect.HOST_UNREGISTER, "p", p=HOST)
F(205, "cuMemHostGetDevicePointer_v2", ALWAYS, p=HOST, replayed=PLACED)
F(206, "cuMemHostGetFlags", NEVER)

# ---- memory of other processes: imported memory is captured as plain memory ---------------------------------

F(850, "cuMemExportToShareableHandle", NEVER, shares=True)
F(851, "cuMemImportFromShareableHandle", ALWAYS, osHandle=HOST, creates="CUmemGenericAllocationHandle", replayed=PLACED,
  after="physical_made")
F(852, "cuMemPoolExportToShareableHandle", NEVER, shares=True)
F(853, "cuMemPoolImportFromShareableHandle", ALWAYS, handle=HOST, creates="CUmemoryPool", replayed=LEFT_OUT)
F(854, "cuMemPoolExportPointer", NEVER, shares=True)

F(859, "cuMemGetHandleForAddressRange", NEVER, shares=True)
