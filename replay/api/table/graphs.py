"""Graphs and stream capture.

What builds or changes a graph is not recorded: when the graph is made executable, the shim asks the driver for all of
its nodes and describes them (`interposer/graph/describe.c`). What makes, changes or ends an executable graph is.
"""

from __future__ import annotations

from typing import Any

from replay.api.rows import ALWAYS, CUSTOM, FOLLOWED, NEVER, OPAQUE, WINDOW, F, inputs
from replay.api.vocabulary import Effect

# ---- graphs: described when they are made executable ------------------------------------------------------

_DESCRIBED: dict[str, Any] = {"described": True}

F(600, "cuGraphCreate", NEVER, **_DESCRIBED)
F(601, "cuGraphDestroy", NEVER, **_DESCRIBED)
F(602, "cuGraphClone", NEVER, **_DESCRIBED)
F(603, "cuGraphAddKernelNode", NEVER, **_DESCRIBED)
F(604, "cuGraphAddKernelNode_v2", NEVER, **_DESCRIBED)
F(605, "cuGraphAddMemcpyNode", NEVER, **_DESCRIBED)
F(606, "cuGraphAddMemsetNode", NEVER, **_DESCRIBED)
F(607, "cuGraphAddHostNode", NEVER, **_DESCRIBED)
F(608, "cuGraphAddChildGraphNode", NEVER, **_DESCRIBED)
F(609, "cuGraphAddEmptyNode", NEVER, **_DESCRIBED)
F(610, "cuGraphAddEventRecordNode", NEVER, **_DESCRIBED)
F(611, "cuGraphAddEventWaitNode", NEVER, **_DESCRIBED)
F(612, "cuGraphAddBatchMemOpNode", NEVER, **_DESCRIBED)
F(613, "cuGraphAddMemAllocNode", NEVER, **_DESCRIBED)
F(614, "cuGraphAddMemFreeNode", NEVER, **_DESCRIBED)
# The bodies of a conditional node and the default of its handle are told when they are made, and never again.
F(615, "cuGraphAddNode", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED)
F(616, "cuGraphAddNode_v2", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED)
F(617, "cuGraphAddNode_v3", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED)
F(640, "cuGraphConditionalHandleCreate", FOLLOWED, **_DESCRIBED)
F(618, "cuGraphAddDependencies", NEVER, **_DESCRIBED)
F(619, "cuGraphAddDependencies_v2", NEVER, **_DESCRIBED)
F(620, "cuGraphRemoveDependencies", NEVER, **_DESCRIBED)
F(621, "cuGraphRemoveDependencies_v2", NEVER, **_DESCRIBED)
F(622, "cuGraphDestroyNode", NEVER, **_DESCRIBED)
F(623, "cuGraphKernelNodeSetParams", NEVER, **_DESCRIBED)
F(624, "cuGraphKernelNodeSetParams_v2", NEVER, **_DESCRIBED)
F(625, "cuGraphKernelNodeSetAttribute", NEVER, **_DESCRIBED)
F(626, "cuGraphKernelNodeCopyAttributes", NEVER, **_DESCRIBED)
F(627, "cuGraphMemcpyNodeSetParams", NEVER, **_DESCRIBED)
F(628, "cuGraphMemsetNodeSetParams", NEVER, **_DESCRIBED)
F(629, "cuGraphHostNodeSetParams", NEVER, **_DESCRIBED)
F(630, "cuGraphEventRecordNodeSetEvent", NEVER, **_DESCRIBED)
F(631, "cuGraphEventWaitNodeSetEvent", NEVER, **_DESCRIBED)
F(632, "cuGraphBatchMemOpNodeSetParams", NEVER, **_DESCRIBED)
F(633, "cuGraphNodeSetParams", NEVER, **_DESCRIBED)
F(634, "cuGraphNodeSetParams_v2", NEVER, **_DESCRIBED)

# In a replay nobody waits for a signal: an empty node stands for it.
F(641, "cuGraphAddExternalSemaphoresSignalNode", NEVER, **_DESCRIBED)
F(643, "cuGraphExternalSemaphoresSignalNodeSetParams", NEVER, **_DESCRIBED)
# The launch of a graph with such a node is refused, and the node named.
_SEMAPHORE = "the node waits for another process or interface, which writes memory that is not captured"
F(642, "cuGraphAddExternalSemaphoresWaitNode", NEVER, unsupported=_SEMAPHORE)
F(644, "cuGraphExternalSemaphoresWaitNodeSetParams", NEVER, unsupported=_SEMAPHORE)
F(645, "cuGraphExternalSemaphoresSignalNodeGetParams", NEVER)
F(646, "cuGraphExternalSemaphoresWaitNodeGetParams", NEVER)

# ---- questions --------------------------------------------------------------------------------------------

F(650, "cuGraphGetNodes", NEVER)
F(651, "cuGraphGetRootNodes", NEVER)
F(652, "cuGraphGetEdges", NEVER)
F(653, "cuGraphGetEdges_v2", NEVER)
F(654, "cuGraphNodeGetDependencies", NEVER)
F(655, "cuGraphNodeGetDependencies_v2", NEVER)
F(656, "cuGraphNodeGetDependentNodes", NEVER)
F(657, "cuGraphNodeGetDependentNodes_v2", NEVER)
F(658, "cuGraphNodeGetType", NEVER)
F(659, "cuGraphNodeFindInClone", NEVER)
F(660, "cuGraphKernelNodeGetParams", NEVER)
F(661, "cuGraphKernelNodeGetParams_v2", NEVER)
F(662, "cuGraphKernelNodeGetAttribute", NEVER)
F(663, "cuGraphMemcpyNodeGetParams", NEVER)
F(664, "cuGraphMemsetNodeGetParams", NEVER)
F(665, "cuGraphHostNodeGetParams", NEVER)
F(666, "cuGraphChildGraphNodeGetGraph", NEVER)
F(667, "cuGraphEventRecordNodeGetEvent", NEVER)
F(668, "cuGraphEventWaitNodeGetEvent", NEVER)
F(669, "cuGraphBatchMemOpNodeGetParams", NEVER)
F(670, "cuGraphMemAllocNodeGetParams", NEVER)
F(671, "cuGraphMemFreeNodeGetParams", NEVER)
F(672, "cuGraphNodeGetEnabled", NEVER)
F(673, "cuGraphExecGetFlags", NEVER)
F(674, "cuGraphDebugDotPrint", NEVER)
F(675, "cuGraphExecGetId", NEVER)
F(676, "cuGraphGetId", NEVER)
F(677, "cuGraphNodeGetContainingGraph", NEVER)
F(678, "cuGraphNodeGetLocalId", NEVER)
F(679, "cuGraphNodeGetToolsId", NEVER)
F(680, "cuGraphNodeGetParams", NEVER)
F(681, "cuDeviceGetGraphMemAttribute", NEVER)
# What they do is seen in no result: statistics, memory that is kept for later, when an object of the application ends.
F(682, "cuDeviceSetGraphMemAttribute", NEVER)
F(683, "cuDeviceGraphMemTrim", NEVER)
F(684, "cuGraphRetainUserObject", NEVER)
F(685, "cuGraphReleaseUserObject", NEVER)

# ---- executable graphs ------------------------------------------------------------------------------------

_GRAPH: dict[str, Any] = {"custom": True}
_REPORT: dict[str, Any] = {"phErrorNode": OPAQUE, "logBuffer": OPAQUE}

F(700, "cuGraphInstantiate", ALWAYS, Effect.GRAPH, **_REPORT, **_GRAPH)
F(701, "cuGraphInstantiate_v2", ALWAYS, Effect.GRAPH, **_REPORT, **_GRAPH)
F(702, "cuGraphInstantiateWithFlags", ALWAYS, Effect.GRAPH, **_GRAPH)
F(703, "cuGraphInstantiateWithParams", ALWAYS, Effect.GRAPH, instantiateParams=CUSTOM, **_GRAPH)
F(704, "cuGraphExecDestroy", ALWAYS, Effect.DESTROY, "hGraphExec", custom=True)
F(705, "cuGraphExecUpdate", ALWAYS, Effect.GRAPH, hErrorNode_out=OPAQUE, updateResult_out=OPAQUE, **_GRAPH)
F(706, "cuGraphExecUpdate_v2", ALWAYS, Effect.GRAPH, resultInfo=OPAQUE, **_GRAPH)
F(707, "cuGraphExecKernelNodeSetParams", ALWAYS, Effect.GRAPH, nodeParams=CUSTOM, **_GRAPH)
F(708, "cuGraphExecKernelNodeSetParams_v2", ALWAYS, Effect.GRAPH, nodeParams=CUSTOM, **_GRAPH)
F(709, "cuGraphExecMemcpyNodeSetParams", ALWAYS, Effect.GRAPH, copyParams=CUSTOM, **_GRAPH)
F(710, "cuGraphExecMemsetNodeSetParams", ALWAYS, Effect.GRAPH, memsetParams=CUSTOM, **_GRAPH)
F(711, "cuGraphExecHostNodeSetParams", ALWAYS, Effect.GRAPH, nodeParams=CUSTOM, **_GRAPH)
F(712, "cuGraphExecChildGraphNodeSetParams", ALWAYS, Effect.GRAPH, **_GRAPH)
F(713, "cuGraphExecEventRecordNodeSetEvent", ALWAYS, Effect.GRAPH, **_GRAPH)
F(714, "cuGraphExecEventWaitNodeSetEvent", ALWAYS, Effect.GRAPH, **_GRAPH)
F(715, "cuGraphExecBatchMemOpNodeSetParams", ALWAYS, Effect.GRAPH, nodeParams=CUSTOM, **_GRAPH)
F(716, "cuGraphExecNodeSetParams", ALWAYS, Effect.GRAPH, nodeParams=CUSTOM, **_GRAPH)
F(717, "cuGraphNodeSetEnabled", ALWAYS, Effect.GRAPH, **_GRAPH)
F(718, "cuGraphExecExternalSemaphoresSignalNodeSetParams", NEVER)  # an empty node stands for it
F(719, "cuGraphExecExternalSemaphoresWaitNodeSetParams", NEVER, unsupported=_SEMAPHORE)
F(720, "cuGraphUpload", WINDOW)
F(721, "cuGraphLaunch", WINDOW, Effect.GRAPH_LAUNCH, "hGraph", custom=True)

# ---- stream capture: what goes into it is described with the graph, and nothing of it is executed again ---

F(740, "cuStreamBeginCapture", WINDOW, Effect.BEGIN_CAPTURE)
F(741, "cuStreamUpdateCaptureDependencies", NEVER, **_DESCRIBED)
F(742, "cuStreamUpdateCaptureDependencies_v2", NEVER, **_DESCRIBED)
F(743, "cuStreamBeginRecaptureToGraph", WINDOW, Effect.BEGIN_CAPTURE, callbackFunc=OPAQUE, userData=OPAQUE,
  unsupported="it calls back into the application")  # fmt: skip
F(293, "cuStreamBeginCapture_v2", WINDOW, Effect.BEGIN_CAPTURE)
F(294, "cuStreamEndCapture", WINDOW, Effect.END_CAPTURE)
F(299, "cuStreamBeginCaptureToGraph", WINDOW, Effect.BEGIN_CAPTURE, dependencies=inputs("numDependencies"),
  dependencyData=OPAQUE)  # fmt: skip
