"""Graphs in the recording driver.

What builds a graph is not recorded call by call: the shim describes a graph when it is made executable. So a graph is
compared as it is when it is instantiated, and when it is launched after it was changed.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import copies, launches
from .graph_nodes import (
    BATCH,
    BODIES,
    CHILD,
    CONDITIONAL,
    EMPTY,
    KERNEL,
    MEMBER_BYTES,
    MEMCPY,
    MEMSET,
    OPERATION_BYTES,
    RECORD,
    SET_DEPENDENCIES,
    SIGNAL,
    VALUE_BYTES,
    WAIT,
    Node,
    bytes_at,
    number,
    put,
    word,
)

if TYPE_CHECKING:
    from .recorder import Recorder

REPLAYED_AS = {SIGNAL: EMPTY}  # nobody waits for it


class Graphs:
    """What the functions for graphs do. Each takes the argument words by name and the label of the call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._graphs: dict[int, list[Node]] = {}
        self._nodes: dict[int, tuple[int, Node]] = {}
        self._executable: dict[int, list[Node]] = {}
        self._conditions: dict[int, tuple[int, int, int]] = {}  # graph, default value, flags
        self._kept: list[Any] = []
        self._capturing: dict[int, int] = {}  # stream -> graph
        self._frontier: dict[int, list[int]] = {}  # stream -> nodes that the next one depends on

    # -- what they hold ---------------------------------------------------------------------------------------------

    def describe(self, nodes: list[Node]) -> list[Any]:
        """Nodes in their order, with everything that has a meaning."""
        places = {node.handle: place for place, node in enumerate(nodes)}
        return [
            [
                REPLAYED_AS.get(node.kind, node.kind),
                self._member(node),
                [[places[source], edge.hex()] for source, edge in node.edges],
                {number: self._attribute(number, value) for number, value in sorted(node.attributes.items())},
                node.enabled,
            ]
            for node in nodes
        ]

    def describe_graph(self, handle: int) -> list[Any]:
        return self.describe(self._graphs[handle])

    def describe_executable(self, handle: int) -> list[Any]:
        return self.describe(self._executable[handle])

    def _attribute(self, number: int, value: bytes) -> Any:
        if number != 1:  # access policy window: an address first
            return value.hex()
        return [self._recorder.address(word(value, 0)), value[8:].hex()]

    def _member(self, node: Node) -> Any:
        recorder, member = self._recorder, node.member
        if node.kind == KERNEL:
            kernel = [
                recorder.handle("CUfunction", word(member, 0)),
                recorder.handle("CUkernel", word(member, 56)),
            ]
            values = word(member, 40)
            first = int.from_bytes(bytes_at(values, 8), "little") if values else 0
            return [kernel, member[8:36].hex(), self._parameters(first) if first else None]
        context = {MEMCPY: 8, MEMSET: 40, BATCH: 0}.get(node.kind)
        described: list[Any] = (
            [] if context is None else [recorder.handle("CUcontext", word(member, context))]
        )
        if node.kind == MEMCPY:
            held = self._own(member[16:])
            return [*described, copies.rectangle_rows(recorder, held, True)]
        if node.kind == MEMSET:
            return [*described, recorder.address(word(member, 0)), member[8:40].hex()]
        if node.kind in (WAIT, RECORD):
            return recorder.handle("CUevent", word(member, 0))
        if node.kind == BATCH:
            count, at = int.from_bytes(member[8:12], "little"), word(member, 16)
            for place in range(count):
                data = bytes_at(at + place * OPERATION_BYTES, OPERATION_BYTES)
                described.append([data[:4].hex(), recorder.address(word(data, 8)), data[16:28].hex()])
            return [*described, member[24:28].hex()]
        if node.kind == CONDITIONAL:
            _, value, flags = self._conditions[word(member, 0)]
            context = recorder.handle("CUcontext", word(member, 24))
            bodies = [self.describe_graph(body) for body in node.bodies]
            return [node.has_own_condition, value, flags, member[8:16].hex(), context, bodies]
        return self.describe(self._graphs[node.child]) if node.kind == CHILD else None

    def _parameters(self, at: int) -> Any:
        """A kernel that decides over a conditional node has its handle for an address."""
        known = self._conditions.get(word(bytes_at(at, 8), 0))
        if known is None:
            return launches.parameter_buffer(self._recorder, at)
        return ["the condition that begins with", known[1]]

    # -- building ---------------------------------------------------------------------------------------------------

    def _own(self, data: bytes) -> int:
        holder = ctypes.create_string_buffer(data, max(len(data), 1))
        self._kept.append(holder)
        return ctypes.addressof(holder)

    def _copied(self, kind: int, member: bytes) -> bytes:
        """The caller's memory may go, so what it points to is kept."""
        data = bytearray(member.ljust(MEMBER_BYTES.get(kind, 0), b"\0"))
        if kind == KERNEL:
            packed = launches.packed_parameters(word(data, 40), word(data, 48))
            start = self._own(packed)
            pointers = self._own(struct.pack("<3Q", *(start + offset for offset, _ in launches.LAYOUT)))
            struct.pack_into("<QQ", data, 40, pointers, 0)
        if kind == BATCH:
            count = int.from_bytes(data[8:12], "little")
            struct.pack_into("<Q", data, 16, self._own(bytes_at(word(data, 16), count * OPERATION_BYTES)))
        return bytes(data)

    def _add(self, a: dict[str, int], label: int | None, kind: int, member: bytes, child: int = 0) -> None:
        handle = self._recorder.new_handle()
        edges = tuple(
            (word(bytes_at(a["dependencies"] + 8 * place, 8), 0),
             bytes_at(a["dependencyData"] + 8 * place, 8) if a.get("dependencyData") else bytes(8))
            for place in range(a["numDependencies"])
        )  # fmt: skip
        node = Node(handle, kind, self._copied(kind, member), edges, child=self._clone(child) if child else 0)
        self._graphs[a["hGraph"]].append(node)
        self._nodes[handle] = (a["hGraph"], node)
        if kind == CONDITIONAL:
            node.has_own_condition = self._conditions[word(member, 0)][0] == a["hGraph"]
            node.bodies = tuple(self._recorder.new_handle() for _ in range(number(a["nodeParams"] + 28, 4)))
            self._graphs.update({body: [] for body in node.bodies})
            at = self._own(struct.pack(f"<{len(node.bodies)}Q", *node.bodies))
            put(a["nodeParams"] + BODIES, at.to_bytes(8, "little"))
        put(a["phGraphNode"], handle.to_bytes(8, "little"))

    def _clone(self, graph: int) -> int:
        made = self._recorder.new_handle()
        new = {node.handle: self._recorder.new_handle() for node in self._graphs[graph]}
        self._graphs[made] = [
            replace(node, handle=new[node.handle], edges=tuple((new[source], edge) for source, edge in node.edges),
                    attributes=dict(node.attributes), child=self._clone(node.child) if node.child else 0)
            for node in self._graphs[graph]
        ]  # fmt: skip
        for node in self._graphs[made]:
            self._nodes[node.handle] = (made, node)
        return made

    def _cuGraphConditionalHandleCreate(self, a: dict[str, int], label: int | None) -> None:
        handle = self._recorder.new_handle()
        self._conditions[handle] = (a["hGraph"], a["defaultLaunchValue"], a["flags"])
        put(a["pHandle_out"], handle.to_bytes(8, "little"))

    def _cuGraphCreate(self, a: dict[str, int], label: int | None) -> None:
        handle = self._recorder.new_handle()
        self._graphs[handle] = []
        put(a["phGraph"], handle.to_bytes(8, "little"))

    def _cuGraphDestroy(self, a: dict[str, int], label: int | None) -> None:
        del self._graphs[a["hGraph"]]

    def _cuGraphClone(self, a: dict[str, int], label: int | None) -> None:
        put(a["phGraphClone"], self._clone(a["originalGraph"]).to_bytes(8, "little"))

    def _cuGraphAddKernelNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, KERNEL, bytes_at(a["nodeParams"], 56))

    def _cuGraphAddKernelNode_v2(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, KERNEL, bytes_at(a["nodeParams"], 72))

    def _cuGraphAddMemcpyNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, MEMCPY, struct.pack("<QQ", 0, a["ctx"]) + bytes_at(a["copyParams"], 200))

    def _cuGraphAddMemsetNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, MEMSET, bytes_at(a["memsetParams"], 40) + struct.pack("<Q", a["ctx"]))

    def _cuGraphAddChildGraphNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, CHILD, b"", a["childGraph"])

    def _cuGraphAddEmptyNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, EMPTY, b"")

    def _cuGraphAddExternalSemaphoresSignalNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, SIGNAL, b"")

    def _set_nothing(self, a: dict[str, int], label: int | None) -> None:
        assert self._target(a).kind == SIGNAL

    _cuGraphExternalSemaphoresSignalNodeSetParams = _set_nothing
    _cuGraphExecExternalSemaphoresSignalNodeSetParams = _set_nothing

    def _cuGraphAddEventRecordNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, RECORD, struct.pack("<Q", a["event"]))

    def _cuGraphAddEventWaitNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, WAIT, struct.pack("<Q", a["event"]))

    def _cuGraphAddBatchMemOpNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, BATCH, bytes_at(a["nodeParams"], 32))

    def _any_node(self, a: dict[str, int], label: int | None) -> None:
        kind = number(a["nodeParams"], 4)
        self._add(a, label, kind, bytes_at(a["nodeParams"] + 16, MEMBER_BYTES.get(kind, 0)))

    _cuGraphAddNode = _cuGraphAddNode_v2 = _cuGraphAddNode_v3 = _any_node

    def _edges(self, a: dict[str, int]) -> list[tuple[int, int, bytes]]:
        return [
            (number(a["from"] + 8 * n, 8), number(a["to"] + 8 * n, 8),
             bytes_at(a["edgeData"] + 8 * n, 8) if a.get("edgeData") else bytes(8))
            for n in range(a["numDependencies"])
        ]  # fmt: skip

    def _connect(self, a: dict[str, int], label: int | None) -> None:
        for source, target, edge in self._edges(a):
            node = self._nodes[target][1]
            node.edges = (*node.edges, (source, edge))

    _cuGraphAddDependencies = _cuGraphAddDependencies_v2 = _connect

    def _disconnect(self, a: dict[str, int], label: int | None) -> None:
        for source, target, edge in self._edges(a):
            node = self._nodes[target][1]
            node.edges = tuple(pair for pair in node.edges if pair != (source, edge))

    _cuGraphRemoveDependencies = _cuGraphRemoveDependencies_v2 = _disconnect

    def _cuGraphDestroyNode(self, a: dict[str, int], label: int | None) -> None:
        graph, node = self._nodes.pop(a["hNode"])
        self._graphs[graph].remove(node)
        for other in self._graphs[graph]:
            other.edges = tuple(pair for pair in other.edges if pair[0] != node.handle)

    # -- stream capture: launches become nodes ----------------------------------------------------------------------

    def _begin_capture(self, a: dict[str, int], label: int | None) -> None:
        graph = a.get("hGraph") or self._recorder.new_handle()
        self._graphs.setdefault(graph, [])
        self._capturing[a["hStream"]] = graph
        count = a.get("numDependencies", 0)
        self._frontier[a["hStream"]] = [number(a["dependencies"] + 8 * n, 8) for n in range(count)]

    _cuStreamBeginCapture = _cuStreamBeginCapture_v2 = _cuStreamBeginCaptureToGraph = _begin_capture

    def _cuStreamEndCapture(self, a: dict[str, int], label: int | None) -> None:
        put(a["phGraph"], self._capturing.pop(a["hStream"]).to_bytes(8, "little"))

    def _cuStreamIsCapturing(self, a: dict[str, int], label: int | None) -> None:
        put(a["captureStatus"], int(a["hStream"] in self._capturing).to_bytes(4, "little"))

    def frontier(self, stream: int) -> list[int]:
        """What a node that is captured from this stream now would depend on."""
        return list(self._frontier[stream])

    def _set_frontier(self, a: dict[str, int], label: int | None) -> None:
        given = [number(a["dependencies"] + 8 * n, 8) for n in range(a["numDependencies"])]
        before = [] if a["flags"] == SET_DEPENDENCIES else self._frontier[a["hStream"]]
        self._frontier[a["hStream"]] = [*before, *given]

    _cuStreamUpdateCaptureDependencies = _cuStreamUpdateCaptureDependencies_v2 = _set_frontier

    def _cuLaunchKernel(self, a: dict[str, int], label: int | None) -> None:
        graph = self._capturing.get(a["hStream"])
        if graph is None:
            return
        geometry = [a[name + axis] for name in ("gridDim", "blockDim") for axis in "XYZ"]
        member = struct.pack(
            "<Q7I4xQQ", a["f"], *geometry, a["sharedMemBytes"], a["kernelParams"], a["extra"]
        )
        edges = tuple((node, bytes(8)) for node in self._frontier[a["hStream"]])
        node = Node(self._recorder.new_handle(), KERNEL, self._copied(KERNEL, member), edges)
        self._graphs[graph].append(node)
        self._nodes[node.handle] = (graph, node)
        self._frontier[a["hStream"]] = [node.handle]

    # -- changing ---------------------------------------------------------------------------------------------------

    def _target(self, a: dict[str, int]) -> Node:
        if "hGraphExec" in a:
            return next(node for node in self._executable[a["hGraphExec"]] if node.handle == a["hNode"])
        return self._nodes[a["hNode"]][1]

    def _set_kernel(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = self._copied(KERNEL, bytes_at(a["nodeParams"], 56))

    def _set_kernel_v2(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = self._copied(KERNEL, bytes_at(a["nodeParams"], 72))

    def _set_copy(self, a: dict[str, int], label: int | None) -> None:
        node, place = self._target(a), "nodeParams" if "nodeParams" in a else "copyParams"
        context = a.get("ctx", word(node.member, 8))
        node.member = struct.pack("<QQ", 0, context) + bytes_at(a[place], 200)

    def _set_fill(self, a: dict[str, int], label: int | None) -> None:
        node, place = self._target(a), "nodeParams" if "nodeParams" in a else "memsetParams"
        node.member = bytes_at(a[place], 40) + struct.pack("<Q", a.get("ctx", word(node.member, 40)))

    def _set_event(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = struct.pack("<Q", a["event"])

    def _set_batch(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = self._copied(BATCH, bytes_at(a["nodeParams"], 32))

    def _set_any(self, a: dict[str, int], label: int | None) -> None:
        node = self._target(a)
        node.member = self._copied(node.kind, bytes_at(a["nodeParams"] + 16, MEMBER_BYTES[node.kind]))

    _cuGraphKernelNodeSetParams = _cuGraphExecKernelNodeSetParams = _set_kernel
    _cuGraphKernelNodeSetParams_v2 = _cuGraphExecKernelNodeSetParams_v2 = _set_kernel_v2
    _cuGraphMemcpyNodeSetParams = _cuGraphExecMemcpyNodeSetParams = _set_copy
    _cuGraphMemsetNodeSetParams = _cuGraphExecMemsetNodeSetParams = _set_fill
    _cuGraphEventRecordNodeSetEvent = _cuGraphExecEventRecordNodeSetEvent = _set_event
    _cuGraphEventWaitNodeSetEvent = _cuGraphExecEventWaitNodeSetEvent = _set_event
    _cuGraphBatchMemOpNodeSetParams = _cuGraphExecBatchMemOpNodeSetParams = _set_batch
    _cuGraphNodeSetParams = _cuGraphNodeSetParams_v2 = _cuGraphExecNodeSetParams = _set_any

    def _cuGraphKernelNodeSetAttribute(self, a: dict[str, int], label: int | None) -> None:
        self._nodes[a["hNode"]][1].attributes[a["attr"]] = bytes_at(a["value"], VALUE_BYTES)

    def _cuGraphKernelNodeCopyAttributes(self, a: dict[str, int], label: int | None) -> None:
        self._nodes[a["dst"]][1].attributes = dict(self._nodes[a["src"]][1].attributes)

    def _cuGraphExecChildGraphNodeSetParams(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).child = self._clone(a["childGraph"])

    def _cuGraphNodeSetEnabled(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).enabled = a["isEnabled"]

    # -- executable graphs ------------------------------------------------------------------------------------------

    def _instantiate(self, a: dict[str, int], label: int | None) -> None:
        handle = self._recorder.new_handle()
        nodes = self._graphs[a["hGraph"]]
        self._executable[handle] = [
            replace(
                node,
                attributes=dict(node.attributes),
                child=self._clone(node.child) if node.child else 0,
                bodies=tuple(map(self._clone, node.bodies)),
            )
            for node in nodes
        ]
        put(a["phGraphExec"], handle.to_bytes(8, "little"))
        self._recorder.name("CUgraphExec", handle, label, 0)

    _cuGraphInstantiate = _cuGraphInstantiate_v2 = _instantiate
    _cuGraphInstantiateWithFlags = _cuGraphInstantiateWithParams = _instantiate

    def _update(self, a: dict[str, int], label: int | None) -> None:
        """A graph of the same shape: its parameters, for the nodes that are there."""
        for node, other in zip(self._executable[a["hGraphExec"]], self._graphs[a["hGraph"]], strict=True):
            node.member, node.child = other.member, self._clone(other.child) if other.child else 0
            node.bodies = tuple(map(self._clone, other.bodies))

    _cuGraphExecUpdate = _cuGraphExecUpdate_v2 = _update

    # -- questions --------------------------------------------------------------------------------------------------

    @staticmethod
    def _list(found: list[bytes], place: int, count_at: int) -> None:
        if place:
            for position, item in enumerate(found[: number(count_at, 8)]):
                put(place + len(item) * position, item)
        put(count_at, len(found).to_bytes(8, "little"))

    def _cuGraphGetNodes(self, a: dict[str, int], label: int | None) -> None:
        handles = [node.handle.to_bytes(8, "little") for node in self._graphs[a["hGraph"]]]
        self._list(handles, a["nodes"], a["numNodes"])

    def _dependencies(self, a: dict[str, int], label: int | None) -> None:
        edges = self._nodes[a["hNode"]][1].edges
        room = number(a["numDependencies"], 8)
        for position, (source, edge) in enumerate(edges[:room] if a["dependencies"] else ()):
            put(a["dependencies"] + 8 * position, source.to_bytes(8, "little"))
            if a.get("edgeData"):
                put(a["edgeData"] + 8 * position, edge)
        put(a["numDependencies"], len(edges).to_bytes(8, "little"))

    _cuGraphNodeGetDependencies = _cuGraphNodeGetDependencies_v2 = _dependencies

    def _cuGraphNodeGetType(self, a: dict[str, int], label: int | None) -> None:
        put(a["type"], self._nodes[a["hNode"]][1].kind.to_bytes(4, "little"))

    def _member_of(self, a: dict[str, int], label: int | None) -> None:
        out = next(value for name, value in a.items() if name != "hNode")
        put(out, self._nodes[a["hNode"]][1].member)

    _cuGraphKernelNodeGetParams_v2 = _cuGraphBatchMemOpNodeGetParams = _member_of
    _cuGraphEventRecordNodeGetEvent = _cuGraphEventWaitNodeGetEvent = _member_of

    def _cuGraphNodeGetParams(self, a: dict[str, int], label: int | None) -> None:
        node = self._nodes[a["hNode"]][1]
        put(a["nodeParams"], node.kind.to_bytes(4, "little") + bytes(12) + node.member)

    def _cuGraphKernelNodeGetAttribute(self, a: dict[str, int], label: int | None) -> None:
        value = self._nodes[a["hNode"]][1].attributes.get(a["attr"], bytes(VALUE_BYTES))
        put(a["value_out"], value)

    def _cuGraphChildGraphNodeGetGraph(self, a: dict[str, int], label: int | None) -> None:
        put(a["phGraph"], self._nodes[a["hNode"]][1].child.to_bytes(8, "little"))
