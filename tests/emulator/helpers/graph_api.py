"""Structures of graphs for ctypes, and the few steps that every graph test takes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import driver_api as api
from driver_api import Driver

# Node types, update results and errors of cuda.h.
KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, WAIT_EVENT, EVENT_RECORD = range(8)
MEM_ALLOC, MEM_FREE, BATCH_MEM_OP, CONDITIONAL = 10, 11, 12, 13
UPDATE_SUCCESS, UPDATE_ERROR, TOPOLOGY_CHANGED, NODE_TYPE_CHANGED = 0, 1, 2, 3
FUNCTION_CHANGED, PARAMETERS_CHANGED, UPDATE_NOT_SUPPORTED, ATTRIBUTES_CHANGED = 4, 5, 6, 8
ILLEGAL_STATE, LOSSY_QUERY, UPDATE_FAILURE = 401, 402, 910
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT = range(900, 907)
CAPTURED_EVENT, WRONG_THREAD = 907, 908
GLOBAL_MODE, THREAD_LOCAL_MODE, RELAXED_MODE = range(3)
HOST_MEMORY, DEVICE_MEMORY = 1, 2

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class KernelNode(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class FillNode(ctypes.Structure):
    _fields_ = [
        ("destination", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class Copy3D(ctypes.Structure):
    _fields_ = [
        (side + name, kind)
        for side in ("src", "dst")
        for name, kind in (
            ("XInBytes", ctypes.c_size_t),
            ("Y", ctypes.c_size_t),
            ("Z", ctypes.c_size_t),
            ("LOD", ctypes.c_size_t),
            ("MemoryType", ctypes.c_int),
            ("Host", ctypes.c_void_p),
            ("Device", ctypes.c_uint64),
            ("Array", ctypes.c_void_p),
            ("reserved", ctypes.c_void_p),
            ("Pitch", ctypes.c_size_t),
            ("Height", ctypes.c_size_t),
        )
    ] + [("WidthInBytes", ctypes.c_size_t), ("Height", ctypes.c_size_t), ("Depth", ctypes.c_size_t)]


class HostNode(ctypes.Structure):
    _fields_ = [("function", HostFunction), ("data", ctypes.c_void_p)]


class PoolProperties(ctypes.Structure):
    _fields_ = [
        ("allocation_type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("max_bytes", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    ]


class AllocNode(ctypes.Structure):
    _fields_ = [
        ("pool", PoolProperties),
        ("access", ctypes.c_void_p),
        ("access_count", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("address", ctypes.c_uint64),
    ]


class ConditionalNode(ctypes.Structure):
    _fields_ = [
        ("handle", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("count", ctypes.c_uint),
        ("bodies", ctypes.c_void_p),
        ("context", ctypes.c_uint64),
    ]


class EdgeData(ctypes.Structure):
    _fields_ = [
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 5),
    ]


class NodeParameters(ctypes.Structure):
    """CUgraphNodeParams; `body` is the union."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("reserved0", ctypes.c_int * 3),
        ("body", ctypes.c_ubyte * 232),
        ("reserved2", ctypes.c_longlong),
    ]

    @classmethod
    def of(cls, kind: int, body: ctypes.Structure | None = None) -> NodeParameters:
        parameters = cls(kind)
        if body is not None:
            ctypes.memmove(parameters.body, ctypes.addressof(body), ctypes.sizeof(body))
        return parameters


class UpdateInfo(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_uint64), ("from_node", ctypes.c_uint64)]


class InstantiateParameters(ctypes.Structure):
    _fields_ = [
        ("flags", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("error_node", ctypes.c_uint64),
        ("result", ctypes.c_int),
    ]


def handles(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * max(len(values), 1))(*values)


def kernel_node(
    function: int, grid: int, block: int, values: Sequence[object]
) -> tuple[KernelNode, tuple[object, object]]:
    """Parameters of a kernel node, and what must stay alive until they have been used."""
    pointers, kept = api.parameter_array(values)
    node = KernelNode(
        function,
        (ctypes.c_uint * 3)(grid, 1, 1),
        (ctypes.c_uint * 3)(block, 1, 1),
        0,
        ctypes.addressof(pointers),
    )
    return node, (pointers, kept)


def copy_1d(destination: int, source: int, size: int) -> Copy3D:
    """A copy of device memory."""
    return Copy3D(
        srcMemoryType=DEVICE_MEMORY,
        srcDevice=source,
        dstMemoryType=DEVICE_MEMORY,
        dstDevice=destination,
        WidthInBytes=size,
        Height=1,
        Depth=1,
    )


class Graphs:
    """Graph calls on a driver, each raising when it fails."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def create(self) -> int:
        return self.driver.make("cuGraphCreate", 0)

    def _add(self, name: str, graph: int, after: Sequence[int], *rest: object) -> int:
        return self.driver.make(name, graph, handles(after), len(after), *rest)

    def empty(self, graph: int, after: Sequence[int] = ()) -> int:
        return self._add("cuGraphAddEmptyNode", graph, after)

    def fill(
        self, graph: int, after: Sequence[int], address: int, value: int, count: int, element_bytes: int = 4
    ) -> int:
        node = FillNode(address, 0, value, element_bytes, count, 1)
        return self._add("cuGraphAddMemsetNode", graph, after, api.out(node), self.driver.context)

    def copy(self, graph: int, after: Sequence[int], destination: int, source: int, size: int) -> int:
        node = copy_1d(destination, source, size)
        return self._add("cuGraphAddMemcpyNode", graph, after, api.out(node), self.driver.context)

    def kernel(
        self, graph: int, after: Sequence[int], function: int, grid: int, block: int, values: Sequence[object]
    ) -> int:
        node, kept = kernel_node(function, grid, block, values)
        made = self._add("cuGraphAddKernelNode_v2", graph, after, api.out(node))
        del kept
        return made

    def host(self, graph: int, after: Sequence[int], function: object, data: int = 0) -> int:
        return self._add("cuGraphAddHostNode", graph, after, api.out(HostNode(function, data)))

    def child(self, graph: int, after: Sequence[int], child: int) -> int:
        return self._add("cuGraphAddChildGraphNode", graph, after, child)

    def condition(self, graph: int, value: int, assigns: bool) -> int:
        """A conditional handle; `value` is what each launch begins with if it assigns that."""
        made = self.driver.make(
            "cuGraphConditionalHandleCreate", graph, self.driver.context, value, int(assigns)
        )
        return int(made)

    def conditional(
        self, graph: int, after: Sequence[int], handle: int, kind: int, count: int
    ) -> tuple[int, list[int]]:
        """The node, and the graphs in it."""
        node = ConditionalNode(handle, kind, count, None, self.driver.context)
        parameters = NodeParameters.of(CONDITIONAL, node)
        made = self._add("cuGraphAddNode", graph, after, api.out(parameters))
        bodies = ConditionalNode.from_buffer(parameters.body).bodies
        return made, list((ctypes.c_uint64 * count).from_address(bodies))

    def allocate(self, graph: int, after: Sequence[int], size: int) -> tuple[int, int]:
        """The node and the address."""
        node = AllocNode(PoolProperties(1, 0, 1, 0), None, 0, size)
        made = self._add("cuGraphAddMemAllocNode", graph, after, api.out(node))
        return made, node.address

    def free(self, graph: int, after: Sequence[int], address: int) -> int:
        return self._add("cuGraphAddMemFreeNode", graph, after, address)

    def instantiate(self, graph: int, flags: int = 0) -> int:
        return self.driver.make("cuGraphInstantiateWithFlags", graph, flags)

    def run(self, executable: int, stream: int = 0) -> None:
        self.driver.do("cuGraphLaunch", executable, stream)
        self.driver.do("cuStreamSynchronize", stream)

    def nodes(self, graph: int) -> list[int]:
        return self._listed("cuGraphGetNodes", graph)

    def roots(self, graph: int) -> list[int]:
        return self._listed("cuGraphGetRootNodes", graph)

    def dependencies(self, node: int) -> list[int]:
        return self._listed("cuGraphNodeGetDependencies", node)

    def dependents(self, node: int) -> list[int]:
        return self._listed("cuGraphNodeGetDependentNodes", node)

    def _listed(self, name: str, handle: int) -> list[int]:
        count = ctypes.c_size_t()
        self.driver.do(name, handle, None, api.out(count))
        found = handles([0] * count.value)
        self.driver.do(name, handle, found, api.out(count))
        return list(found)[: count.value]

    def edges(self, graph: int) -> list[tuple[int, int]]:
        count = ctypes.c_size_t()
        self.driver.do("cuGraphGetEdges", graph, None, None, api.out(count))
        sources, targets = handles([0] * count.value), handles([0] * count.value)
        self.driver.do("cuGraphGetEdges", graph, sources, targets, api.out(count))
        return list(zip(sources, targets, strict=True))[: count.value]

    def kind(self, node: int) -> int:
        kind = ctypes.c_int(-1)
        self.driver.do("cuGraphNodeGetType", node, api.out(kind))
        return kind.value

    def update(self, executable: int, graph: int) -> tuple[int, UpdateInfo]:
        """The error number, and what the driver says about it."""
        info = UpdateInfo(-1)
        error: int = self.driver.cuGraphExecUpdate_v2(executable, graph, api.out(info))
        return error, info

    def begin(self, stream: int, mode: int = GLOBAL_MODE) -> None:
        self.driver.do("cuStreamBeginCapture_v2", stream, mode)

    def end(self, stream: int) -> int:
        return self.driver.make_last("cuStreamEndCapture", stream)
