"""Graphs and stream capture.

What builds or changes a graph is not recorded: when the graph is made executable, the shim asks the driver for all of
its nodes and describes them (`interposer/graph/describe.c`). What makes, changes or ends an executable graph is.
"""

from __future__ import annotations

from typing import Any

from replay.api.rows import ALWAYS, CUSTOM, FOLLOWED, NEVER, OPAQUE, WINDOW, F, inputs
from replay.api.vocabulary import Effect, NodeType

# fmt: off

# ---- graphs: described when they are made executable ------------------------------------------------------

_DESCRIBED: dict[str, Any] = {"described": True}

F(600, "cuGraphCreate", NEVER, **_DESCRIBED)
F(601, "cuGraphDestroy", NEVER, **_DESCRIBED)
F(602, "cuGraphClone", NEVER, **_DESCRIBED)
F(603, "cuGraphAddKernelNode", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED, after="follow_node_origin")
F(604, "cuGraphAddKernelNode_v2", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED, after="follow_node_origin")
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
F(615, "cuGraphAddNode", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED, after="follow_added_node")
F(616, "cuGraphAddNode_v2", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED, after="follow_added_node")
F(617, "cuGraphAddNode_v3", FOLLOWED, nodeParams=OPAQUE, **_DESCRIBED, after="follow_added_node")
F(640, "cuGraphConditionalHandleCreate", FOLLOWED, **_DESCRIBED, after="follow_condition")
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

# In a replay nobody waits for a signal: an empty node takes its place.
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

_GRAPH: dict[str, Any] = {"custom": "graph_node", "enter": "graph_enter"}
_MADE: dict[str, Any] = {**_GRAPH, "custom": "graph", "creates": "CUgraphExec"}
_UPDATE: dict[str, Any] = {**_GRAPH, "custom": "graph_update"}
_REPORT: dict[str, Any] = {"phErrorNode": OPAQUE, "logBuffer": OPAQUE}


def _change(
    id: int, symbol: str, node: NodeType | None, parameters: str, role: Any = None, custom: str = "graph_node"
) -> None:
    roles = {parameters: role} if role else {}
    F(id, symbol, ALWAYS, Effect.GRAPH_NODE, parameters, node=node, **roles, **{**_GRAPH, "custom": custom})


F(700, "cuGraphInstantiate", ALWAYS, Effect.GRAPH, "hGraph", **_REPORT, **_MADE)
F(701, "cuGraphInstantiate_v2", ALWAYS, Effect.GRAPH, "hGraph", **_REPORT, **_MADE)
F(702, "cuGraphInstantiateWithFlags", ALWAYS, Effect.GRAPH, "hGraph", **_MADE)
F(703, "cuGraphInstantiateWithParams", ALWAYS, Effect.GRAPH, "hGraph", instantiateParams=CUSTOM, **_MADE)
F(704, "cuGraphExecDestroy", ALWAYS, Effect.DESTROY, "hGraphExec", custom="graph_end")
F(705, "cuGraphExecUpdate", ALWAYS, Effect.GRAPH_UPDATE, "hGraph", hErrorNode_out=OPAQUE, updateResult_out=OPAQUE,
  **_UPDATE)
F(706, "cuGraphExecUpdate_v2", ALWAYS, Effect.GRAPH_UPDATE, "hGraph", resultInfo=OPAQUE, **_UPDATE)
_change(707, "cuGraphExecKernelNodeSetParams", NodeType.KERNEL, "nodeParams", CUSTOM)
_change(708, "cuGraphExecKernelNodeSetParams_v2", NodeType.KERNEL, "nodeParams", CUSTOM)
_change(709, "cuGraphExecMemcpyNodeSetParams", NodeType.MEMCPY, "copyParams", CUSTOM)
_change(710, "cuGraphExecMemsetNodeSetParams", NodeType.MEMSET, "memsetParams", CUSTOM)
_change(711, "cuGraphExecHostNodeSetParams", NodeType.HOST, "nodeParams", CUSTOM)
_change(712, "cuGraphExecChildGraphNodeSetParams", NodeType.GRAPH, "childGraph", custom="graph_child")
_change(713, "cuGraphExecEventRecordNodeSetEvent", NodeType.EVENT_RECORD, "event")
_change(714, "cuGraphExecEventWaitNodeSetEvent", NodeType.WAIT_EVENT, "event")
_change(715, "cuGraphExecBatchMemOpNodeSetParams", NodeType.BATCH_MEM_OP, "nodeParams", CUSTOM)
_change(716, "cuGraphExecNodeSetParams", None, "nodeParams", CUSTOM)
F(717, "cuGraphNodeSetEnabled", ALWAYS, Effect.GRAPH_ENABLE, custom="graph_enabled")
F(718, "cuGraphExecExternalSemaphoresSignalNodeSetParams", NEVER)  # an empty node takes its place
F(719, "cuGraphExecExternalSemaphoresWaitNodeSetParams", NEVER, unsupported=_SEMAPHORE)
F(720, "cuGraphUpload", WINDOW)
F(721, "cuGraphLaunch", WINDOW, Effect.GRAPH_LAUNCH, "hGraph", custom="graph_launch", enter="graph_launch_enter")

# ---- stream capture: what goes into it is described with the graph, and nothing of it is executed again ---

F(740, "cuStreamBeginCapture", WINDOW, Effect.BEGIN_CAPTURE)
F(741, "cuStreamUpdateCaptureDependencies", NEVER, **_DESCRIBED)
F(742, "cuStreamUpdateCaptureDependencies_v2", NEVER, **_DESCRIBED)
F(743, "cuStreamBeginRecaptureToGraph", WINDOW, Effect.BEGIN_CAPTURE, callbackFunc=OPAQUE, userData=OPAQUE,
  unsupported="it calls back into the application")
F(293, "cuStreamBeginCapture_v2", WINDOW, Effect.BEGIN_CAPTURE)
F(294, "cuStreamEndCapture", WINDOW, Effect.END_CAPTURE)
F(299, "cuStreamBeginCaptureToGraph", WINDOW, Effect.BEGIN_CAPTURE, dependencies=inputs("numDependencies"),
  dependencyData=OPAQUE)
