"""Green contexts, and the resources of a device that they are made from."""

from __future__ import annotations

from replay.api.rows import ALWAYS, NEVER, WINDOW, F, inputs, outputs, updated
from replay.api.vocabulary import Effect

# fmt: off

# A CUdevResource is a value of 144 bytes, of which most are the driver's own: what one call gave is what another
# must be given, so a replay hands on what its own driver gave.
F(1000, "cuDeviceGetDevResource", ALWAYS, custom="resources")
F(1001, "cuCtxGetDevResource", ALWAYS, custom="resources")
F(1002, "cuGreenCtxGetDevResource", ALWAYS, custom="resources")
F(1003, "cuStreamGetDevResource", ALWAYS, custom="resources")
F(1004, "cuDevSmResourceSplitByCount", ALWAYS, result=outputs("nbGroups"), nbGroups=updated("1"), custom="resources")
F(1005, "cuDevSmResourceSplit", ALWAYS, result=outputs("nbGroups"), groupParams=updated("nbGroups"), custom="resources")
F(1006, "cuDevResourceGenerateDesc", ALWAYS, resources=inputs("nbResources"), custom="resource_description",
  creates="CUdevResourceDesc")
F(1010, "cuGreenCtxCreate", ALWAYS, custom="green_context", creates="CUgreenCtx")
F(1011, "cuGreenCtxDestroy", ALWAYS, Effect.DESTROY, "hCtx", custom="green_context_end")
F(1012, "cuCtxFromGreenCtx", ALWAYS, custom="green_context_as_context")
F(1013, "cuGreenCtxStreamCreate", ALWAYS, custom="green_stream", creates="CUstream")
F(1014, "cuGreenCtxRecordEvent", WINDOW, custom="green_event")
F(1015, "cuGreenCtxWaitEvent", WINDOW, custom="green_wait")
F(1016, "cuGreenCtxGetId", NEVER)
F(1017, "cuStreamGetGreenCtx", NEVER)
