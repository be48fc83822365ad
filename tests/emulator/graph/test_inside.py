"""Graphs inside graphs: children, clones, conditional nodes."""

from __future__ import annotations

import ctypes
import struct

import driver_api as api
import graph_api
from driver_api import Driver
from graph_api import Graphs


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
