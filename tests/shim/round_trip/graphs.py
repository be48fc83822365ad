"""Graphs in the recording driver, and random graphs to put into it.

What builds a graph is not recorded call by call: the shim describes a graph when it is made executable. So a graph is
compared as it is when it is instantiated, and when it is launched after it was changed.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from . import copies, launches

if TYPE_CHECKING:
    from .caller import Caller
    from .recorder import Recorder

KERNEL, MEMCPY, MEMSET, CHILD, EMPTY, WAIT, RECORD, SIGNAL, BATCH, CONDITIONAL = (
    0,
    1,
    2,
    4,
    5,
    6,
    7,
    8,
    12,
    13,
)
_REPLAYED_AS = {SIGNAL: EMPTY}  # nobody waits for it
_MEMBER_BYTES = {KERNEL: 72, MEMCPY: 216, MEMSET: 48, WAIT: 8, RECORD: 8, BATCH: 32, CONDITIONAL: 32}
_BODIES = (
    16 + 16
)  # where the driver puts the address of its handles of the graphs inside, in CUgraphNodeParams
_OPERATION_BYTES, _VALUE_BYTES = 48, 64
_SET_DEPENDENCIES = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_WRITE_VALUE_32 = 2


def _bytes(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def _put(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


@dataclass
class Node:
    """member: what CUgraphNodeParams holds for its type, pointing to memory of this driver's own."""

    handle: int
    kind: int
    member: bytes = b""
    edges: tuple[tuple[int, bytes], ...] = ()  # node that it depends on, CUgraphEdgeData
    attributes: dict[int, bytes] = field(default_factory=dict)
    child: int = 0
    enabled: int = 1
    bodies: tuple[int, ...] = ()
    has_own_condition: bool = False  # made for the graph that the node is in


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
                _REPLAYED_AS.get(node.kind, node.kind),
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
        return [self._recorder.address(_word(value, 0)), value[8:].hex()]

    def _member(self, node: Node) -> Any:
        recorder, member = self._recorder, node.member
        if node.kind == KERNEL:
            kernel = [
                recorder.handle("CUfunction", _word(member, 0)),
                recorder.handle("CUkernel", _word(member, 56)),
            ]
            values = _word(member, 40)
            first = int.from_bytes(_bytes(values, 8), "little") if values else 0
            return [kernel, member[8:36].hex(), self._parameters(first) if first else None]
        context = {MEMCPY: 8, MEMSET: 40, BATCH: 0}.get(node.kind)
        described: list[Any] = (
            [] if context is None else [recorder.handle("CUcontext", _word(member, context))]
        )
        if node.kind == MEMCPY:
            held = self._own(member[16:])
            return [*described, copies.rectangle_rows(recorder, held, True)]
        if node.kind == MEMSET:
            return [*described, recorder.address(_word(member, 0)), member[8:40].hex()]
        if node.kind in (WAIT, RECORD):
            return recorder.handle("CUevent", _word(member, 0))
        if node.kind == BATCH:
            count, at = int.from_bytes(member[8:12], "little"), _word(member, 16)
            for place in range(count):
                data = _bytes(at + place * _OPERATION_BYTES, _OPERATION_BYTES)
                described.append([data[:4].hex(), recorder.address(_word(data, 8)), data[16:28].hex()])
            return [*described, member[24:28].hex()]
        if node.kind == CONDITIONAL:
            _, value, flags = self._conditions[_word(member, 0)]
            context = recorder.handle("CUcontext", _word(member, 24))
            bodies = [self.describe_graph(body) for body in node.bodies]
            return [node.has_own_condition, value, flags, member[8:16].hex(), context, bodies]
        return self.describe(self._graphs[node.child]) if node.kind == CHILD else None

    def _parameters(self, at: int) -> Any:
        """A kernel that decides over a conditional node has its handle for an address."""
        known = self._conditions.get(_word(_bytes(at, 8), 0))
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
        data = bytearray(member.ljust(_MEMBER_BYTES.get(kind, 0), b"\0"))
        if kind == KERNEL:
            packed = launches.packed_parameters(_word(data, 40), _word(data, 48))
            start = self._own(packed)
            pointers = self._own(struct.pack("<3Q", *(start + offset for offset, _ in launches.LAYOUT)))
            struct.pack_into("<QQ", data, 40, pointers, 0)
        if kind == BATCH:
            count = int.from_bytes(data[8:12], "little")
            struct.pack_into("<Q", data, 16, self._own(_bytes(_word(data, 16), count * _OPERATION_BYTES)))
        return bytes(data)

    def _add(self, a: dict[str, int], label: int | None, kind: int, member: bytes, child: int = 0) -> None:
        handle = self._recorder.new_handle()
        edges = tuple(
            (_word(_bytes(a["dependencies"] + 8 * place, 8), 0),
             _bytes(a["dependencyData"] + 8 * place, 8) if a.get("dependencyData") else bytes(8))
            for place in range(a["numDependencies"])
        )  # fmt: skip
        node = Node(handle, kind, self._copied(kind, member), edges, child=self._clone(child) if child else 0)
        self._graphs[a["hGraph"]].append(node)
        self._nodes[handle] = (a["hGraph"], node)
        if kind == CONDITIONAL:
            node.has_own_condition = self._conditions[_word(member, 0)][0] == a["hGraph"]
            node.bodies = tuple(self._recorder.new_handle() for _ in range(number(a["nodeParams"] + 28, 4)))
            self._graphs.update({body: [] for body in node.bodies})
            at = self._own(struct.pack(f"<{len(node.bodies)}Q", *node.bodies))
            _put(a["nodeParams"] + _BODIES, at.to_bytes(8, "little"))
        _put(a["phGraphNode"], handle.to_bytes(8, "little"))

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
        _put(a["pHandle_out"], handle.to_bytes(8, "little"))

    def _cuGraphCreate(self, a: dict[str, int], label: int | None) -> None:
        handle = self._recorder.new_handle()
        self._graphs[handle] = []
        _put(a["phGraph"], handle.to_bytes(8, "little"))

    def _cuGraphDestroy(self, a: dict[str, int], label: int | None) -> None:
        del self._graphs[a["hGraph"]]

    def _cuGraphClone(self, a: dict[str, int], label: int | None) -> None:
        _put(a["phGraphClone"], self._clone(a["originalGraph"]).to_bytes(8, "little"))

    def _cuGraphAddKernelNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, KERNEL, _bytes(a["nodeParams"], 56))

    def _cuGraphAddKernelNode_v2(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, KERNEL, _bytes(a["nodeParams"], 72))

    def _cuGraphAddMemcpyNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, MEMCPY, struct.pack("<QQ", 0, a["ctx"]) + _bytes(a["copyParams"], 200))

    def _cuGraphAddMemsetNode(self, a: dict[str, int], label: int | None) -> None:
        self._add(a, label, MEMSET, _bytes(a["memsetParams"], 40) + struct.pack("<Q", a["ctx"]))

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
        self._add(a, label, BATCH, _bytes(a["nodeParams"], 32))

    def _any_node(self, a: dict[str, int], label: int | None) -> None:
        kind = number(a["nodeParams"], 4)
        self._add(a, label, kind, _bytes(a["nodeParams"] + 16, _MEMBER_BYTES.get(kind, 0)))

    _cuGraphAddNode = _cuGraphAddNode_v2 = _cuGraphAddNode_v3 = _any_node

    def _edges(self, a: dict[str, int]) -> list[tuple[int, int, bytes]]:
        return [
            (number(a["from"] + 8 * n, 8), number(a["to"] + 8 * n, 8),
             _bytes(a["edgeData"] + 8 * n, 8) if a.get("edgeData") else bytes(8))
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
        _put(a["phGraph"], self._capturing.pop(a["hStream"]).to_bytes(8, "little"))

    def _cuStreamIsCapturing(self, a: dict[str, int], label: int | None) -> None:
        _put(a["captureStatus"], int(a["hStream"] in self._capturing).to_bytes(4, "little"))

    def frontier(self, stream: int) -> list[int]:
        """What a node that is captured from this stream now would depend on."""
        return list(self._frontier[stream])

    def _set_frontier(self, a: dict[str, int], label: int | None) -> None:
        given = [number(a["dependencies"] + 8 * n, 8) for n in range(a["numDependencies"])]
        before = [] if a["flags"] == _SET_DEPENDENCIES else self._frontier[a["hStream"]]
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
        self._target(a).member = self._copied(KERNEL, _bytes(a["nodeParams"], 56))

    def _set_kernel_v2(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = self._copied(KERNEL, _bytes(a["nodeParams"], 72))

    def _set_copy(self, a: dict[str, int], label: int | None) -> None:
        node, place = self._target(a), "nodeParams" if "nodeParams" in a else "copyParams"
        context = a.get("ctx", _word(node.member, 8))
        node.member = struct.pack("<QQ", 0, context) + _bytes(a[place], 200)

    def _set_fill(self, a: dict[str, int], label: int | None) -> None:
        node, place = self._target(a), "nodeParams" if "nodeParams" in a else "memsetParams"
        node.member = _bytes(a[place], 40) + struct.pack("<Q", a.get("ctx", _word(node.member, 40)))

    def _set_event(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = struct.pack("<Q", a["event"])

    def _set_batch(self, a: dict[str, int], label: int | None) -> None:
        self._target(a).member = self._copied(BATCH, _bytes(a["nodeParams"], 32))

    def _set_any(self, a: dict[str, int], label: int | None) -> None:
        node = self._target(a)
        node.member = self._copied(node.kind, _bytes(a["nodeParams"] + 16, _MEMBER_BYTES[node.kind]))

    _cuGraphKernelNodeSetParams = _cuGraphExecKernelNodeSetParams = _set_kernel
    _cuGraphKernelNodeSetParams_v2 = _cuGraphExecKernelNodeSetParams_v2 = _set_kernel_v2
    _cuGraphMemcpyNodeSetParams = _cuGraphExecMemcpyNodeSetParams = _set_copy
    _cuGraphMemsetNodeSetParams = _cuGraphExecMemsetNodeSetParams = _set_fill
    _cuGraphEventRecordNodeSetEvent = _cuGraphExecEventRecordNodeSetEvent = _set_event
    _cuGraphEventWaitNodeSetEvent = _cuGraphExecEventWaitNodeSetEvent = _set_event
    _cuGraphBatchMemOpNodeSetParams = _cuGraphExecBatchMemOpNodeSetParams = _set_batch
    _cuGraphNodeSetParams = _cuGraphNodeSetParams_v2 = _cuGraphExecNodeSetParams = _set_any

    def _cuGraphKernelNodeSetAttribute(self, a: dict[str, int], label: int | None) -> None:
        self._nodes[a["hNode"]][1].attributes[a["attr"]] = _bytes(a["value"], _VALUE_BYTES)

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
        _put(a["phGraphExec"], handle.to_bytes(8, "little"))
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
                _put(place + len(item) * position, item)
        _put(count_at, len(found).to_bytes(8, "little"))

    def _cuGraphGetNodes(self, a: dict[str, int], label: int | None) -> None:
        handles = [node.handle.to_bytes(8, "little") for node in self._graphs[a["hGraph"]]]
        self._list(handles, a["nodes"], a["numNodes"])

    def _dependencies(self, a: dict[str, int], label: int | None) -> None:
        edges = self._nodes[a["hNode"]][1].edges
        room = number(a["numDependencies"], 8)
        for position, (source, edge) in enumerate(edges[:room] if a["dependencies"] else ()):
            _put(a["dependencies"] + 8 * position, source.to_bytes(8, "little"))
            if a.get("edgeData"):
                _put(a["edgeData"] + 8 * position, edge)
        _put(a["numDependencies"], len(edges).to_bytes(8, "little"))

    _cuGraphNodeGetDependencies = _cuGraphNodeGetDependencies_v2 = _dependencies

    def _cuGraphNodeGetType(self, a: dict[str, int], label: int | None) -> None:
        _put(a["type"], self._nodes[a["hNode"]][1].kind.to_bytes(4, "little"))

    def _member_of(self, a: dict[str, int], label: int | None) -> None:
        out = next(value for name, value in a.items() if name != "hNode")
        _put(out, self._nodes[a["hNode"]][1].member)

    _cuGraphKernelNodeGetParams_v2 = _cuGraphBatchMemOpNodeGetParams = _member_of
    _cuGraphEventRecordNodeGetEvent = _cuGraphEventWaitNodeGetEvent = _member_of

    def _cuGraphNodeGetParams(self, a: dict[str, int], label: int | None) -> None:
        node = self._nodes[a["hNode"]][1]
        _put(a["nodeParams"], node.kind.to_bytes(4, "little") + bytes(12) + node.member)

    def _cuGraphKernelNodeGetAttribute(self, a: dict[str, int], label: int | None) -> None:
        value = self._nodes[a["hNode"]][1].attributes.get(a["attr"], bytes(_VALUE_BYTES))
        _put(a["value_out"], value)

    def _cuGraphChildGraphNodeGetGraph(self, a: dict[str, int], label: int | None) -> None:
        _put(a["phGraph"], self._nodes[a["hNode"]][1].child.to_bytes(8, "little"))


def number(address: int, size: int) -> int:
    return int.from_bytes(_bytes(address, size), "little")


# ---- random graphs -------------------------------------------------------------------------------------------


class GraphCaller:
    """Builds, changes and launches graphs with all functions there are for that."""

    def __init__(self, caller: Caller) -> None:
        self._caller, self._rng = caller, caller.rng

    def _out(self) -> int:
        return self._caller.buffer(bytes(8))

    def _call(self, symbol: str, *words: int) -> None:
        result = self._caller.call(symbol, list(words))
        assert result == 0, f"{symbol} was refused with {result}: {self._caller.recorder.errors}"

    def _made(self, symbol: str, *words: int) -> int:
        out = self._out()
        self._call(symbol, out, *words)
        return number(out, 8)

    def _kernel(self, with_kernel: bool, first: int = 0) -> bytes:
        caller, rng = self._caller, self._rng
        packed = struct.pack("<QI4xQ", first or caller.block(64), rng.getrandbits(28), caller.block(64))
        pointers = struct.pack(
            "<3Q", *(caller.buffer(packed[at : at + size]) for at, size in launches.LAYOUT)
        )
        geometry = struct.pack("<7I4x", *(rng.randrange(1, 9) for _ in range(7)))
        use_kernel = with_kernel and rng.random() < 0.5
        function = 0 if use_kernel else caller.object("CUfunction")
        tail = struct.pack("<QQ", caller.object("CUkernel") if use_kernel else 0, 0) if with_kernel else b""
        return struct.pack("<Q", function) + geometry + struct.pack("<QQ", caller.buffer(pointers), 0) + tail

    def _copy(self) -> bytes:
        return copies.device_rectangle(self._caller)

    def _fill(self) -> bytes:
        rng = self._rng
        return struct.pack(
            "<QQIIQQ", self._caller.block(256), 64, rng.getrandbits(8), 1, rng.randrange(1, 60), 1
        )

    def _batch(self) -> bytes:
        operations = b"".join(
            struct.pack("<I4xQQI20x", _WRITE_VALUE_32, self._caller.block(8), self._rng.getrandbits(32), 0)
            for _ in range(self._rng.randrange(1, 4))
        )
        count = len(operations) // _OPERATION_BYTES
        return struct.pack("<QI4xQI4x", self._caller.main, count, self._caller.buffer(operations), 0)

    def _event(self) -> int:
        return self._caller.object("CUevent")

    def _parameters(self, kind: int) -> bytes:
        """Of CUgraphNodeParams."""
        if kind == KERNEL:
            return self._kernel(True)
        if kind == MEMCPY:
            return struct.pack("<QQ", 0, self._caller.main) + self._copy()
        if kind == MEMSET:
            return self._fill() + struct.pack("<Q", self._caller.main)
        return self._batch() if kind == BATCH else struct.pack("<Q", self._event())

    def _any(self, kind: int) -> int:
        data = kind.to_bytes(4, "little") + bytes(12) + self._parameters(kind)
        return self._caller.buffer(data.ljust(256, b"\0"))

    def _add(self, symbol: str, graph: int, before: list[int], *words: int, edges: bool = False) -> int:
        dependencies = self._caller.buffer(struct.pack(f"<{len(before)}Q", *before))
        data = (self._caller.buffer(bytes(8 * len(before))),) if edges else ()
        return self._made(symbol, graph, dependencies, *data, len(before), *words)

    def build(self, child: int = 0) -> tuple[int, dict[int, list[int]]]:
        """A graph with nodes of every kind, by kind."""
        caller, buffer, main = self._caller, self._caller.buffer, self._caller.main
        graph = self._made("cuGraphCreate", 0)
        nodes: list[int] = []
        kinds: dict[int, list[int]] = {}
        ways: list[tuple[int, str, Any]] = [
            (KERNEL, "cuGraphAddKernelNode", lambda: (buffer(self._kernel(False)),)),
            (KERNEL, "cuGraphAddKernelNode_v2", lambda: (buffer(self._kernel(True)),)),
            (MEMCPY, "cuGraphAddMemcpyNode", lambda: (buffer(self._copy()), main)),
            (MEMSET, "cuGraphAddMemsetNode", lambda: (buffer(self._fill()), main)),
            (EMPTY, "cuGraphAddEmptyNode", lambda: ()),
            (SIGNAL, "cuGraphAddExternalSemaphoresSignalNode", lambda: (buffer(bytes(24)),)),
            (RECORD, "cuGraphAddEventRecordNode", lambda: (self._event(),)),
            (WAIT, "cuGraphAddEventWaitNode", lambda: (self._event(),)),
            (BATCH, "cuGraphAddBatchMemOpNode", lambda: (buffer(self._batch()),)),
            *(
                (kind, f"cuGraphAddNode{version}", lambda kind=kind: (self._any(kind),))
                for version in ("", "_v2", "_v3")
                for kind in (self._rng.choice([KERNEL, MEMSET]), self._rng.choice([MEMCPY, RECORD, WAIT]))
            ),
        ]
        if child:
            ways.append((CHILD, "cuGraphAddChildGraphNode", lambda: (child,)))
            version = self._rng.choice(["", "_v2", "_v3"])
            ways.append((CONDITIONAL, f"cuGraphAddNode{version}", lambda: (self._conditional(graph),)))
        self._rng.shuffle(ways)
        for kind, symbol, words in ways:
            before = self._rng.sample(nodes, self._rng.randrange(min(len(nodes), 3) + 1))
            edges = symbol in ("cuGraphAddNode_v2", "cuGraphAddNode_v3")
            given = words()
            node = self._add(symbol, graph, before, *given, edges=edges)
            if kind == CONDITIONAL:
                self._fill_bodies(given[0])
            nodes.append(node)
            kinds.setdefault(kind, []).append(node)
        self._edges(graph, nodes)
        caller.call("cuGraphDestroyNode", [kinds[EMPTY].pop()])
        self._attributes(kinds[KERNEL])
        return graph, kinds

    def _conditional(self, graph: int) -> int:
        """CUgraphNodeParams of one whose handle is of this graph."""
        kind, value, flags = self._rng.randrange(3), self._rng.randrange(1 << 30), self._rng.randrange(2)
        handle = self._made("cuGraphConditionalHandleCreate", graph, self._caller.main, value, flags)
        count = (self._rng.randrange(1, 3), 1, self._rng.randrange(1, 5))[kind]
        member = struct.pack("<QIIQQ", handle, kind, count, 0, self._caller.main)
        return self._caller.buffer((CONDITIONAL.to_bytes(4, "little") + bytes(12) + member).ljust(256, b"\0"))

    def _fill_bodies(self, parameters: int) -> None:
        handle, count, at = (
            number(parameters + 16, 8),
            number(parameters + 28, 4),
            number(parameters + _BODIES, 8),
        )
        for body in range(count):
            graph = number(at + 8 * body, 8)
            first = self._add(
                "cuGraphAddKernelNode_v2", graph, [], self._caller.buffer(self._kernel(True, handle))
            )
            self._add(
                "cuGraphAddMemsetNode", graph, [first], self._caller.buffer(self._fill()), self._caller.main
            )

    def _edges(self, graph: int, nodes: list[int]) -> None:
        first = self._add("cuGraphAddEmptyNode", graph, [])
        for version in ("", "_v2"):
            data = (self._caller.buffer(bytes(16)),) if version else ()
            for target in self._rng.sample(nodes, 2):
                pair = (
                    self._caller.buffer(struct.pack("<Q", first)),
                    self._caller.buffer(struct.pack("<Q", target)),
                )
                self._call(f"cuGraphAddDependencies{version}", graph, *pair, *data, 1)
            self._call(f"cuGraphRemoveDependencies{version}", graph, *pair, *data, 1)

    def _attributes(self, kernels: list[int]) -> None:
        priority = self._caller.buffer(
            struct.pack("<i", self._rng.randrange(1, 4)).ljust(_VALUE_BYTES, b"\0")
        )
        self._call("cuGraphKernelNodeSetAttribute", kernels[0], 8, priority)
        window = struct.pack("<QQfII", self._caller.block(256), 128, 0.5, 1, 2).ljust(_VALUE_BYTES, b"\0")
        self._call("cuGraphKernelNodeSetAttribute", kernels[0], 1, self._caller.buffer(window))
        self._call("cuGraphKernelNodeCopyAttributes", kernels[1], kernels[0])

    def change(self, kinds: dict[int, list[int]], executable: int = 0) -> None:
        """Give nodes other parameters: of the graph, or of an executable one, which is launched after each change."""
        buffer, main, pick = self._caller.buffer, self._caller.main, self._rng.choice
        over = "Exec" if executable else ""
        head = (executable,) if executable else ()
        context = (main,) if executable else ()
        for symbol, kind, words in (
            ("KernelNodeSetParams", KERNEL, lambda: (buffer(self._kernel(False)),)),
            ("KernelNodeSetParams_v2", KERNEL, lambda: (buffer(self._kernel(True)),)),
            ("MemcpyNodeSetParams", MEMCPY, lambda: (buffer(self._copy()), *context)),
            ("MemsetNodeSetParams", MEMSET, lambda: (buffer(self._fill()), *context)),
            ("EventRecordNodeSetEvent", RECORD, lambda: (self._event(),)),
            ("EventWaitNodeSetEvent", WAIT, lambda: (self._event(),)),
            ("BatchMemOpNodeSetParams", BATCH, lambda: (buffer(self._batch()),)),
            ("ExternalSemaphoresSignalNodeSetParams", SIGNAL, lambda: (buffer(bytes(24)),)),
            ("NodeSetParams", MEMSET, lambda: (self._any(MEMSET),)),
            *(() if executable else (("NodeSetParams_v2", KERNEL, lambda: (self._any(KERNEL),)),)),
        ):
            self._call(f"cuGraph{over}{symbol}", *head, pick(kinds[kind]), *words())
            if executable:
                self.launch(executable)

    def launch(self, executable: int) -> None:
        symbol = self._rng.choice(["cuGraphLaunch", "cuGraphLaunch_ptsz"])
        self._call(symbol, executable, self._caller.object("CUstream"))

    def instantiate(self, symbol: str, graph: int) -> int:
        words = {
            "cuGraphInstantiateWithFlags": (0,),
            "cuGraphInstantiateWithParams": (self._caller.buffer(bytes(32)),),
        }.get(symbol, (0, 0, 0))
        if symbol == "cuGraphInstantiateWithParams_ptsz":
            words = (self._caller.buffer(bytes(32)),)
        return self._made(symbol, graph, *words)

    def _update(self, symbol: str, executable: int, graph: int, kinds: dict[int, list[int]]) -> None:
        self.change(kinds)
        report = (
            (self._out(), self._out()) if symbol == "cuGraphExecUpdate" else (self._caller.buffer(bytes(24)),)
        )
        self._call(symbol, executable, graph, *report)
        self.launch(executable)

    def _change_nodes(self, executable: int, kinds: dict[int, list[int]], inner: int) -> None:
        self.change(kinds, executable)
        for enabled in (1, 0):
            self._call("cuGraphNodeSetEnabled", executable, self._rng.choice(kinds[KERNEL]), enabled)
            self.launch(executable)
        other = self._made("cuGraphClone", inner)
        self._call("cuGraphExecChildGraphNodeSetParams", executable, kinds[CHILD][0], other)
        self.launch(executable)

    def capture(self, begin: str, end: str, update: str) -> int:
        """A graph of two kernels beside each other behind a third, from a stream. Gives it made executable."""
        stream, graph, kernels = self._caller.object("CUstream"), 0, []
        for _ in range(3):  # while a stream is captured, no memory may be touched for the first time
            kernels.append(self._caller.words_for("cuLaunchKernel", hStream=stream))
        if "ToGraph" in begin:
            graph = self._made("cuGraphCreate", 0)
            first = self._caller.buffer(struct.pack("<Q", self._add("cuGraphAddEmptyNode", graph, [])))
            self._call(begin, stream, graph, first, 0, 1, 0)
        else:
            self._call(begin, stream, *([0] if "_v2" in begin else []))
        self._call("cuLaunchKernel", *kernels.pop())
        after_first = self._caller.recorder.graphs.frontier(stream)
        self._call("cuLaunchKernel", *kernels.pop())
        place = self._caller.buffer(struct.pack(f"<{len(after_first)}Q", *after_first))
        edges = [0] if "_v2" in update else []
        self._call(update, stream, place, *edges, len(after_first), _SET_DEPENDENCIES)
        self._call("cuLaunchKernel", *kernels.pop())
        captured = self._caller.buffer(bytes(8))
        self._call(end, stream, captured)
        return self.instantiate("cuGraphInstantiateWithFlags", number(captured, 8))

    def captures(self) -> None:
        """Every function that begins, changes and ends the capture of a stream."""
        begins = ("cuStreamBeginCapture", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph")
        for twin in ("", "_ptsz"):
            for place, begin in enumerate(begins):
                version = "_v2" if place % 2 else ""
                update = f"cuStreamUpdateCaptureDependencies{version}{twin}"
                executable = self.capture(begin + twin, f"cuStreamEndCapture{twin}", update)
                self.launch(executable)
                self._call("cuGraphExecDestroy", executable)

    def everything(self) -> list[int]:
        """Every function that builds, changes and launches graphs. Gives the executable graphs that are left."""
        left: list[int] = []
        inner, _ = self.build()
        for place, symbol in enumerate(
            (
                "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags",
                "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz",
            )
        ):  # fmt: skip
            graph, kinds = self.build(inner)
            self.change(kinds)
            executable = self.instantiate(symbol, graph)
            self._call(self._rng.choice(["cuGraphUpload", "cuGraphUpload_ptsz"]), executable, 0)
            self.launch(executable)
            steps = [
                partial(self._update, "cuGraphExecUpdate", executable, graph, kinds),
                partial(self._update, "cuGraphExecUpdate_v2", executable, graph, kinds),
                partial(self._change_nodes, executable, kinds, inner),
            ]
            for step in steps[place % 3 :] + steps[: place % 3]:  # what comes last is what a setup has
                step()
            self._call("cuGraphDestroy", graph)
            left.append(executable)
        for symbol in ("cuGraphUpload", "cuGraphUpload_ptsz", "cuGraphLaunch", "cuGraphLaunch_ptsz"):
            executable = self.instantiate("cuGraphInstantiate_v2", inner)
            self._call(symbol, executable, self._caller.object("CUstream"))
            self._call("cuGraphExecDestroy", executable)
        return left
