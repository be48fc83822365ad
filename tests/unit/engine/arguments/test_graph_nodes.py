"""What kernels in graphs are given: addresses, handles and tensor maps of this replay; nodes with graphs in them."""

from __future__ import annotations

import ctypes
import struct

import graph_descriptions as written
import pytest

from replay.api.graphs import Node, NodeType, Part, parse_description
from replay.engine.placing.pieces import Placed
from replay.errors import EngineError
from replay.planning.spans import Span

from ...helpers.fake_driver import FakeDriver
from ..wiring import Engine
from .test_tensor_maps import MEMORY, MOVED, driver, encoded, map_of

__all__ = ["driver"]  # a fixture

LARGE, SMALL = (5 << 32) + 0x10, 0x40
IF, UPDATABLE = 0, 13


def engine_with(driver: FakeDriver) -> Engine:
    placed = Placed(Span(MEMORY, 1 << 21, False), MOVED, "relocated")
    engine = Engine(driver, [placed], maps={1: map_of()})
    engine.handles.bind("CUfunction", 0xF, 0xF0)
    return engine


def values_of(
    engine: Engine, data: bytes, layout: list[tuple[int, int]] | None, own: dict[int, int]
) -> bytes:
    parts = {Part.PARAMETERS: written.kernel_parameters(0xF), Part.BUFFER: data}
    if layout is not None:
        parts[Part.LAYOUT] = b"".join(struct.pack("<II", *slot) for slot in layout)
    _, kept = engine.graphs.nodes.kernel(Node(1, NodeType.KERNEL, (), parts), own, "here")
    return bytes(kept[0])


@pytest.mark.parametrize(
    ("words", "layout", "expected"),
    [
        ((MEMORY + 8, 3), [(0, 8), (8, 8)], (MOVED + 8, 3)),
        ((3, MEMORY + 8), [(0, 16)], (3, MOVED + 8)),
        ((MEMORY + 8, 3), None, (MOVED + 8, 3)),
        ((MEMORY + 8, 3), [(0, 4), (4, 4), (8, 8)], (MEMORY + 8, 3)),  # two numbers, by chance
        ((SMALL, LARGE), [(0, 8), (8, 8)], (0x500, 0x600)),
        ((SMALL, LARGE), [(0, 16)], (SMALL, 0x600)),  # in a struct a small word may be a count
        ((SMALL, LARGE), None, (SMALL, 0x600)),
        ((0, 1), [(0, 8), (8, 8)], (0, 1)),
    ],
)
def test_words_of_kernels_in_graphs_become_those_of_this_replay(
    driver: FakeDriver,
    words: tuple[int, ...],
    layout: list[tuple[int, int]] | None,
    expected: tuple[int, ...],
) -> None:
    own = {SMALL: 0x500, LARGE: 0x600}
    data = struct.pack("<2Q", *words)
    assert values_of(engine_with(driver), data, layout, own) == struct.pack("<2Q", *expected)


def test_the_handle_of_a_condition_goes_before_memory_that_was_at_its_number(driver: FakeDriver) -> None:
    given = values_of(engine_with(driver), struct.pack("<Q", MEMORY), [(0, 8)], {MEMORY: 0x900})
    assert given == struct.pack("<Q", 0x900)


def test_a_word_of_a_kernel_in_a_graph_that_may_be_a_texture_or_a_surface_is_left_unless_both_agree(
    driver: FakeDriver,
) -> None:
    """By the rule for the parameters of a launch."""
    engine = engine_with(driver)
    data, here = struct.pack("<Q", SMALL), struct.pack("<Q", 0x500)
    for c_type in ("CUtexObject", "CUsurfObject"):
        engine.handles.bind(c_type, SMALL, 0x500)
    assert values_of(engine, data, [(0, 8)], {}) == here
    assert not engine.notes
    engine.handles.bind("CUsurfObject", SMALL, 0x501)
    assert values_of(engine, data, [(0, 8)], {}) == data
    assert any("may be the handle of an object" in note for note in engine.notes)


@pytest.mark.parametrize("layout", [[(0, 8), (64, 128)], None])
def test_tensor_maps_of_kernels_in_graphs_are_encoded_for_where_their_memory_is(
    driver: FakeDriver, layout: list[tuple[int, int]] | None
) -> None:
    data = struct.pack("<Q", MEMORY).ljust(64, b"\0") + encoded(MEMORY + 512)
    expected = struct.pack("<Q", MOVED).ljust(64, b"\0") + encoded(MOVED + 512)
    assert values_of(engine_with(driver), data, layout, {}) == expected


def kernel(handle: int, *words: int, attributes: bytes = b"") -> bytes:
    layout = b"".join(struct.pack("<II", 8 * n, 8) for n in range(len(words)))
    parts = [
        (written.PARAMETERS, written.kernel_parameters(0xF)),
        (written.BUFFER, struct.pack(f"<{len(words)}Q", *words)),
        (written.LAYOUT, layout),
        *([(written.ATTRIBUTES, attributes)] if attributes else []),
    ]
    return written.node(handle, NodeType.KERNEL, parts)


def parameters_given(driver: FakeDriver, symbol: str) -> list[int]:
    """What FakeDriver saw of the first kernel parameter, call by call."""
    found: list[int] = []

    def look(*words: int) -> int:
        values = ctypes.c_uint64.from_address(words[-1] + 40).value
        found.append(ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(values).value).value)
        return 0

    driver.answers[symbol] = look
    return found


def test_a_condition_is_made_for_the_graph_that_it_was_made_for(driver: FakeDriver) -> None:
    """The inner node's handle belongs to the outermost graph, whose kernel decides over it."""
    inner = written.conditional(22, LARGE, IF, [written.graph(kernel(23, LARGE))], value=7, flags=1, steps=1)
    outer = written.conditional(21, SMALL, IF, [written.graph(inner)], value=1, flags=0, steps=0)
    description = parse_description(written.description(written.graph(kernel(20, LARGE), outer)))
    made, bodies = iter((0x1111, 0x2222)), iter((0x3333, 0x4444))
    created: list[tuple[int, int, int]] = []

    def condition(out: int, graph: int, context: int, value: int, flags: int) -> int:
        created.append((graph, value, flags))
        ctypes.c_uint64.from_address(out).value = next(made)
        return 0

    kept = []

    def add(*words: int) -> int:
        body = ctypes.c_uint64(next(bodies))
        kept.append(body)
        ctypes.c_uint64.from_address(words[-1] + 32).value = ctypes.addressof(body)
        return 0

    driver.answers.update({"cuGraphConditionalHandleCreate": condition, "cuGraphAddNode": add})
    given = parameters_given(driver, "cuGraphAddKernelNode_v2")
    built = engine_with(driver).graphs.build(description, "here")
    assert created == [(built.handle, 1, 0), (built.handle, 7, 1)]
    assert built.objects == {SMALL: 0x1111, LARGE: 0x2222}
    assert given == [0x2222, 0x2222]
    assert [item.depth for item in built.nodes] == [0, 0, 1, 2]


def test_a_kernel_that_names_a_later_node_is_given_the_live_one_when_that_is_there(
    driver: FakeDriver,
) -> None:
    """20 changes node 21 on the device."""
    updatable = struct.pack("<IIIIQ", UPDATABLE, 0, 1, 0, LARGE).ljust(72, b"\0")
    description = parse_description(
        written.description(written.graph(kernel(20, LARGE), kernel(21, 3, attributes=updatable)))
    )
    set_attribute: list[bytes] = []
    driver.answers["cuGraphKernelNodeSetAttribute"] = lambda node, kind, value: set_attribute.append(
        ctypes.string_at(value, 16)
    )

    def attribute(node: int, kind: int, value: int) -> int:
        ctypes.memmove(value, struct.pack("<IIQ", 1, 0, 0xD00D), 16)
        return 0

    driver.answers["cuGraphKernelNodeGetAttribute"] = attribute
    given = parameters_given(driver, "cuGraphKernelNodeSetParams_v2")
    engine = engine_with(driver)
    engine.graphs.build(description, "here")
    assert given == [0xD00D]
    assert set_attribute == [struct.pack("<IIQ", 1, 0, 0)]
    assert any("kernels may change nodes" in note for note in engine.notes)


def test_a_kernel_that_takes_more_than_was_captured_is_refused(driver: FakeDriver) -> None:
    """The driver would read on in the memory of this process."""
    places = [(0, 8), (8, 16)]

    def ask(function: int, index: int, offset: int, size: int) -> int:
        if index == len(places):
            return 1
        for out, value in zip((offset, size), places[index], strict=True):
            ctypes.c_size_t.from_address(out).value = value
        return 0

    driver.answers["cuFuncGetParamInfo"] = ask
    engine = engine_with(driver)
    with pytest.raises(EngineError, match="kernel node do not fit the kernel: it takes 2, 1 were captured"):
        values_of(engine, bytes(8), [(0, 8)], {})
    with pytest.raises(EngineError, match="it takes 24 bytes, 8 were captured"):
        values_of(engine, bytes(8), None, {})
    assert values_of(engine, bytes(24), [(0, 8), (8, 16)], {}) == bytes(24)
