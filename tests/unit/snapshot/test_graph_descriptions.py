"""Descriptions of graphs: what is written is read, and nothing that a stranger wrote is believed."""

from __future__ import annotations

import random
import struct

import graph_descriptions as written
import pytest

from replay.api import graphs
from replay.api.graphs import NodeType, Part, parse_description

KERNEL = (
    (written.PARAMETERS, written.kernel_parameters(0x1234, 3, 64, context=0x77)),
    (written.NAME, b"scale"),
    (written.BUFFER, struct.pack("<QI4x", 0x7F0000000100, 5)),
    (written.LAYOUT, struct.pack("<4I", 0, 8, 8, 4)),
    (written.ATTRIBUTES, struct.pack("<I4xi60x", 8, -3)),
)
COPY = ((written.PARAMETERS, struct.pack("<iiQ", 0, 0, 0x77) + written.copy_3d(0x9000, 0x8000, 64)),)


def sample() -> bytes:
    """A fill, a child graph with a kernel after a copy, and a host node."""
    child = written.graph(
        written.node(11, NodeType.MEMCPY, COPY),
        written.node(12, NodeType.KERNEL, KERNEL, after=[0], edge=b"\1" * 8),
    )
    fill = struct.pack("<QQIIQQQ", 0xA000, 0, 7, 4, 16, 1, 0x77)
    host = (
        (written.PARAMETERS, bytes(16)),
        (written.PROBLEM, b"code of the application"),
        (written.PROBLEM, b"so"),
    )
    return written.description(
        written.graph(
            written.node(1, NodeType.MEMSET, [(written.PARAMETERS, fill)]),
            written.node(2, NodeType.GRAPH, [(written.CHILD, child)], after=[0]),
            written.node(3, NodeType.HOST, host, after=[1, 0]),
            written.conditional(4, 0x5000, 2, [child, written.graph()], 1, 1),
        ),
        0xC0FFEE,
    )


def test_everything_that_was_written_is_read():
    description = parse_description(sample())
    assert description.context == 0xC0FFEE
    nodes = list(description.graph.all_nodes())
    assert [node.handle for node in nodes] == [1, 2, 11, 12, 3, 4, 11, 12]
    fill, child, copy, kernel, host, choice = nodes[:6]
    assert choice.condition == graphs.Condition(0x5000, 0, 2, 1, 1, 0)
    assert list(description.graph.conditions()) == [choice.condition]
    assert [len(body.nodes) for body in choice.bodies] == [2, 0]
    assert [dependency.node for dependency in host.dependencies] == [1, 0]
    assert kernel.dependencies[0].edge == b"\1" * 8
    assert (kernel.name, kernel.function, kernel.geometry) == (
        "scale",
        ("CUfunction", 0x1234),
        ((3, 1, 1), (64, 1, 1), 0),
    )
    assert graphs.layout_of(kernel) == [(0, 8), (8, 4)]
    assert list(kernel.addresses())[0] == 0x7F0000000100
    assert {0x9000, 0x8000} <= set(copy.addresses())
    assert list(fill.addresses()) == [0xA000]
    assert set(kernel.handles()) == {("CUfunction", 0x1234), ("CUcontext", 0x77)}
    assert host.problem == "code of the application; so"
    assert not child.problem


def test_nodes_are_ordered_after_what_they_depend_on_and_else_as_they_were_made():
    after = {0: [3], 1: [], 2: [1], 3: [], 4: [0, 2]}
    graph = written.graph(*(written.node(n, NodeType.EMPTY, after=after[n]) for n in after))
    assert parse_description(written.description(graph)).graph.order() == [1, 2, 3, 0, 4]


def test_a_cycle_is_told():
    graph = written.graph(
        written.node(1, NodeType.EMPTY, after=[1]), written.node(2, NodeType.EMPTY, after=[0])
    )
    with pytest.raises(ValueError, match="cycle"):
        parse_description(written.description(graph)).graph.order()


def test_memory_that_outlives_a_launch_is_told_from_memory_that_does_not():
    def allocate(address: int) -> bytes:
        return written.node(
            address, NodeType.MEM_ALLOC, [(written.PARAMETERS, bytes(104) + struct.pack("<QQ", 64, address))]
        )

    def free(address: int) -> bytes:
        return written.node(
            address + 1, NodeType.MEM_FREE, [(written.PARAMETERS, struct.pack("<Q", address))]
        )

    graph = written.graph(allocate(0x1000), free(0x1000), allocate(0x2000), free(0x3000))
    left, freed = graphs.memory_left_over(parse_description(written.description(graph)).graph)
    assert (left, freed) == ({0x2000: 64}, {0x3000})


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        struct.pack("<IIQ", 2, 0, 0) + written.graph(),
        written.description(struct.pack("<II", 1 << 30, 0)),
        written.description(written.graph(written.node(1, NodeType.EMPTY, after=[7]))),
        written.description(written.graph(struct.pack("<QIIII", 1, 5, 1 << 28, 0, 0))),
        written.description(
            written.graph(struct.pack("<QIIII", 1, 5, 0, 1, 0) + struct.pack("<II", 1, 1 << 31))
        ),
        written.description(
            written.graph(written.node(1, NodeType.MEMCPY, [(written.PARAMETERS, bytes(100))]))
        ),
        written.description(
            written.graph(written.node(1, NodeType.KERNEL, [(written.ATTRIBUTES, bytes(70))]))
        ),
    ],
    ids=["empty", "version", "count", "dependency", "dependencies", "part", "member", "attributes"],
)
def test_what_does_not_fit_is_refused(broken: bytes):
    with pytest.raises(ValueError):
        parse_description(broken)


def test_graphs_nested_without_end_are_refused():
    graph = written.graph()
    for handle in range(40):
        graph = written.graph(written.node(handle, NodeType.GRAPH, [(written.CHILD, graph)]))
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_description(written.description(graph))


def test_random_damage_is_read_or_refused_and_never_anything_else():
    choose, whole = random.Random(5), sample()
    for _ in range(3000):
        data = bytearray(whole[: choose.choice((len(whole), choose.randrange(len(whole))))])
        for _ in range(choose.randrange(4)):
            if data:
                data[choose.randrange(len(data))] = choose.randrange(256)
        try:
            for node in parse_description(bytes(data)).graph.all_nodes():
                list(node.addresses()), list(node.handles()), node.attributes(), node.name, node.type_name
                if node.type == NodeType.KERNEL and not node.problem:
                    graphs.layout_of(node)
        except ValueError:
            pass


def test_a_conditional_node_with_fewer_graphs_than_it_says_cannot_be_replayed():
    whole = written.conditional(1, 0x5000, 0, [written.graph(), written.graph()])
    assert not parse_description(written.description(written.graph(whole))).graph.nodes[0].problem
    member = struct.pack("<QIIQQ", 0x5000, 0, 2, 0, 0)
    parts = [(written.PARAMETERS, member), (written.BODY, written.graph())]
    (node,) = parse_description(written.description(written.graph(written.node(1, 13, parts)))).graph.nodes
    assert node.problem
    assert node.condition is None


def test_a_layout_outside_its_buffer_is_refused():
    parts = [KERNEL[0], (written.BUFFER, bytes(8)), (written.LAYOUT, struct.pack("<2I", 4, 8))]
    description = parse_description(
        written.description(written.graph(written.node(1, NodeType.KERNEL, parts)))
    )
    assert Part.BUFFER in description.graph.nodes[0].parts
    with pytest.raises(ValueError, match="exceeds"):
        graphs.layout_of(description.graph.nodes[0])


def test_a_node_that_cannot_be_replayed_has_whole_parameters_or_none():
    parts = [(written.PARAMETERS, bytes(8)), (written.PROBLEM, b"none")]
    with pytest.raises(ValueError, match="broken lengths"):
        parse_description(written.description(written.graph(written.node(1, NodeType.KERNEL, parts))))
    description = parse_description(
        written.description(written.graph(written.node(1, NodeType.KERNEL, parts[1:])))
    )
    assert description.graph.nodes[0].problem == "none"
    assert not list(description.graph.nodes[0].handles())
