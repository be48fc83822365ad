"""Copies and fills."""

from __future__ import annotations

from typing import Any

from replay.api.rows import CUSTOM, WINDOW, F, each, host_read, host_write, inputs, writes
from replay.api.vocabulary import Effect

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
F(246, "cuMemsetD2D8_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width", "Height", "dstPitch"),))  # fmt: skip
F(247, "cuMemsetD2D16_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*2", "Height", "dstPitch"),))  # fmt: skip
F(248, "cuMemsetD2D32_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*4", "Height", "dstPitch"),))  # fmt: skip
F(249, "cuMemsetD2D8Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width", "Height", "dstPitch"),))  # fmt: skip
F(250, "cuMemsetD2D16Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*2", "Height", "dstPitch"),))  # fmt: skip
F(251, "cuMemsetD2D32Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*4", "Height", "dstPitch"),))  # fmt: skip

# ---- copies between contexts, copies with attributes, batches ----------------------------------------------

_BATCH: dict[str, Any] = {
    "dsts": inputs("count"), "srcs": inputs("count"), "sizes": inputs("count"),
    "attrs": inputs("numAttrs"), "attrsIdxs": inputs("numAttrs"), "custom": True,
}  # fmt: skip
_LOCATIONS: dict[str, Any] = {
    "dptrs": inputs("count"), "sizes": inputs("count"), "prefetchLocs": inputs("numPrefetchLocs"),
    "prefetchLocIdxs": inputs("numPrefetchLocs"), "custom": True, "touches": (each("dptrs", "sizes"),),
}  # fmt: skip

F(860, "cuMemcpyBatchAsync", WINDOW, Effect.CUSTOM, **_BATCH)
F(861, "cuMemcpyBatchAsync_v2", WINDOW, Effect.CUSTOM, **_BATCH)
F(862, "cuMemcpy3DBatchAsync", WINDOW, Effect.CUSTOM, opList=inputs("numOps"), custom=True)
F(863, "cuMemcpy3DBatchAsync_v2", WINDOW, Effect.CUSTOM, opList=inputs("numOps"), custom=True)
F(
    864,
    "cuMemcpyWithAttributesAsync",
    WINDOW,
    Effect.COPY,
    "dst",
    "src",
    "size",
    attr=inputs("1"),
    custom=True,
)
F(865, "cuMemcpy3DWithAttributesAsync", WINDOW, Effect.CUSTOM, op=inputs("1"), custom=True)
F(866, "cuMemcpy3DPeer", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True, synchronizes=True)
F(867, "cuMemcpy3DPeerAsync", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom=True)
F(868, "cuStreamBatchMemOp", WINDOW, Effect.CUSTOM, paramArray=inputs("count"), custom=True)
F(869, "cuStreamBatchMemOp_v2", WINDOW, Effect.CUSTOM, paramArray=inputs("count"), custom=True)
F(870, "cuMemPrefetchBatchAsync", WINDOW, **_LOCATIONS)
F(871, "cuMemDiscardBatchAsync", WINDOW, dptrs=inputs("count"), sizes=inputs("count"),
  touches=(each("dptrs", "sizes"),))  # fmt: skip
F(872, "cuMemDiscardAndPrefetchBatchAsync", WINDOW, **_LOCATIONS)
F(873, "cuMemBatchDecompressAsync", WINDOW, paramsArray=inputs("count"),
  unsupported="decompression is work of the device that names its memory in structs nobody here follows")  # fmt: skip
