"""Graphs that are built node by node: structure, parameters of nodes, and what is refused."""

from __future__ import annotations

import ctypes
from pathlib import Path

import driver_api as api
import graph_api
from driver_api import Driver
from graph_api import Graphs


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
