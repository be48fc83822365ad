"""Streams and events."""

from __future__ import annotations

from replay.api.rows import ALWAYS, NEVER, OPAQUE, WINDOW, F, reads
from replay.api.vocabulary import Effect

# fmt: off

# ---- streams ----------------------------------------------------------------------------------------------

F(270, "cuStreamCreate", ALWAYS, creates="CUstream")
F(271, "cuStreamCreateWithPriority", ALWAYS, creates="CUstream")
F(272, "cuStreamDestroy_v2", ALWAYS, Effect.DESTROY, "hStream")
F(273, "cuStreamSynchronize", WINDOW, waits=True)
F(274, "cuStreamQuery", WINDOW, polls=True)
F(275, "cuStreamWaitEvent", WINDOW, queues=True)
F(276, "cuStreamGetPriority", NEVER)
F(277, "cuStreamGetFlags", NEVER)
F(278, "cuStreamGetId", NEVER)
F(279, "cuStreamGetCtx", NEVER)
F(280, "cuStreamGetDevice", NEVER)
F(281, "cuStreamSetAttribute", ALWAYS, custom="stream_attribute", sets="param", getter="cuStreamGetAttribute")
F(282, "cuStreamGetAttribute", NEVER)
F(283, "cuStreamCopyAttributes", ALWAYS)
F(284, "cuStreamAttachMemAsync", ALWAYS, touches=(reads("dptr", "length"),), may_fail=True, hint=True)
F(285, "cuStreamWriteValue32_v2", WINDOW, Effect.WRITE, "addr", "4")
F(286, "cuStreamWaitValue32_v2", WINDOW, Effect.READ, "addr", "4")
F(287, "cuStreamWriteValue64_v2", WINDOW, Effect.WRITE, "addr", "8")
F(288, "cuStreamWaitValue64_v2", WINDOW, Effect.READ, "addr", "8")
F(289, "cuStreamIsCapturing", NEVER)
F(290, "cuStreamGetCaptureInfo_v2", NEVER)
F(291, "cuStreamGetCaptureInfo_v3", NEVER)
F(292, "cuThreadExchangeStreamCaptureMode", NEVER)
F(295, "cuStreamAddCallback", WINDOW, userData=OPAQUE, unsupported="host callbacks are the application's own code")
F(296, "cuLaunchHostFunc", WINDOW, userData=OPAQUE, unsupported="host functions are the application's own code")
F(1121, "cuLaunchHostFunc_v2", WINDOW, userData=OPAQUE, unsupported="host functions are the application's own code")
F(297, "cuStreamGetCtx_v2", NEVER)
F(298, "cuStreamGetCaptureInfo", NEVER)

# ---- events -----------------------------------------------------------------------------------------------

F(310, "cuEventCreate", ALWAYS, creates="CUevent")
F(311, "cuEventDestroy_v2", ALWAYS, Effect.DESTROY, "hEvent")
F(312, "cuEventRecord", WINDOW, queues=True)
F(313, "cuEventRecordWithFlags", WINDOW, queues=True)
F(314, "cuEventSynchronize", WINDOW, waits=True)
F(315, "cuEventQuery", WINDOW, polls=True)
F(316, "cuEventElapsedTime", NEVER)
F(317, "cuEventElapsedTime_v2", NEVER)
