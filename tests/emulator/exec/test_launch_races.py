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
    "atomics and writes": (
        "launch('counts', a, data); launch('writes', b, data)",
        "write_after_write",
    ),
}


def found_in(fresh: Fresh, folder: Path, body: str) -> list[dict[str, Any]]:
    launches = checked(fresh, folder, f"{SETUP}{body}\nd.do('cuCtxSynchronize')\n")
    assert {item["status"] for item in launches.values()} == {"ok"}
    return [one for item in launches.values() for one in item["findings"] if one["earlier_launch"]]


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
    assert found["first"]["block"] == found["first"]["thread"] == []
    assert found["first"]["ptx_line"]
