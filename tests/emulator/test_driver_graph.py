"""Graphs that are built node by node: structure, parameters, launches, changes, and what is refused."""

from __future__ import annotations

import ctypes
import struct
import threading
from pathlib import Path

import driver_api as api
import graph_api
import pytest
from driver_api import Driver
from graph_api import Graphs


@pytest.fixture
def graphs(cuda: Driver) -> Graphs:
    return Graphs(cuda)


def test_a_graph_runs_every_kind_of_node_in_order(cuda: Driver, graphs: Graphs):
    a, b, c = (cuda.alloc(400) for _ in range(3))
    seen: list[tuple[int, int]] = []
    callback = graph_api.HostFunction(
        lambda data: seen.append((data, cuda.cuMemAlloc_v2(api.out(api.handle()), 4)))
    )
    graph = graphs.create()
    first = graphs.fill(graph, [], a, 0x3F800000, 100)
    second = graphs.copy(graph, [first], b, a, 400)
    third = graphs.kernel(graph, [first, second], cuda.vector_add(), 4, 32, [a, b, c, ctypes.c_int(100)])
    last = graphs.host(graph, [third], callback, 7)
    graphs.empty(graph, [last])
    executable = graphs.instantiate(graph)
    assert cuda.floats(c, 1) == [0.0]  # nothing has run yet
    graphs.run(executable)
    assert cuda.floats(c, 100) == [2.0] * 100
    assert seen == [(7, api.NOT_PERMITTED)]  # a host function may not call the driver
    cuda.do("cuGraphDestroy", graph)  # the executable graph stands alone
    cuda.write(c, bytes(400))
    graphs.run(executable)
    assert cuda.floats(c, 100) == [2.0] * 100


def test_parameters_are_copied_when_the_node_is_made(cuda: Driver, graphs: Graphs):
    store = cuda.function(cuda.module(api.VARIABLES), "store")
    target, value = cuda.alloc(4), ctypes.c_uint32(5)
    graph = graphs.create()
    graphs.kernel(graph, [], store, 1, 1, [target, value])
    value.value = 6
    executable = graphs.instantiate(graph)
    graphs.run(executable)
    assert cuda.words(target, 1) == [5]


def test_structure_can_be_asked_and_changed(cuda: Driver, graphs: Graphs):
    graph = graphs.create()
    a, b, c = graphs.empty(graph), graphs.empty(graph), graphs.empty(graph)
    cuda.do("cuGraphAddDependencies", graph, graph_api.handles([a, b]), graph_api.handles([c, c]), 2)
    assert graphs.nodes(graph) == [a, b, c]
    assert graphs.roots(graph) == [a, b]
    assert graphs.edges(graph) == [(a, c), (b, c)]
    assert (graphs.dependencies(c), graphs.dependents(a)) == ([a, b], [c])
    one = graph_api.handles([a]), graph_api.handles([c]), 1
    assert cuda.cuGraphAddDependencies(graph, *one) == api.INVALID_VALUE  # it exists
    cuda.do("cuGraphRemoveDependencies", graph, *one)
    assert cuda.cuGraphRemoveDependencies(graph, *one) == api.INVALID_VALUE
    # All or none: the second edge exists, so the first is not added either.
    both = graph_api.handles([a, b]), graph_api.handles([c, c]), 2
    assert cuda.cuGraphAddDependencies(graph, *both) == api.INVALID_VALUE
    assert graphs.edges(graph) == [(b, c)]
    cuda.do("cuGraphDestroyNode", b)
    assert (graphs.nodes(graph), graphs.edges(graph)) == ([a, c], [])
    assert graphs.kind(c) == graph_api.EMPTY
    # More room than nodes: the rest is null.
    room, found = ctypes.c_size_t(4), graph_api.handles([9] * 4)
    cuda.do("cuGraphGetNodes", graph, found, api.out(room))
    assert (room.value, list(found)) == (2, [a, c, 0, 0])


def test_dead_and_invented_handles_are_refused(cuda: Driver, graphs: Graphs):
    graph, other = graphs.create(), graphs.create()
    node, stranger = graphs.empty(graph), graphs.empty(other)
    made = api.handle()
    for dependencies in ([stranger], [node, node], [0xDEAD0]):
        rest = graph, graph_api.handles(dependencies), len(dependencies)
        assert cuda.cuGraphAddEmptyNode(api.out(made), *rest) == api.INVALID_VALUE
    # A count that cannot be right is not followed.
    assert (
        cuda.cuGraphAddEmptyNode(api.out(made), graph, graph_api.handles([node]), 1 << 40)
        == api.INVALID_VALUE
    )
    assert graphs.nodes(graph) == [node]
    executable = graphs.instantiate(graph)
    for name, handle in (
        ("cuGraphDestroy", graph),
        ("cuGraphExecDestroy", executable),
    ):
        cuda.do(name, handle)
        assert getattr(cuda, name)(handle) == api.INVALID_VALUE
    assert cuda.cuGraphLaunch(executable, 0) == api.INVALID_VALUE
    assert cuda.cuGraphDestroyNode(node) == api.INVALID_VALUE
    assert cuda.cuGraphCreate(api.out(made), 1) == api.INVALID_VALUE


def test_a_cycle_is_found_when_the_graph_is_instantiated(cuda: Driver, graphs: Graphs):
    graph = graphs.create()
    free = graphs.empty(graph)
    a = graphs.empty(graph, [free])
    b = graphs.empty(graph, [a])
    edge = graph_api.handles([b]), graph_api.handles([a]), 1
    cuda.do("cuGraphAddDependencies", graph, *edge)
    itself = graph_api.handles([a]), graph_api.handles([a]), 1
    assert cuda.cuGraphAddDependencies(graph, *itself) == api.INVALID_VALUE
    parameters, executable = graph_api.InstantiateParameters(), api.handle()
    error = cuda.cuGraphInstantiateWithParams(api.out(executable), graph, api.out(parameters))
    assert (error, parameters.result) == (api.INVALID_VALUE, 2)  # CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
    assert parameters.error_node in (a, b)
    log, node = ctypes.create_string_buffer(100), api.handle()
    error = cuda.cuGraphInstantiate_v2(api.out(executable), graph, api.out(node), log, 100)
    assert (error, node.value in (a, b), b"cycle" in log.value) == (api.INVALID_VALUE, True, True)
    cuda.do("cuGraphRemoveDependencies", graph, *edge)
    cuda.do("cuGraphInstantiateWithParams", api.out(executable), graph, api.out(parameters))
    assert (parameters.result, parameters.error_node) == (0, 0)


def test_edge_data_is_kept_and_never_lost_in_silence(cuda: Driver, graphs: Graphs):
    function, graph = cuda.vector_add(), graphs.create()
    arguments = [0, 0, 0, ctypes.c_int(0)]
    a = graphs.kernel(graph, [], function, 1, 1, arguments)
    b = graphs.kernel(graph, [], function, 1, 1, arguments)
    c = graphs.empty(graph)
    programmatic = graph_api.EdgeData(from_port=1, type=1)
    ends = graph_api.handles([a]), graph_api.handles([b])
    cuda.do("cuGraphAddDependencies_v2", graph, *ends, api.out(programmatic), 1)
    count = ctypes.c_size_t(1)
    sources, targets, data = graph_api.handles([0]), graph_api.handles([0]), graph_api.EdgeData()
    lossy = graph, sources, targets, api.out(count)
    assert cuda.cuGraphGetEdges(*lossy) == graph_api.LOSSY_QUERY
    cuda.do("cuGraphGetEdges_v2", graph, sources, targets, api.out(data), api.out(count))
    assert (sources[0], targets[0], data.from_port, data.type) == (a, b, 1, 1)
    assert cuda.cuGraphNodeGetDependencies(b, sources, api.out(count)) == graph_api.LOSSY_QUERY
    cuda.do("cuGraphNodeGetDependencies_v2", b, sources, api.out(data), api.out(count))
    assert (sources[0], data.type) == (a, 1)
    # Only between kernels, and only when removed as it was added.
    wrong = graph_api.handles([c]), graph_api.handles([b])
    assert cuda.cuGraphAddDependencies_v2(graph, *wrong, api.out(programmatic), 1) == api.INVALID_VALUE
    assert cuda.cuGraphRemoveDependencies_v2(graph, *ends, None, 1) == api.INVALID_VALUE
    cuda.do("cuGraphRemoveDependencies_v2", graph, *ends, api.out(programmatic), 1)
    assert graphs.edges(graph) == []


def test_parameters_of_each_kind_are_read_and_set(cuda: Driver, graphs: Graphs):
    a, b, c = (cuda.alloc(64) for _ in range(3))
    store = cuda.function(cuda.module(api.VARIABLES), "store")
    graph = graphs.create()
    kernel = graphs.kernel(graph, [], store, 2, 1, [a, ctypes.c_uint32(1)])
    fill = graphs.fill(graph, [kernel], b, 2, 4)
    copy = graphs.copy(graph, [fill], c, b, 16)
    event, other = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
    record = graphs._add("cuGraphAddEventRecordNode", graph, [copy], event)

    got = graph_api.KernelNode()
    cuda.do("cuGraphKernelNodeGetParams_v2", kernel, api.out(got))
    values = ctypes.cast(got.parameters, ctypes.POINTER(ctypes.c_void_p))
    assert ctypes.c_uint64.from_address(values[0]).value == a
    assert (got.function, got.grid[0], ctypes.c_uint32.from_address(values[1]).value) == (store, 2, 1)
    changed, kept = graph_api.kernel_node(store, 1, 1, [a, ctypes.c_uint32(11)])
    cuda.do("cuGraphKernelNodeSetParams_v2", kernel, api.out(changed))

    filled = graph_api.FillNode()
    cuda.do("cuGraphMemsetNodeGetParams", fill, api.out(filled))
    assert (filled.destination, filled.value, filled.width, filled.element_bytes) == (b, 2, 4, 4)
    filled.value = 12
    cuda.do("cuGraphMemsetNodeSetParams", fill, api.out(filled))

    copied = graph_api.Copy3D()
    cuda.do("cuGraphMemcpyNodeGetParams", copy, api.out(copied))
    assert (copied.srcDevice, copied.dstDevice, copied.WidthInBytes) == (b, c, 16)
    copied.dstDevice = c + 16
    cuda.do("cuGraphMemcpyNodeSetParams", copy, api.out(copied))

    found = api.handle()
    cuda.do("cuGraphEventRecordNodeGetEvent", record, api.out(found))
    assert found.value == event
    assert cuda.cuGraphEventWaitNodeGetEvent(record, api.out(found)) == api.INVALID_VALUE
    cuda.do("cuGraphEventRecordNodeSetEvent", record, other)

    graphs.run(graphs.instantiate(graph))
    assert cuda.words(a, 1) == [11]
    assert cuda.words(b, 4) == [12] * 4
    assert cuda.words(c, 8) == [0] * 4 + [12] * 4
    elapsed = ctypes.c_float()
    assert cuda.cuEventElapsedTime(api.out(elapsed), other, other) == api.SUCCESS
    assert cuda.cuEventElapsedTime(api.out(elapsed), event, other) == api.INVALID_HANDLE
    for name in ("cuGraphMemsetNodeGetParams", "cuGraphHostNodeGetParams"):
        assert getattr(cuda, name)(kernel, api.out(filled)) == api.INVALID_VALUE  # of another kind
    filled.element_bytes = 3
    assert cuda.cuGraphMemsetNodeSetParams(fill, api.out(filled)) == api.INVALID_VALUE
    copied.WidthInBytes = 1 << 40
    assert cuda.cuGraphMemcpyNodeSetParams(copy, api.out(copied)) == api.INVALID_VALUE


def test_nodes_through_the_generic_functions(cuda: Driver, graphs: Graphs):
    a = cuda.alloc(64)
    graph, node = graphs.create(), api.handle()

    class Fill(graph_api.FillNode):
        _fields_ = [("context", ctypes.c_void_p)]

    parameters = graph_api.NodeParameters.of(graph_api.MEMSET, Fill(a, 0, 5, 4, 16, 1, cuda.context))
    cuda.do("cuGraphAddNode_v2", api.out(node), graph, None, None, 0, api.out(parameters))
    store = cuda.function(cuda.module(api.VARIABLES), "store")
    body, kept = graph_api.kernel_node(store, 1, 1, [a, ctypes.c_uint32(9)])
    kernel = graph_api.NodeParameters.of(graph_api.KERNEL, body)
    second = api.handle()
    before = graph_api.handles([node.value])
    cuda.do("cuGraphAddNode", api.out(second), graph, before, 1, api.out(kernel))
    executable = graphs.instantiate(graph)
    graphs.run(executable)
    assert cuda.words(a, 2) == [9, 5]
    parameters = graph_api.NodeParameters.of(graph_api.MEMSET, Fill(a, 0, 6, 4, 16, 1, cuda.context))
    cuda.do("cuGraphNodeSetParams", node, api.out(parameters))
    graphs.run(executable)
    assert cuda.words(a, 2) == [9, 5]  # the executable graph has its own
    cuda.do("cuGraphExecNodeSetParams", executable, node, api.out(parameters))
    graphs.run(executable)
    assert cuda.words(a, 2) == [9, 6]
    assert cuda.cuGraphNodeSetParams(second, api.out(parameters)) == api.INVALID_VALUE  # another type
    parameters.reserved2 = 1
    assert cuda.cuGraphNodeSetParams(node, api.out(parameters)) == api.INVALID_VALUE


def test_what_is_not_there_is_refused_by_name(fresh):
    done = fresh(
        """
        from graph_api import *
        graphs = Graphs(d); graph = graphs.create(); node = handle()
        print(d.cuGraphAddNode_v2(out(node), graph, None, None, 0, out(NodeParameters.of(8))))
        print(d.cuGraphInstantiateWithFlags(out(node), graph, 4))
        print(len(graphs.nodes(graph)))
        """
    )
    assert done.stdout.split() == ["801"] * 2 + ["0"]
    for words in ("external semaphore nodes", "launched from the device"):
        assert words in done.stderr


def test_the_value_of_a_conditional_node_has_one_graph_and_one_node(cuda: Driver, graphs: Graphs):
    def add(to: int, value: int, kind: int, size: int) -> int:
        parameters = graph_api.NodeParameters.of(graph_api.CONDITIONAL)
        struct.pack_into("QII", parameters.body, 0, value, kind, size)
        return cuda.cuGraphAddNode_v2(api.out(api.handle()), to, None, None, 0, api.out(parameters))

    def value_of(graph: int, flags: int = 0) -> int:
        made = api.handle()
        cuda.do("cuGraphConditionalHandleCreate", api.out(made), graph, None, 0, flags)
        return made.value

    graph, other = graphs.create(), graphs.create()
    value = value_of(graph)
    refused = api.out(api.handle()), graph, None, 0, 2
    assert cuda.cuGraphConditionalHandleCreate(*refused) == api.INVALID_VALUE
    for kind, size in ((0, 0), (0, 3), (1, 0), (1, 2), (2, 0), (3, 1)):
        assert add(graph, value, kind, size) == api.INVALID_VALUE
    assert add(other, value, 0, 1) == api.INVALID_VALUE  # of another graph
    assert add(graph, value + 4, 0, 1) == api.INVALID_VALUE  # none at all
    assert add(graph, value, 0, 1) == 0
    assert add(graph, value, 0, 1) == api.INVALID_VALUE  # a second node
    # Such a graph is no child, no copy, and has one executable graph at a time.
    assert cuda.cuGraphClone(api.out(api.handle()), graph) == api.INVALID_VALUE
    child = api.out(api.handle()), other, None, 0, graph
    assert cuda.cuGraphAddChildGraphNode(*child) == api.INVALID_VALUE
    executable = graphs.instantiate(graph)
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), graph, 0) == api.INVALID_VALUE
    cuda.do("cuGraphExecDestroy", executable)
    cuda.do("cuGraphDestroy", graph)
    assert add(other, value, 0, 1) == api.INVALID_VALUE


def test_a_child_graph_is_a_copy_of_its_own(cuda: Driver, graphs: Graphs):
    a, b = cuda.alloc(16), cuda.alloc(16)
    child = graphs.create()
    inner = graphs.fill(child, [], a, 3, 4)
    graph = graphs.create()
    parent = graphs.child(graph, [], child)
    graphs.copy(graph, [parent], b, a, 16)
    changed = graph_api.FillNode(a, 0, 8, 4, 4, 1)
    cuda.do("cuGraphMemsetNodeSetParams", inner, api.out(changed))  # too late for the copy
    cuda.do("cuGraphDestroy", child)
    embedded = cuda.make_last("cuGraphChildGraphNodeGetGraph", parent)
    (own,) = graphs.nodes(embedded)
    assert own != inner
    executable = graphs.instantiate(graph)
    graphs.run(executable)
    assert cuda.words(b, 4) == [3] * 4
    assert cuda.cuGraphDestroy(embedded) == api.INVALID_VALUE  # it belongs to its node
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), embedded, 0) == api.INVALID_VALUE
    # Through the embedded node, and through a graph of the same shape.
    cuda.do("cuGraphExecMemsetNodeSetParams", executable, own, api.out(changed), cuda.context)
    graphs.run(executable)
    assert cuda.words(b, 4) == [8] * 4
    other = graphs.create()
    graphs.fill(other, [], a, 9, 4)
    cuda.do("cuGraphExecChildGraphNodeSetParams", executable, parent, other)
    graphs.run(executable)
    assert cuda.words(b, 4) == [9] * 4
    graphs.empty(other)
    assert cuda.cuGraphExecChildGraphNodeSetParams(executable, parent, other) == api.INVALID_VALUE


def test_a_graph_with_memory_nodes_moves_into_its_parent(cuda: Driver, graphs: Graphs):
    class Child(ctypes.Structure):
        _fields_ = [("graph", ctypes.c_void_p), ("ownership", ctypes.c_int)]

    def move(child: int, parent: int) -> tuple[int, int]:
        node = api.handle()
        parameters = graph_api.NodeParameters.of(graph_api.GRAPH, Child(child, 1))
        error = cuda.cuGraphAddNode_v2(api.out(node), parent, None, None, 0, api.out(parameters))
        return error, node.value

    result = cuda.alloc(16)
    child, parent = graphs.create(), graphs.create()
    allocate, address = graphs.allocate(child, [], 64)
    fill = graphs.fill(child, [allocate], address, 5, 4)
    graphs.free(child, [graphs.copy(child, [fill], result, address, 16)], address)
    cloned = graph_api.handles([]), 0, child
    assert cuda.cuGraphAddChildGraphNode(api.out(api.handle()), parent, *cloned) == api.INVALID_VALUE
    assert move(child, child)[0] == api.INVALID_VALUE
    error, node = move(child, parent)
    assert error == api.SUCCESS
    assert cuda.make_last("cuGraphChildGraphNodeGetGraph", node) == child
    assert cuda.cuGraphDestroy(child) == api.INVALID_VALUE
    assert move(child, graphs.create())[0] == api.INVALID_VALUE
    assert move(parent, child)[0] == api.INVALID_VALUE  # it would hold itself
    executable = graphs.instantiate(parent)
    for _ in range(2):
        graphs.run(executable)
        assert cuda.words(result, 4) == [5] * 4
    cuda.do("cuGraphDestroy", parent)
    assert cuda.cuGraphDestroy(child) == api.INVALID_VALUE


def test_a_clone_knows_the_nodes_it_came_from(cuda: Driver, graphs: Graphs):
    a = cuda.alloc(16)
    child = graphs.create()
    graphs.fill(child, [], a, 3, 4)
    graph = graphs.create()
    first = graphs.child(graph, [], child)
    second = graphs.fill(graph, [first], a, 4, 2)
    clone = cuda.make("cuGraphClone", graph)
    twins = [cuda.make("cuGraphNodeFindInClone", node, clone) for node in (first, second)]
    assert graphs.nodes(clone) == twins
    assert graphs.edges(clone) == [tuple(twins)]
    assert not set(twins) & {first, second}
    (inside,) = graphs.nodes(cuda.make_last("cuGraphChildGraphNodeGetGraph", first))
    assert cuda.make("cuGraphNodeFindInClone", inside, clone) not in (0, inside)
    cuda.do("cuGraphDestroy", graph)
    graphs.run(graphs.instantiate(clone))
    assert cuda.words(a, 4) == [4, 4, 3, 3]
    assert cuda.cuGraphNodeFindInClone(api.out(api.handle()), twins[0], child) == api.INVALID_VALUE


def test_nodes_of_an_executable_graph_are_changed_and_switched_off(cuda: Driver, graphs: Graphs):
    a, b = cuda.alloc(16), cuda.alloc(16)
    store = cuda.function(cuda.module(api.VARIABLES), "store")
    graph = graphs.create()
    fill = graphs.fill(graph, [], a, 1, 4)
    kernel = graphs.kernel(graph, [fill], store, 1, 1, [a, ctypes.c_uint32(2)])
    copy = graphs.copy(graph, [kernel], b, a, 16)
    empty = graphs.empty(graph, [copy])
    executable = graphs.instantiate(graph)
    enabled = ctypes.c_uint(9)
    cuda.do("cuGraphNodeSetEnabled", executable, kernel, 0)
    cuda.do("cuGraphNodeGetEnabled", executable, kernel, api.out(enabled))
    assert enabled.value == 0
    assert cuda.cuGraphNodeSetEnabled(executable, empty, 0) == api.INVALID_VALUE
    graphs.run(executable)
    assert cuda.words(b, 4) == [1, 1, 1, 1]
    cuda.do("cuGraphNodeSetEnabled", executable, kernel, 1)
    node, kept = graph_api.kernel_node(store, 1, 1, [a + 4, ctypes.c_uint32(7)])
    cuda.do("cuGraphExecKernelNodeSetParams_v2", executable, kernel, api.out(node))
    graphs.run(executable)
    assert cuda.words(b, 4) == [1, 7, 1, 1]
    # What the documentation rules out: another height, more dimensions, a node of another graph.
    flat = graph_api.FillNode(a, 4, 1, 4, 1, 4)
    assert (
        cuda.cuGraphExecMemsetNodeSetParams(executable, fill, api.out(flat), cuda.context)
        == api.INVALID_VALUE
    )
    shaped = graph_api.copy_1d(b, a, 4)
    shaped.Height = 2
    assert (
        cuda.cuGraphExecMemcpyNodeSetParams(executable, copy, api.out(shaped), cuda.context)
        == api.INVALID_VALUE
    )
    cuda.do("cuGraphDestroyNode", kernel)
    assert cuda.cuGraphExecKernelNodeSetParams_v2(executable, kernel, api.out(node)) == api.INVALID_VALUE
    graphs.run(executable)
    assert cuda.words(b, 4) == [1, 7, 1, 1]


def test_update_takes_new_parameters_and_names_what_it_cannot(cuda: Driver, graphs: Graphs):
    a, pinned = cuda.alloc(64), cuda.make("cuMemHostAlloc", 64, 0)
    store = cuda.function(cuda.module(api.VARIABLES), "store")

    def build(value: int, target: int, count: int = 4) -> tuple[int, int, int]:
        graph = graphs.create()
        fill = graphs.fill(graph, [], a, value, count)
        return graph, fill, graphs.kernel(graph, [fill], store, 1, 1, [target, ctypes.c_uint32(value + 1)])

    executable = graphs.instantiate(build(1, a)[0])
    error, info = graphs.update(executable, build(5, a + 4)[0])
    assert (error, info.result, info.node) == (api.SUCCESS, graph_api.UPDATE_SUCCESS, 0)
    graphs.run(executable)
    assert cuda.words(a, 4) == [5, 6, 5, 5]

    larger, *_ = build(1, a)
    graphs.empty(larger)
    error, info = graphs.update(executable, larger)
    assert (error, info.result, info.node) == (graph_api.UPDATE_FAILURE, graph_api.TOPOLOGY_CHANGED, 0)

    loose, fill, kernel = build(1, a)
    ends = graph_api.handles([fill]), graph_api.handles([kernel])
    cuda.do("cuGraphRemoveDependencies", loose, *ends, 1)
    error, info = graphs.update(executable, loose)
    assert (info.result, info.node) == (graph_api.TOPOLOGY_CHANGED, kernel)  # one exit more

    other = graphs.create()
    first = graphs.fill(other, [], a, 1, 4)
    second = graphs.empty(other, [first])
    error, info = graphs.update(executable, other)
    assert (info.result, info.node) == (graph_api.NODE_TYPE_CHANGED, second)

    elsewhere = graphs.create()
    moved = graphs.fill(elsewhere, [], pinned, 1, 4)
    graphs.kernel(elsewhere, [moved], store, 1, 1, [a, ctypes.c_uint32(1)])
    error, info = graphs.update(executable, elsewhere)
    assert (info.result, info.node) == (graph_api.PARAMETERS_CHANGED, moved)

    graphs.run(executable)  # a failed update changes nothing
    assert cuda.words(a, 4) == [5, 6, 5, 5]
    result, node = ctypes.c_int(-1), api.handle()
    assert (
        cuda.cuGraphExecUpdate(executable, other, api.out(node), api.out(result)) == graph_api.UPDATE_FAILURE
    )
    assert (result.value, node.value) == (graph_api.NODE_TYPE_CHANGED, second)


def test_update_pairs_by_edges_and_reports_the_edge_that_does_not_fit(cuda: Driver, graphs: Graphs):
    def diamond(crossed: bool) -> tuple[int, list[int]]:
        graph = graphs.create()
        root, other = graphs.empty(graph), graphs.empty(graph)
        left = graphs.empty(graph, [root])
        right = graphs.empty(graph, [other if crossed else root])
        end = graphs.empty(graph, [left, right, *([] if crossed else [other])])
        return graph, [root, other, left, right, end]

    executable = graphs.instantiate(diamond(False)[0])
    assert graphs.update(executable, diamond(False)[0])[0] == api.SUCCESS
    graph, nodes = diamond(True)
    error, info = graphs.update(executable, graph)
    assert (error, info.result) == (graph_api.UPDATE_FAILURE, graph_api.TOPOLOGY_CHANGED)
    assert info.node == nodes[4]  # another number of dependencies


def test_kernel_attributes_belong_to_the_node(cuda: Driver, graphs: Graphs):
    function, graph = cuda.vector_add(), graphs.create()
    arguments = [0, 0, 0, ctypes.c_int(0)]
    first = graphs.kernel(graph, [], function, 2, 1, arguments)
    second = graphs.kernel(graph, [first], function, 2, 1, arguments)
    cooperative, cluster, priority, synchronisation = 2, 4, 8, 3
    value = (ctypes.c_uint32 * 16)(2, 1, 1)
    cuda.do("cuGraphKernelNodeSetAttribute", first, cluster, value)
    bad = (ctypes.c_uint32 * 16)(3, 1, 1)  # does not divide the grid
    assert cuda.cuGraphKernelNodeSetAttribute(first, cluster, bad) == api.INVALID_CLUSTER_SIZE
    cuda.do("cuGraphKernelNodeSetAttribute", first, priority, (ctypes.c_int32 * 16)(-3))
    cuda.do("cuGraphKernelNodeCopyAttributes", second, first)
    got = (ctypes.c_int32 * 16)()
    for attribute, expected in ((cluster, [2, 1, 1]), (priority, [-3]), (cooperative, [0])):
        cuda.do("cuGraphKernelNodeGetAttribute", second, attribute, got)
        assert list(got)[: len(expected)] == expected
    assert cuda.cuGraphKernelNodeGetAttribute(second, synchronisation, got) == api.INVALID_VALUE
    # A cooperative node stays one.
    executable = graphs.instantiate(graph)
    cuda.do("cuGraphKernelNodeSetAttribute", second, cooperative, (ctypes.c_uint32 * 16)(1))
    error, info = graphs.update(executable, graph)
    assert (info.result, info.node) == (graph_api.ATTRIBUTES_CHANGED, second)


def test_event_nodes_tie_a_graph_to_streams(fresh):
    done = fresh(
        """
        from graph_api import *
        graphs = Graphs(d)
        a, pinned = d.alloc(4), d.make("cuMemHostAlloc", 8, 0)
        producer, launcher, consumer = (d.make("cuStreamCreate", 1) for _ in range(3))
        ready, finished = d.make("cuEventCreate", 0), d.make("cuEventCreate", 0)
        graph = graphs.create()
        wait = graphs._add("cuGraphAddEventWaitNode", graph, [], ready)
        copy = graphs.copy(graph, [wait], pinned, a, 4)
        graphs._add("cuGraphAddEventRecordNode", graph, [copy], finished)
        executable = graphs.instantiate(graph)
        d.do("cuMemsetD8Async", a, 65, 4, producer)
        d.do("cuEventRecord", ready, producer)
        d.do("cuGraphLaunch", executable, launcher)
        print(d.cuEventQuery(finished))
        d.do("cuStreamWaitEvent", consumer, finished, 0)
        d.do("cuMemcpyDtoDAsync_v2", pinned + 4, pinned, 4, consumer)
        d.do("cuStreamSynchronize", consumer)
        print(ctypes.string_at(pinned, 8), d.cuEventQuery(finished))
        """,
        DEFERRED="1",
    )
    assert done.stdout.split() == ["600", "b'AAAAAAAA'", "0"]


def test_memory_values_in_a_graph(cuda: Driver, graphs: Graphs):
    from test_driver_stream import MemoryOperation

    class Batch(ctypes.Structure):
        _fields_ = [
            ("context", ctypes.c_void_p),
            ("count", ctypes.c_uint),
            ("operations", ctypes.c_void_p),
            ("flags", ctypes.c_uint),
        ]

    words, pinned = cuda.alloc(16), cuda.make("cuMemHostAlloc", 4, 0)
    operations = (MemoryOperation * 2)(MemoryOperation(1, pinned, 5, 1), MemoryOperation(2, words, 7))
    batch = Batch(cuda.context, 2, ctypes.addressof(operations), 0)
    graph = graphs.create()
    node = graphs._add("cuGraphAddBatchMemOpNode", graph, [], api.out(batch))
    executable = graphs.instantiate(graph)
    stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
    cuda.do("cuGraphLaunch", executable, stream)
    assert cuda.cuStreamQuery(stream) == api.NOT_READY
    ctypes.c_uint32.from_address(pinned).value = 5
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.words(words, 1) == [7]
    got = Batch()
    cuda.do("cuGraphBatchMemOpNodeGetParams", node, api.out(got))
    assert (got.count, got.context) == (2, cuda.context)
    operations[1].value = 8
    cuda.do("cuGraphExecBatchMemOpNodeSetParams", executable, node, api.out(batch))
    graphs.run(executable, stream)
    assert cuda.words(words, 1) == [8]
    operations[1].operation = 1
    refused = executable, node, api.out(batch)
    assert cuda.cuGraphExecBatchMemOpNodeSetParams(*refused) == api.INVALID_VALUE


def test_a_launch_is_ordered_in_its_stream_and_after_the_one_before(fresh):
    script = """
        from graph_api import *
        graphs = Graphs(d)
        add = d.function(d.module(VARIABLES), "add_global")
        a, b = d.alloc(64), d.alloc(64)
        graph = graphs.create()
        first = graphs.fill(graph, [], a, 1, 4)
        others = [graphs.copy(graph, [first], b + 16 * i, a, 16) for i in range(3)]
        executable = graphs.instantiate(graph)
        one, two = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1)
        d.do("cuMemsetD8Async", b, 9, 64, one)       # before the graph
        d.do("cuGraphLaunch", executable, one)
        d.do("cuMemsetD32Async", b + 16, 5, 4, one)  # after it
        d.do("cuStreamSynchronize", one)
        print(d.words(b, 16))
        # The second launch, in another stream, follows the first: 10, 15 + 11, in that order.
        kernel = graphs.create()
        graphs.kernel(kernel, [], add, 1, 1, [a])
        executable = graphs.instantiate(kernel)
        d.do("cuGraphLaunch", executable, one)
        d.do("cuGraphLaunch", executable, two)
        d.do("cuStreamSynchronize", two)
        print(d.cuStreamQuery(one), d.words(a, 1))
        """
    for deferred in ("0", "1"):
        done = fresh(script, DEFERRED=deferred)
        assert done.stdout.splitlines() == [
            str([1] * 4 + [5] * 4 + [1] * 4 + [0x09090909] * 4),
            "0 [26]",
        ]


def test_parallel_branches_overlap_in_modelled_time(cuda: Driver, graphs: Graphs):
    size = 1 << 22
    buffers = [cuda.alloc(size) for _ in range(4)]

    def modelled_ms(parallel: bool) -> float:
        graph, after = graphs.create(), []
        for buffer in buffers:
            node = graphs.fill(graph, after, buffer, 1, size, 1)
            after = [] if parallel else [node]
        executable = graphs.instantiate(graph)
        stream = cuda.make("cuStreamCreate", 0)
        start, end = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
        cuda.do("cuEventRecord", start, stream)
        cuda.do("cuGraphLaunch", executable, stream)
        cuda.do("cuEventRecord", end, stream)
        cuda.do("cuStreamSynchronize", stream)
        elapsed = ctypes.c_float()
        cuda.do("cuEventElapsedTime", api.out(elapsed), start, end)
        return elapsed.value

    chain, branches = modelled_ms(False), modelled_ms(True)
    assert chain == pytest.approx(4 * branches)
    assert branches > 0


def test_memory_of_a_graph_lives_from_its_allocation_to_its_free(cuda: Driver, graphs: Graphs):
    def attribute(which: int) -> int:
        bytes_ = api.handle()
        cuda.do("cuDeviceGetGraphMemAttribute", 0, which, api.out(bytes_))
        return bytes_.value

    used, reserved = 0, 2
    before = attribute(reserved), attribute(used)
    result = cuda.alloc(16)
    graph = graphs.create()
    allocate, address = graphs.allocate(graph, [], 1 << 16)
    fill = graphs.fill(graph, [allocate], address, 3, 4)
    copy = graphs.copy(graph, [fill], result, address, 16)
    free = graphs.free(graph, [copy], address)
    assert cuda.cuGraphDestroyNode(free) == api.INVALID_VALUE
    assert cuda.cuGraphClone(api.out(api.handle()), graph) == api.INVALID_VALUE
    twice = api.out(api.handle()), graph, None, 0, address
    assert cuda.cuGraphAddMemFreeNode(*twice) == api.INVALID_VALUE
    executable = graphs.instantiate(graph)
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), graph, 0) == api.INVALID_VALUE
    for _ in range(2):
        cuda.write(result, bytes(16))
        graphs.run(executable)
        assert cuda.words(result, 4) == [3] * 4
    got = api.handle()
    cuda.do("cuGraphMemFreeNodeGetParams", free, api.out(got))
    assert got.value == address
    assert attribute(reserved) - before[0] >= 1 << 16
    assert attribute(used) == before[1]  # nothing is live between launches
    cuda.do("cuGraphExecDestroy", executable)
    cuda.do("cuGraphDestroy", graph)
    assert attribute(reserved) == before[0]
    cuda.do("cuDeviceGraphMemTrim", 0)


def test_memory_that_a_graph_does_not_free_is_the_programs(fresh):
    script = """
        from graph_api import *
        graphs = Graphs(d)
        graph = graphs.create()
        node, address = graphs.allocate(graph, [], 64)
        graphs.fill(graph, [node], address, 7, 4)
        executable = graphs.instantiate(graph)
        stream, result = d.make("cuStreamCreate", 1), d.alloc(16)
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuMemcpyDtoDAsync_v2", result, address, 16, stream)
        print(d.cuGraphLaunch(executable, stream))   # not freed
        d.do("cuMemFreeAsync", address, stream)
        print(d.cuMemFreeAsync(address, stream))     # freed already
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuStreamSynchronize", stream)
        print(d.words(result, 4), d.words(address, 4))
        d.do("cuMemFree_v2", address)
        freeing = graphs.create()
        graphs.free(freeing, [], address)
        again = graphs.instantiate(freeing)
        print(d.cuGraphLaunch(again, stream))        # not allocated
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuGraphLaunch", again, stream)
        print(d.cuStreamSynchronize(stream), d.cuMemFree_v2(address))
        automatic = graphs.create()
        node, address = graphs.allocate(automatic, [], 64)
        executable = graphs.instantiate(automatic, 1)
        for _ in range(3):
            d.do("cuGraphLaunch", executable, stream)
        print(d.cuStreamSynchronize(stream))
        # Used outside its life: an error, not a crash.
        graph = graphs.create()
        node, address = graphs.allocate(graph, [], 64)
        freed = graphs.free(graph, [node], address)
        graphs.fill(graph, [freed], address, 7, 4)
        d.do("cuGraphLaunch", graphs.instantiate(graph), stream)
        print(d.cuStreamSynchronize(stream))
        """
    for deferred in ("0", "1"):
        done = fresh(script, DEFERRED=deferred)
        assert done.stdout.splitlines() == [
            "1",
            "1",
            f"{[7] * 4} {[7] * 4}",
            "1",
            "0 1",
            "0",
            str(api.ILLEGAL_ADDRESS),
        ]


def test_user_objects_end_with_the_last_graph_that_holds_them(cuda: Driver, graphs: Graphs):
    ended: list[int] = []
    happened = threading.Event()

    def destroy(data: int) -> None:
        ended.append(data)
        happened.set()

    callback = graph_api.HostFunction(destroy)
    graph = graphs.create()
    graphs.empty(graph)
    thing = cuda.make("cuUserObjectCreate", 5, callback, 1, 1)
    cuda.do("cuUserObjectRetain", thing, 2)
    cuda.do("cuGraphRetainUserObject", graph, thing, 1, 1)  # moves one
    cuda.do("cuUserObjectRelease", thing, 2)
    executable = graphs.instantiate(graph)
    clone = cuda.make("cuGraphClone", graph)
    cuda.do("cuGraphReleaseUserObject", graph, thing, 1)
    assert cuda.cuGraphReleaseUserObject(graph, thing, 1) == api.INVALID_VALUE
    cuda.do("cuGraphDestroy", graph)
    gate, stream = threading.Event(), cuda.make("cuStreamCreate", 0)
    hold = graph_api.HostFunction(lambda _: gate.wait(10) and None)
    cuda.do("cuLaunchHostFunc", stream, hold, None)
    cuda.do("cuGraphLaunch", executable, stream)
    cuda.do("cuGraphExecDestroy", executable)
    cuda.do("cuGraphDestroy", clone)
    assert ended == []  # the launch is still to come
    gate.set()
    cuda.do("cuStreamSynchronize", stream)
    assert happened.wait(10)
    assert ended == [5]
    assert cuda.cuUserObjectRelease(thing, 1) == api.INVALID_VALUE
    assert cuda.cuUserObjectCreate(api.out(api.handle()), 0, callback, 1, 0) == api.INVALID_VALUE


def test_a_fault_in_a_graph_poisons_the_context(fresh):
    done = fresh(
        """
        from graph_api import *
        graphs = Graphs(d)
        store = d.function(d.module(VARIABLES), "store")
        graph = graphs.create()
        first = graphs.kernel(graph, [], store, 1, 1, [64, ctypes.c_uint32(1)])
        pinned = d.make("cuMemHostAlloc", 4, 0)
        graphs.fill(graph, [first], pinned, 65, 4, 1)
        executable = graphs.instantiate(graph)
        print(d.cuGraphLaunch(executable, 0), d.cuStreamSynchronize(0), d.cuGraphLaunch(executable, 0))
        print(ctypes.string_at(pinned, 4), d.cuGraphDestroy(graph))
        """
    )
    assert done.stdout.splitlines() == ["0 700 700", "b'\\x00\\x00\\x00\\x00' 0"]
    assert "store" in done.stderr


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_a_graph_spans_devices(fresh, deferred: str):
    done = fresh(
        """
        from graph_api import *
        graphs, store = Graphs(d), []
        contexts = [d.context, d.make("cuCtxCreate_v2", 0, 1)]
        words = []
        for context in contexts:
            d.do("cuCtxSetCurrent", context)
            store.append(d.function(d.module(VARIABLES), "store"))
            words.append(d.alloc(8))
        d.do("cuCtxSetCurrent", contexts[0])
        graph = graphs.create()
        first = graphs.kernel(graph, [], store[1], 1, 1, [words[1], ctypes.c_uint32(6)])
        second = graphs.copy(graph, [first], words[0], words[1], 4)
        third = graphs.kernel(graph, [second], store[0], 1, 1, [words[0] + 4, ctypes.c_uint32(7)])
        d.context = contexts[1]
        graphs.copy(graph, [third], words[1], words[0], 8)
        executable = graphs.instantiate(graph)
        stream = d.make("cuStreamCreate", 1)
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuStreamSynchronize", stream)
        print(d.words(words[1], 2))
        # A node cannot move to a kernel of the other context, and a launch needs both contexts.
        node, kept = kernel_node(store[0], 1, 1, [words[0], ctypes.c_uint32(1)])
        print(d.cuGraphExecKernelNodeSetParams_v2(executable, first, out(node)))
        d.do("cuCtxDestroy_v2", contexts[1])
        print(d.cuGraphLaunch(executable, stream))
        """,
        DEVICES="2",
        DEFERRED=deferred,
    )
    assert done.stdout.splitlines() == ["[6, 7]", "1", str(api.CONTEXT_IS_DESTROYED)]


def test_memory_that_is_gone_refuses_the_launch(cuda: Driver, graphs: Graphs):
    a, b = cuda.alloc(16), cuda.alloc(16)
    graph = graphs.create()
    graphs.fill(graph, [], b, 1, 4)
    graphs.fill(graph, [], a, 1, 4)
    executable = graphs.instantiate(graph)
    cuda.do("cuMemFree_v2", a)
    assert cuda.cuGraphLaunch(executable, 0) == api.INVALID_VALUE
    cuda.do("cuCtxSynchronize")
    assert cuda.words(b, 4) == [0] * 4  # none of it has run


def test_dot_names_kernels_and_edges(cuda: Driver, graphs: Graphs, tmp_path: Path):
    graph = graphs.create()
    fill = graphs.fill(graph, [], cuda.alloc(16), 1, 4)
    kernel = graphs.kernel(graph, [fill], cuda.vector_add(), 1, 1, [0, 0, 0, ctypes.c_int(0)])
    graphs.child(graph, [kernel], graph)
    path = tmp_path / "graph.dot"
    cuda.do("cuGraphDebugDotPrint", graph, str(path), 0)
    text = path.read_text()
    assert text.startswith("digraph")
    assert text.count("{") == text.count("}") == 2
    assert text.count("->") == 3
    assert "vector_add" in text
    assert "handle" not in text
    cuda.do("cuGraphDebugDotPrint", graph, str(path), 1)
    text = path.read_text()
    assert "grid 1,1,1" in text
    assert "handle" in text
    assert cuda.cuGraphDebugDotPrint(graph, str(tmp_path / "no" / "x.dot"), 0) == 304  # OPERATING_SYSTEM


def test_a_wide_and_a_long_graph(cuda: Driver, graphs: Graphs):
    count = 2000
    words = cuda.alloc(4 * count)
    wide, long = graphs.create(), graphs.create()
    root = graphs.empty(wide)
    ends = [graphs.fill(wide, [root], words + 4 * i, i, 1) for i in range(count)]
    graphs.empty(wide, ends)
    graphs.run(graphs.instantiate(wide))
    assert struct.unpack(f"{count}I", cuda.read(words, 4 * count)) == tuple(range(count))
    node = graphs.empty(long)
    for i in range(count):
        node = graphs.fill(long, [node], words, i, 1)
    graphs.run(graphs.instantiate(long))
    assert cuda.words(words, 1) == [count - 1]


def test_threads_launch_graphs_and_capture_at_once(cuda: Driver, graphs: Graphs):
    """Each thread captures, launches and changes graphs of its own, and all launch one that they share."""
    shared_words = cuda.alloc(64)
    shared_graph = graphs.create()
    first = graphs.fill(shared_graph, [], shared_words, 1, 16)
    graphs.copy(shared_graph, [first], shared_words + 32, shared_words, 32)
    shared = graphs.instantiate(shared_graph)
    function, errors = cuda.vector_add(), []

    def work(number: int) -> None:
        try:
            cuda.do("cuCtxSetCurrent", cuda.context)
            stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
            a, b, c = cuda.vectors(32)
            for turn in range(10):
                graphs.begin(stream, graph_api.THREAD_LOCAL_MODE)
                cuda.do("cuMemsetD32Async", c, 0, 32, stream)
                assert cuda.launch(function, (1,), (32,), [a, b, c, ctypes.c_int(32)], stream=stream) == 0
                cuda.do("cuMemsetD32Async", c, number * 100 + turn, 1, stream)
                graph = graphs.end(stream)
                executable = graphs.instantiate(graph)
                cuda.do("cuGraphLaunch", executable, stream)
                cuda.do("cuGraphLaunch", shared, stream)
                cuda.do("cuGraphLaunch", executable, stream)
                cuda.do("cuGraphDestroy", graph)
                cuda.do("cuGraphExecDestroy", executable)
                cuda.do("cuStreamSynchronize", stream)
                assert cuda.words(c, 1) == [number * 100 + turn]
                assert cuda.floats(c, 32)[1:] == [3.0 * i for i in range(1, 32)]
        except BaseException as error:  # shown by the test, not lost with the thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    assert cuda.words(shared_words, 16) == [1] * 16
