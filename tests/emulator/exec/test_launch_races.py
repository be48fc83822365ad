"""Races between launches are found where no stream, event or wait of the host orders them, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from race_kernels import Pair, module
from race_suites import checked

if TYPE_CHECKING:
    from conftest import Fresh

FRAME = """.visible .entry {name}(.param .u64 data)
{{
  .reg .pred %p<4>; .reg .b32 %r<8>, %t; .reg .b64 %rd<4>, %o;
  ld.param.u64 %o, [data]; mov.u32 %t, %tid.x; mul.wide.u32 %rd1, %t, 4; add.u64 %o, %o, %rd1;
{body}
  ret;
}}
"""
TEXT, _ = module(
    [
        Pair("writes", "  st.global.u32 [%o], %t;"),
        Pair("reads", "  ld.global.u32 %r1, [%o]; add.u32 %r1, %r1, 1; st.global.u32 [%o+4096], %r1;"),
        Pair("counts", "  red.global.add.u32 [%o], 1;"),
    ],
    FRAME,
)
SETUP = f"""
image = d.module({TEXT!r})
def launch(name, stream, at):
    d.launch(d.function(image, name + "_fault"), [2], [64], [at], stream=stream)
BLOCKING, NON_BLOCKING = 0, 1
a, b = d.make("cuStreamCreate", NON_BLOCKING), d.make("cuStreamCreate", NON_BLOCKING)
c = d.make("cuStreamCreate", BLOCKING)
event = d.make("cuEventCreate", 2)
data, other = d.alloc(8192), d.alloc(8192)
"""
# What is between the writes of one stream and the reads of another.
ORDERED = {
    "one stream": "launch('writes', a, data); launch('reads', a, data)",
    "an event": "launch('writes', a, data); d.do('cuEventRecord', event, a); "
    "d.do('cuStreamWaitEvent', b, event, 0); launch('reads', b, data)",
    "two events": "launch('writes', a, data); d.do('cuEventRecord', event, a); "
    "d.do('cuStreamWaitEvent', c, event, 0); again = d.make('cuEventCreate', 2); d.do('cuEventRecord', again, c); "
    "d.do('cuStreamWaitEvent', b, again, 0); launch('reads', b, data)",
    "a wait for the stream": "launch('writes', a, data); d.do('cuStreamSynchronize', a); launch('reads', b, data)",
    "a wait for the event": "launch('writes', a, data); d.do('cuEventRecord', event, a); "
    "d.do('cuEventSynchronize', event); launch('reads', b, data)",
    "a wait for all": "launch('writes', a, data); d.do('cuCtxSynchronize'); launch('reads', b, data)",
    "a question": "launch('writes', a, data); d.do('cuStreamQuery', a); launch('reads', b, data)",
    "a wait after the end of a stream": "launch('writes', a, data); d.do('cuStreamDestroy_v2', a); "
    "d.do('cuCtxSynchronize'); launch('reads', b, data)",
    "the legacy stream after the end of one": "launch('writes', c, data); d.do('cuStreamDestroy_v2', c); "
    "launch('reads', 0, data)",
    "the legacy stream": "launch('writes', c, data); launch('reads', 0, data)",
    "the legacy stream before": "launch('writes', 0, data); launch('reads', c, data)",
    "other memory": "launch('writes', a, data); launch('reads', b, other)",
    "reads": "launch('reads', a, data - 0); d.do('cuStreamSynchronize', a); launch('reads', b, data)",
    "atomics": "launch('counts', a, data); launch('counts', b, data)",
    "memory that is freed between": "launch('writes', a, data); d.do('cuMemFree_v2', data); "
    "again = d.alloc(8192); launch('reads', b, again)",
}
RACES = {
    "nothing": ("launch('writes', a, data); launch('reads', b, data)", "read_after_write"),
    "the other way": ("launch('reads', a, data); launch('writes', b, data)", "write_after_read"),
    "two writes": ("launch('writes', a, data); launch('writes', b, data)", "write_after_write"),
    "an event too early": (
        (
            "d.do('cuEventRecord', event, a); launch('writes', a, data); "
            "d.do('cuStreamWaitEvent', b, event, 0); launch('reads', b, data)"
        ),
        "read_after_write",
    ),
    "a wait for another stream": (
        "launch('writes', a, data); d.do('cuStreamSynchronize', b); launch('reads', b, data)",
        "read_after_write",
    ),
    "a stream that does not join": (
        "launch('writes', a, data); launch('reads', 0, data)",
        "read_after_write",
    ),
    "the end of a stream": (
        "launch('writes', a, data); d.do('cuStreamDestroy_v2', a); launch('reads', b, data)",
        "read_after_write",
    ),
    "atomics and writes": (
        "launch('counts', a, data); launch('writes', b, data)",
        "write_after_write",
    ),
}


def found_in(fresh: Fresh, folder: Path, body: str, **settings: str) -> list[dict[str, Any]]:
    works = checked(fresh, folder, f"{SETUP}{body}\nd.do('cuCtxSynchronize')\n", **settings)
    assert {item["status"] for item in works.values()} <= {"ok"}
    return [
        {**one, "kernel": item["kernel"], "launch": item["launch"]}
        for item in works.values()
        for one in item["findings"]
        if one["earlier_kernel"]
    ]


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered_is_not_told(fresh: Fresh, tmp_path: Path, name: str) -> None:
    assert found_in(fresh, tmp_path, ORDERED[name]) == []


@pytest.mark.parametrize("name", RACES)
def test_what_nothing_orders_is_told(fresh: Fresh, tmp_path: Path, name: str) -> None:
    body, kind = RACES[name]
    (found,) = (item for item in found_in(fresh, tmp_path, body) if item["kind"] == kind)
    assert (found["space"], found["offset"]) == ("global", 0)
    assert (found["earlier_launch"], found["bytes"]) == (1, 256)
    assert found["earlier_kernel"].endswith("_fault")
    for side in (found["first"], found["second"]):
        assert (side["block"], side["thread"]) == ([0, 0, 0], [0, 0, 0])
        assert side["instruction"] in TEXT.split("\n")[side["ptx_line"] - 1]


def test_the_place_of_a_race_is_where_both_touched_it(fresh: Fresh, tmp_path: Path) -> None:
    """The memory of the second begins 100 bytes later: its first word is what thread 25 wrote."""
    body = "launch('writes', a, data); launch('reads', b, data + 100)"
    for threads in ("1", "5"):
        (found,) = found_in(fresh, tmp_path, body, THREADS=threads)
        assert (found["offset"], found["bytes"], found["value"], found["new_value"]) == (
            100,
            156,
            "0x00000019",
            "",
        )
        assert (found["first"]["block"], found["first"]["thread"]) == ([0, 0, 0], [25, 0, 0])
        assert (found["second"]["block"], found["second"]["thread"]) == ([0, 0, 0], [0, 0, 0])


def test_what_was_in_memory_and_what_is_written(fresh: Fresh, tmp_path: Path) -> None:
    body = "launch('writes', a, data); launch('writes', b, data + 128)"
    (found,) = found_in(fresh, tmp_path, body)
    assert (found["offset"], found["value"], found["new_value"]) == (128, "0x00000020", "0x00000000")


def test_who_wrote_what_the_first_side_read(fresh: Fresh, tmp_path: Path) -> None:
    body = "launch('writes', a, data); launch('reads', a, data + 4); launch('writes', b, data)"
    found = next(one for one in found_in(fresh, tmp_path, body) if one["kind"] == "write_after_read")
    assert (found["offset"], found["earlier_kernel"]) == (4, "reads_fault")
    assert (found["writer_kernel"], found["writer"]["thread"]) == ("writes_fault", [1, 0, 0])
    assert found["writer"]["instruction"] == "st.global.u32 [%o], %t;"


# Calls of the host beside launches of another stream, or in its own: what is found in each, of which kind, and which of
# the two sides is the call.
COPY, FILL = "a copy of the host", "cuMemsetD32Async"
FILLS = "d.do('cuMemsetD32Async', {at}, 7, 32, {stream})"
COPIES = "d.do('cuMemcpyDtoDAsync_v2', other, data + 64, 64, {stream})"
CALLS = {
    "a fill after it": ("launch('writes', a, data); " + FILLS.format(at="data", stream="{other}"),
                        "write_after_write", ("writes_fault", FILL)),
    "a fill before it": (FILLS.format(at="data", stream="{other}") + "; launch('reads', a, data)",
                         "read_after_write", (FILL, "reads_fault")),
    "a copy of what it writes": ("launch('writes', a, data); " + COPIES.format(stream="{other}"),
                                 "read_after_write", ("writes_fault", COPY)),
    "a copy before it writes": (COPIES.format(stream="{other}") + "; launch('writes', a, data)",
                                "write_after_read", (COPY, "writes_fault")),
    "a copy of the host that waits for its own stream": (
        "launch('writes', a, data); d.do('cuMemcpyDtoH{call}', b'12345678', data, 8{at})",
        "read_after_write", ("writes_fault", COPY)),
    "two calls": (FILLS.format(at="data", stream="a") + "; " + COPIES.format(stream="{other}"),
                  "read_after_write", (FILL, COPY)),
    "a fill of rows": ("launch('writes', a, data); d.do('cuMemsetD2D8Async', data + 4, 16, 1, 4, 2, {other})",
                       "write_after_write", ("writes_fault", "cuMemsetD2D8Async")),
    "a fill after a read": ("launch('reads', a, data); " + FILLS.format(at="data", stream="{other}"),
                            "write_after_read", ("reads_fault", FILL)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_the_host_is_a_side(fresh: Fresh, tmp_path: Path, name: str) -> None:
    body, kind, sides = CALLS[name]
    racing = body.format(other="b", call="_v2", at="")
    (found,) = (one for one in found_in(fresh, tmp_path, racing) if one["kind"] == kind)
    assert (found["earlier_kernel"], found["kernel"]) == sides
    for side, of in zip((found["first"], found["second"]), sides, strict=True):
        is_kernel = of.endswith("_fault")
        assert bool(side["ptx_line"]) == bool(side["block"]) == bool(side["thread"]) == is_kernel
        assert is_kernel or side["instruction"] == of
    assert (found["earlier_launch"] == 1) == sides[0].endswith("_fault")
    assert (found["launch"] is None) == (not sides[1].endswith("_fault"))
    assert found["value"].startswith("0x")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_the_host_in_the_same_stream_is_none(fresh: Fresh, tmp_path: Path, name: str) -> None:
    body, _, _ = CALLS[name]
    assert found_in(fresh, tmp_path, body.format(other="a", call="Async_v2", at=", a")) == []


GRAPH = """
from graph_api import Graphs
g = Graphs(d)
graph = g.create()
first = g.kernel(graph, [], d.function(image, "writes_fault"), 2, 64, [data])
{second}
g.run(g.instantiate(graph), a)
"""
NODES = {
    "two kernels": ("g.kernel(graph, {after}, d.function(image, 'reads_fault'), 2, 64, [data])", "read_after_write",
                    "reads_fault"),
    "a fill": ("g.fill(graph, {after}, data, 7, 16)", "write_after_write", "a memset of a graph"),
    "a copy": ("g.copy(graph, {after}, other, data, 64)", "read_after_write", COPY),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_branches_of_a_graph_race(fresh: Fresh, tmp_path: Path, name: str) -> None:
    second, kind, kernel = NODES[name]
    bodies = [GRAPH.format(second=second.format(after=after)) for after in ("[]", "[first]")]
    (found,) = found_in(fresh, tmp_path, bodies[0])
    # Which branch is first is the driver's choice.
    kinds = {kind, kind.replace("read_after_write", "write_after_read")}
    assert found["kind"] in kinds
    assert {found["earlier_kernel"], found["kernel"]} == {"writes_fault", kernel}
    assert found_in(fresh, tmp_path, bodies[1]) == []


def test_launches_of_one_executable_graph_follow_each_other(fresh: Fresh, tmp_path: Path) -> None:
    """In whatever streams: cuGraphLaunch orders them. Those of two executable graphs are not ordered."""
    one = GRAPH.format(second="x, y = g.instantiate(graph), g.instantiate(graph)").rpartition("g.run")[0]
    two = one + "d.do('cuGraphLaunch', x, a); d.do('cuGraphLaunch', {executable}, b)\n"
    assert found_in(fresh, tmp_path, two.format(executable="x")) == []
    (found,) = found_in(fresh, tmp_path, two.format(executable="y"))
    assert found["kind"] == "write_after_write"
