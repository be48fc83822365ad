"""Copies and fills."""

from __future__ import annotations

from typing import Any

from replay.api.rows import CUSTOM, WINDOW, F, each, host_read, host_write, inputs, writes
from replay.api.vocabulary import Effect

# fmt: off

# ---- copies and fills -------------------------------------------------------------------------------------

F(220, "cuMemcpyHtoD_v2", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"))
F(221, "cuMemcpyHtoDAsync_v2", WINDOW, Effect.WRITE, "dstDevice", "ByteCount", srcHost=host_read("ByteCount"))
F(222, "cuMemcpyDtoH_v2", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"),
  synchronizes=True)
F(223, "cuMemcpyDtoHAsync_v2", WINDOW, Effect.READ, "srcDevice", "ByteCount", dstHost=host_write("ByteCount"))
F(224, "cuMemcpyDtoD_v2", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(225, "cuMemcpyDtoDAsync_v2", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount", queues=True)
F(226, "cuMemcpy", WINDOW, Effect.COPY, "dst", "src", "ByteCount", custom="copy", waits=True,
  enter="copy_enter", leave="copy_leave")
F(227, "cuMemcpyAsync", WINDOW, Effect.COPY, "dst", "src", "ByteCount", custom="copy", enter="copy_enter")
F(228, "cuMemcpyPeer", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(229, "cuMemcpyPeerAsync", WINDOW, Effect.COPY, "dstDevice", "srcDevice", "ByteCount")
F(230, "cuMemcpy2D_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_rectangle", synchronizes=True,
  enter="rectangle_enter",
  leave="rectangle_leave")
F(231, "cuMemcpy2DUnaligned_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_rectangle", synchronizes=True,
  enter="rectangle_enter", leave="rectangle_leave")
F(232, "cuMemcpy2DAsync_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_rectangle", enter="rectangle_enter")
F(233, "cuMemcpy3D_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_box", synchronizes=True,
  enter="rectangle_enter",
  leave="rectangle_leave")
F(234, "cuMemcpy3DAsync_v2", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_box", enter="rectangle_enter")
F(240, "cuMemsetD8_v2", WINDOW, Effect.WRITE, "dstDevice", "N")
F(241, "cuMemsetD16_v2", WINDOW, Effect.WRITE, "dstDevice", "N*2")
F(242, "cuMemsetD32_v2", WINDOW, Effect.WRITE, "dstDevice", "N*4")
F(243, "cuMemsetD8Async", WINDOW, Effect.WRITE, "dstDevice", "N", queues=True)
F(244, "cuMemsetD16Async", WINDOW, Effect.WRITE, "dstDevice", "N*2", queues=True)
F(245, "cuMemsetD32Async", WINDOW, Effect.WRITE, "dstDevice", "N*4", queues=True)
F(246, "cuMemsetD2D8_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width", "Height", "dstPitch"),))
F(247, "cuMemsetD2D16_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*2", "Height", "dstPitch"),))
F(248, "cuMemsetD2D32_v2", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*4", "Height", "dstPitch"),))
F(249, "cuMemsetD2D8Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width", "Height", "dstPitch"),), queues=True)
F(250, "cuMemsetD2D16Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*2", "Height", "dstPitch"),), queues=True)
F(251, "cuMemsetD2D32Async", WINDOW, Effect.WRITE, "dstDevice", "dstPitch*Height",
  touches=(writes("dstDevice", "Width*4", "Height", "dstPitch"),), queues=True)

# ---- copies between contexts, copies with attributes, batches ----------------------------------------------

_BATCH: dict[str, Any] = {
    "dsts": inputs("count"), "srcs": inputs("count"), "sizes": inputs("count"),
    "attrs": inputs("numAttrs"), "attrsIdxs": inputs("numAttrs"), "custom": "copy_batch", "enter": "batch_enter",
}
_LOCATIONS: dict[str, Any] = {
    "dptrs": inputs("count"), "sizes": inputs("count"), "prefetchLocs": inputs("numPrefetchLocs"),
    "prefetchLocIdxs": inputs("numPrefetchLocs"), "custom": "hint_batch", "touches": (each("dptrs", "sizes"),),
}

F(860, "cuMemcpyBatchAsync", WINDOW, Effect.CUSTOM, **_BATCH)
F(861, "cuMemcpyBatchAsync_v2", WINDOW, Effect.CUSTOM, **_BATCH)
F(862, "cuMemcpy3DBatchAsync", WINDOW, Effect.CUSTOM, opList=inputs("numOps"), custom="box_batch", enter="batch_enter")
F(863, "cuMemcpy3DBatchAsync_v2", WINDOW, Effect.CUSTOM, opList=inputs("numOps"), custom="box_batch",
  enter="batch_enter")
F(864, "cuMemcpyWithAttributesAsync", WINDOW, Effect.COPY, "dst", "src", "size", attr=inputs("1"),
  custom="copy_with_attributes",
  enter="copy_enter")
F(865, "cuMemcpy3DWithAttributesAsync", WINDOW, Effect.CUSTOM, op=inputs("1"), custom="box_with_attributes",
  enter="batch_enter")
F(866, "cuMemcpy3DPeer", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_box_of_peers", synchronizes=True,
  enter="rectangle_enter", leave="rectangle_leave")
F(867, "cuMemcpy3DPeerAsync", WINDOW, Effect.CUSTOM, pCopy=CUSTOM, custom="copy_box_of_peers", enter="rectangle_enter")
F(868, "cuStreamBatchMemOp", WINDOW, Effect.CUSTOM, paramArray=inputs("count"), custom="value_operations")
F(869, "cuStreamBatchMemOp_v2", WINDOW, Effect.CUSTOM, paramArray=inputs("count"), custom="value_operations")
F(870, "cuMemPrefetchBatchAsync", WINDOW, may_fail=True, hint=True, **_LOCATIONS)
F(871, "cuMemDiscardBatchAsync", WINDOW, dptrs=inputs("count"), sizes=inputs("count"),
  touches=(each("dptrs", "sizes"),), may_fail=True, hint=True)
F(872, "cuMemDiscardAndPrefetchBatchAsync", WINDOW, may_fail=True, hint=True, **_LOCATIONS)
F(873, "cuMemBatchDecompressAsync", WINDOW, shares=True, paramsArray=inputs("count"),
  unsupported="decompression is work of the device that names its memory in structs nobody here follows")
