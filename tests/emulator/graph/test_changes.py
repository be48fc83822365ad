"""Executable graphs: nodes that are changed and switched off, and updates from another graph."""

from __future__ import annotations

import ctypes

import driver_api as api
import graph_api
from driver_api import Driver
from graph_api import Graphs


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


def test_a_kernel_node_may_be_empty_until_the_launch(graphs: Graphs):
    """As tinygrad makes them: the grid is known when the graph has been instantiated."""
    cuda = graphs.driver
    graph = graphs.create()
    a, b, c = cuda.vectors(64)
    values = [a, b, c, ctypes.c_int(64)]
    node = graphs.kernel(graph, [], cuda.vector_add(), 0, 64, values)
    executable = graphs.instantiate(graph)
    assert cuda.cuGraphLaunch(executable, 0) == api.INVALID_VALUE
    filled, kept = graph_api.kernel_node(cuda.vector_add(), 1, 64, values)
    cuda.do("cuGraphExecKernelNodeSetParams_v2", executable, node, api.out(filled))
    graphs.run(executable)
    assert cuda.floats(c, 64) == [3.0 * i for i in range(64)]
    emptied, kept = graph_api.kernel_node(cuda.vector_add(), 0, 64, values)
    cuda.do("cuGraphExecKernelNodeSetParams_v2", executable, node, api.out(emptied))
    assert cuda.cuGraphLaunch(executable, 0) == api.INVALID_VALUE
    assert cuda.launch(cuda.vector_add(), (0,), (64,), values) == api.INVALID_VALUE
    del kept
