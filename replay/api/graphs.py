"""Descriptions of graphs, as the shim writes them when a graph is made executable; the layout is in
`replay/raw/FORMAT.md`.

They come from a stranger's file: every count and length is checked against the bytes that are there.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from replay.api import structs, table  # noqa: F401  (the rows of `table` fill ROWS)
from replay.api.extents import VALUE_OPERATIONS
from replay.api.parts import part_key
from replay.api.rows import ROWS
from replay.api.structs import LaunchAttributeId
from replay.api.vocabulary import Effect
from replay.api.vocabulary import NodeType as NodeType
from replay.records import dataclass

VERSION = 1
MAXIMUM_NODES = 1 << 20  # in one description, child graphs included
MAXIMUM_DEPTH = 16


def _of(*effects: Effect) -> dict[str, str]:
    """The functions with one of these effects, and the key of the input that holds the description."""
    return {row[1]: part_key(row[4][0], 1) if row[4] else "" for row in ROWS if row[3] in effects}


MAKERS = frozenset(_of(Effect.GRAPH))
UPDATES = frozenset(_of(Effect.GRAPH_UPDATE))
CHILD_CHANGE = "cuGraphExecChildGraphNodeSetParams"
ENABLE = "cuGraphNodeSetEnabled"

# function -> the key of the input that holds the description
DESCRIBED = _of(Effect.GRAPH, Effect.GRAPH_UPDATE, Effect.GRAPH_NODE)

# Recorded when the next window opens, unless one is open (interposer/graph/changes.c)
WAITING = frozenset(_of(Effect.GRAPH_UPDATE, Effect.GRAPH_NODE, Effect.GRAPH_ENABLE))

# What the content of executable graphs follows from
CHANGING = WAITING | MAKERS | {"cuGraphExecDestroy"}

_PAIR = struct.Struct("<II")
_HEAD = struct.Struct("<QIIII")  # handle, type, dependencies, parts, zero
_DEPENDENCY = struct.Struct("<II8s")
_U64 = struct.Struct("<Q")


class Part(enum.IntEnum):
    """What a node's description consists of: `replay/raw/FORMAT.md`."""

    PARAMETERS = 1  # the member of CUgraphNodeParams that belongs to the node's type
    BUFFER = 2  # packed kernel parameters
    LAYOUT = 3
    ATTRIBUTES = 4  # CUlaunchAttribute each
    NAME = 5
    KERNEL = 6  # pairs of CUfunction_attribute and value
    OPERATIONS = 7
    ACCESS = 8
    CHILD = 9
    PROBLEM = 10
    CONDITION = 11
    BODY = 12  # of a conditional node, one after another
    ORIGIN = 13  # the stack that the call came from by which the node was added or captured


# The members of CUgraphNodeParams, as far as descriptions hold them
_MEMBERS: dict[int, type[ctypes.Structure]] = {
    NodeType.KERNEL: structs.CUDA_KERNEL_NODE_PARAMS,
    NodeType.MEMCPY: structs.CUDA_MEMCPY_NODE_PARAMS,
    NodeType.MEMSET: structs.CUDA_MEMSET_NODE_PARAMS_v2,
    NodeType.HOST: structs.CUDA_HOST_NODE_PARAMS,
    NodeType.WAIT_EVENT: structs.CUDA_EVENT_WAIT_NODE_PARAMS,
    NodeType.EVENT_RECORD: structs.CUDA_EVENT_WAIT_NODE_PARAMS,  # as which its own begins
    NodeType.MEM_ALLOC: structs.CUDA_MEM_ALLOC_NODE_PARAMS,
    NodeType.MEM_FREE: structs.CUDA_MEM_FREE_NODE_PARAMS,
    NodeType.BATCH_MEM_OP: structs.CUDA_BATCH_MEM_OP_NODE_PARAMS,
    NodeType.CONDITIONAL: structs.CUDA_CONDITIONAL_NODE_PARAMS,
}

# What the driver is asked for the parameters of a node, and the field of the member that it fills; "": all of it
QUESTIONS: dict[int, tuple[str, str]] = {
    NodeType.KERNEL: ("cuGraphKernelNodeGetParams_v2", ""),
    NodeType.MEMCPY: ("cuGraphMemcpyNodeGetParams", "copyParams"),
    NodeType.MEMSET: ("cuGraphMemsetNodeGetParams", ""),
    NodeType.HOST: ("cuGraphHostNodeGetParams", ""),
    NodeType.GRAPH: ("cuGraphChildGraphNodeGetGraph", ""),
    NodeType.WAIT_EVENT: ("cuGraphEventWaitNodeGetEvent", ""),
    NodeType.EVENT_RECORD: ("cuGraphEventRecordNodeGetEvent", ""),
    NodeType.MEM_ALLOC: ("cuGraphMemAllocNodeGetParams", ""),
    NodeType.MEM_FREE: ("cuGraphMemFreeNodeGetParams", ""),
    NodeType.BATCH_MEM_OP: ("cuGraphBatchMemOpNodeGetParams", ""),
}


def node_kinds() -> Iterator[tuple[NodeType, str, int, int, int]]:
    """Of each type of node that has parameters: the question for them ("": none), the bytes of their member of
    CUgraphNodeParams, and where in it the answer goes and where the context is that a change names (0: none)."""
    for kind in NodeType:
        question, answer = QUESTIONS.get(kind, ("", ""))
        member = _MEMBERS.get(kind)
        context = next((name for name in ("copyCtx", "ctx") if question and hasattr(member, name)), "")
        first, second = (int(getattr(member, name).offset) if name else 0 for name in (answer, context))
        if question:
            yield kind, question, ctypes.sizeof(member) if member else 0, first, second


# The launch attributes that the driver has for nodes of graphs
NODE_ATTRIBUTES = (
    LaunchAttributeId.ACCESS_POLICY_WINDOW,
    LaunchAttributeId.COOPERATIVE,
    LaunchAttributeId.CLUSTER_DIMENSION,
    LaunchAttributeId.CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    LaunchAttributeId.PRIORITY,
    LaunchAttributeId.MEM_SYNC_DOMAIN_MAP,
    LaunchAttributeId.MEM_SYNC_DOMAIN,
    LaunchAttributeId.PREFERRED_CLUSTER_DIMENSION,
    LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE,
    LaunchAttributeId.PREFERRED_SHARED_MEMORY_CARVEOUT,
    LaunchAttributeId.NVLINK_UTIL_CENTRIC_SCHEDULING,
)


def _is_set(attribute: Any) -> bool:
    """Whether somebody has set it: the driver gives others as well."""
    if attribute.id in (
        LaunchAttributeId.CLUSTER_DIMENSION,
        LaunchAttributeId.PREFERRED_CLUSTER_DIMENSION,
    ):
        size = attribute.value.clusterDim
        return int(max(size.x, size.y, size.z)) > 1
    if attribute.id == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:
        return bool(attribute.value.deviceUpdatableKernelNode.deviceUpdatable)
    return True


@dataclass(frozen=True)
class Dependency:
    """An edge to a node: the position of the node that it comes from, and the bytes of its CUgraphEdgeData."""

    node: int
    edge: bytes = bytes(8)


@dataclass(frozen=True)
class Condition:
    """What decides over a conditional node. handle, context: captured. steps_outward: from the node's graph to the one
    that the handle was made for, which holds it; 0: the same."""

    handle: int
    context: int
    type: int  # CUgraphConditionalNodeType
    default_value: int
    flags: int
    steps_outward: int


_CONDITION = struct.Struct("<IIII")


@dataclass(frozen=True)
class Node:
    """One node. handle: the captured CUgraphNode. dependencies: in the order of the edges, of nodes of the same graph.

    child: the graph inside a child graph node; bodies: those inside a conditional node. problem: why it cannot be
    replayed, "" when it can. chosen: what whoever replays it does to words of its parameters (`engine`).
    """

    handle: int
    type: int
    dependencies: tuple[Dependency, ...] = ()
    parts: dict[int, bytes] = field(default_factory=dict)
    child: Graph | None = None
    problem: str = ""
    bodies: tuple[Graph, ...] = ()
    chosen: list[Any] = field(default_factory=list, compare=False)

    @property
    def parameters(self) -> bytes:
        """The member of CUgraphNodeParams that belongs to its type; b"" where there is none."""
        return self.parts.get(Part.PARAMETERS, b"")

    @cached_property
    def fields(self) -> Any:
        """The parameters, by the names of cuda.h. Raises ValueError where there are none."""
        return structs.read_struct(_MEMBERS[self.type], self.parameters)

    @property
    def type_name(self) -> str:
        """As people call it: "kernel", "mem alloc"."""
        try:
            return NodeType(self.type).name.lower().replace("_", " ")
        except ValueError:
            return f"type {self.type}"

    @property
    def inside(self) -> tuple[Graph, ...]:
        """The graphs in it."""
        return self.bodies if self.child is None else (self.child,)

    @property
    def condition(self) -> Condition | None:
        """Of a conditional node that can be replayed."""
        data = self.parts.get(Part.CONDITION, b"")
        if self.type != NodeType.CONDITIONAL or self.problem or len(data) != _CONDITION.size:
            return None
        default_value, flags, steps_outward, _ = _CONDITION.unpack(data)
        given = self.fields
        return Condition(given.handle, given.ctx, given.type, default_value, flags, steps_outward)

    @property
    def device_handle(self) -> int:
        """The captured CUgraphDeviceNode by which kernels may change a kernel node; 0: none may."""
        for attribute in self.attributes():
            node = attribute.value.deviceUpdatableKernelNode
            if attribute.id == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:
                return int(node.devNode)
        return 0

    @property
    def function(self) -> tuple[str, int]:
        """C type and captured handle of what a kernel node launches."""
        return ("CUfunction", self.fields.func) if self.fields.func else ("CUkernel", self.fields.kern)

    @property
    def geometry(self) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
        """Grid in blocks, block in threads, dynamic shared memory in bytes of a kernel node."""
        return structs.geometry(self.fields)

    @property
    def name(self) -> str:
        """Of the kernel, mangled, as the driver gave it; "" when it did not."""
        return self.parts.get(Part.NAME, b"").decode("utf-8", "replace")

    @property
    def stack(self) -> int:
        """Of a kernel node where it was added or captured, as a number of the raw capture; 0: not known."""
        return int.from_bytes(self.parts.get(Part.ORIGIN, b"")[:4], "little")

    def handles(self) -> Iterator[tuple[str, int]]:
        """C type and captured value of every handle that its parameters hold."""
        if not self.parameters:
            return
        if self.type == NodeType.KERNEL:
            yield self.function
        elif self.type == NodeType.MEMCPY:
            yield from (
                ("CUarray", handle) for handle in structs.copied_arrays(bytes(self.fields.copyParams))
            )
        elif self.type in (NodeType.WAIT_EVENT, NodeType.EVENT_RECORD):
            yield "CUevent", self.fields.event
        if self.context is not None:
            yield "CUcontext", self.context

    def addresses(self) -> Iterator[int]:
        """Captured addresses that its work uses, and words of kernel parameters, which may be some."""
        if self.type == NodeType.KERNEL:
            buffer = self.parts.get(Part.BUFFER, b"")
            yield from (word for (word,) in _U64.iter_unpack(buffer[: len(buffer) // 8 * 8]))
        elif not self.parameters:
            return
        elif self.type == NodeType.MEMCPY:
            copy = self.fields.copyParams
            yield from (copy.srcHost, copy.srcDevice, copy.dstHost, copy.dstDevice)
        elif self.type == NodeType.MEMSET:
            yield self.fields.dst
        elif self.type == NodeType.BATCH_MEM_OP:
            for operation in self.operations():
                if operation.operation in VALUE_OPERATIONS:
                    yield operation.waitValue.address

    @property
    def context(self) -> int | None:
        """The captured context that its parameters name; None where they name none."""
        return getattr(self.fields, "copyCtx", getattr(self.fields, "ctx", None))

    def operations(self) -> list[Any]:
        """The memory operations of a batch node, CUstreamBatchMemOpParams each."""
        data = self.parts.get(Part.OPERATIONS, b"")
        return list(structs.read_structs(structs.CUstreamBatchMemOpParams, data))

    def attributes(self) -> list[Any]:
        """The launch attributes of a kernel node that somebody has set, CUlaunchAttribute each."""
        found = structs.read_launch_attributes(self.parts.get(Part.ATTRIBUTES, b""))
        return [attribute for attribute in found if _is_set(attribute)]

    @property
    def memory(self) -> tuple[int, int]:
        """Address and bytes of what an allocation node allocates."""
        return self.fields.dptr, self.fields.bytesize


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which they were made."""

    nodes: tuple[Node, ...] = ()

    def all_nodes(self) -> Iterator[Node]:
        """Every node, each followed by the nodes inside it."""
        for node in self.nodes:
            yield node
            for graph in node.inside:
                yield from graph.all_nodes()

    def conditions(self, depth: int = 0) -> Iterator[Condition]:
        """Those whose handles are made for this graph, wherever inside it their nodes are."""
        for node in self.nodes:
            if node.condition is not None and node.condition.steps_outward == depth:
                yield node.condition
            for graph in node.inside:
                yield from graph.conditions(depth + 1)

    def order(self) -> list[int]:
        """Positions of the nodes, each after those it depends on, else in their order. ValueError: it has a cycle."""
        waiting = [len(node.dependencies) for node in self.nodes]
        after: list[list[int]] = [[] for _ in self.nodes]
        for place, node in enumerate(self.nodes):
            for dependency in node.dependencies:
                after[dependency.node].append(place)
        import heapq

        ready = [place for place, count in enumerate(waiting) if not count]
        found: list[int] = []
        while ready:
            place = heapq.heappop(ready)
            found.append(place)
            for later in after[place]:
                waiting[later] -= 1
                if not waiting[later]:
                    heapq.heappush(ready, later)
        if len(found) != len(self.nodes):
            raise ValueError("the graph has a cycle")
        return found


@dataclass(frozen=True)
class Description:
    """A graph, and the captured context that was current when it was described."""

    context: int
    graph: Graph


def parse_description(data: bytes) -> Description:
    """Raises ValueError for bytes that are no description of a graph."""
    try:
        version, _ = _PAIR.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"a graph is described in version {version}, and this replay reads {VERSION}")
        (context,) = _U64.unpack_from(data, 8)
        graph, _ = _parse_graph(data, 16, len(data), 0, [0])
    except struct.error as error:
        raise ValueError(f"the description of a graph ends early ({error})") from None
    return Description(context, graph)


def _parse_graph(data: bytes, at: int, end: int, depth: int, nodes_seen: list[int]) -> tuple[Graph, int]:
    if depth > MAXIMUM_DEPTH:
        raise ValueError("graphs are nested too deeply")
    count, _ = _PAIR.unpack_from(data, at)
    at += _PAIR.size
    nodes_seen[0] += count
    if nodes_seen[0] > MAXIMUM_NODES or count * _HEAD.size > end - at:
        raise ValueError(f"a graph of {count} nodes in {end - at} bytes")
    nodes = []
    for _ in range(count):
        node, at = _parse_node(data, at, end, depth, nodes_seen, count)
        nodes.append(node)
    return Graph(tuple(nodes)), at


def _parse_node(
    data: bytes, at: int, end: int, depth: int, nodes_seen: list[int], count: int
) -> tuple[Node, int]:
    handle, kind, dependency_count, part_count, _ = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    if dependency_count * _DEPENDENCY.size > end - at or part_count * _PAIR.size > end - at:
        raise ValueError(f"a node with {dependency_count} dependencies and {part_count} parts")
    dependencies = []
    for _ in range(dependency_count):
        place, _, edge = _DEPENDENCY.unpack_from(data, at)
        at += _DEPENDENCY.size
        if place >= count:
            raise ValueError(f"a node depends on node {place} of {count}")
        dependencies.append(Dependency(place, edge))
    parts: dict[int, bytes] = {}
    child = None
    bodies: list[Graph] = []
    for _ in range(part_count):
        part, length = _PAIR.unpack_from(data, at)
        at += _PAIR.size
        if length > end - at:
            raise ValueError(f"a part of {length} bytes in {end - at}")
        if part in (Part.CHILD, Part.BODY):
            graph, _ = _parse_graph(data, at, at + length, depth + 1, nodes_seen)
            if part == Part.CHILD:
                child = graph
            else:
                bodies.append(graph)
        elif part == Part.PROBLEM and part in parts:
            parts[part] += b"; " + data[at : at + length]
        else:
            parts[part] = data[at : at + length]
        at += -(-length // 8) * 8
    node = Node(handle, kind, tuple(dependencies), parts, child, bodies=tuple(bodies))
    return replace(node, problem=_problem(node)), at


_REFUSED: dict[int, str] = {
    NodeType.HOST: "a host function is the application's own code",
    NodeType.SEMAPHORE_WAIT: "it waits for another process or interface, which writes memory that is not captured",
}


def _problem(node: Node) -> str:
    wanted = ctypes.sizeof(_MEMBERS[node.type]) if node.type in _MEMBERS else 0
    told = Part.PROBLEM in node.parts
    whole = len(node.parameters) in ((0, wanted) if told or not wanted else (wanted,))
    if not whole:
        raise ValueError(f"a {node.type_name} node whose parts have broken lengths")
    node.operations(), node.attributes()  # which raise ValueError for a broken length
    if told:
        return node.parts[Part.PROBLEM].decode("utf-8", "replace") or "the driver did not say what it does"
    if node.type in _REFUSED:
        return _REFUSED[node.type]
    if node.type == NodeType.CONDITIONAL:
        known = len(node.parts.get(Part.CONDITION, b"")) == _CONDITION.size
        known = known and len(node.bodies) == node.fields.size
        return "" if known else "the graphs in it were not described"
    if node.type == NodeType.GRAPH:
        return "" if node.child is not None else "its graph was not described"
    # A replay has nobody who waits for a signal.
    return (
        "" if wanted or node.type in (NodeType.EMPTY, NodeType.SEMAPHORE_SIGNAL) else "its type is not known"
    )


def layout_of(node: Node) -> list[tuple[int, int]]:
    """Offset and size of each parameter of a kernel node. Raises ValueError when one lies outside the buffer."""
    data, size = node.parts.get(Part.LAYOUT, b""), len(node.parts.get(Part.BUFFER, b""))
    slots = list(_PAIR.iter_unpack(data[: len(data) // 8 * 8]))
    if any(offset + width > size for offset, width in slots):
        raise ValueError("the layout of a kernel's parameters exceeds their buffer")
    return slots


def memory_left_over(graph: Graph) -> tuple[dict[int, int], set[int]]:
    """What a launch leaves allocated (address -> bytes), and what it frees without having allocated it."""
    allocated = {
        n.memory[0]: n.memory[1] for n in graph.all_nodes() if n.type == NodeType.MEM_ALLOC and n.parameters
    }
    freed = {n.fields.dptr for n in graph.all_nodes() if n.type == NodeType.MEM_FREE and n.parameters}
    return {a: b for a, b in allocated.items() if a not in freed}, freed - allocated.keys()
