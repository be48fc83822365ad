"""Kernels of a few lines of PTX: wrapped into a module, and launched with words for parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import driver_api
import numpy as np

if TYPE_CHECKING:
    from conftest import Fresh

CLUSTER_DIMENSION = 4


HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"


def module(body: str, *, shared: str = "", parameters: int = 2, cluster: str = "") -> str:
    """A kernel `k` whose parameters are 64-bit words in %rd0, %rd1.., with the thread in %t and the block in %b."""
    names = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    loads = "\n".join(f"ld.param.u64 %rd{i}, [p{i}];" for i in range(parameters))
    return f"""{HEAD}
.visible .entry k({names}) {cluster} {{
.reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .b16 %h<10>; .reg .f32 %f<20>; .reg .pred %p<10>; .reg .b32 %t, %b;
{shared}
{loads}
mov.u32 %t, %tid.x;
mov.u32 %b, %ctaid.x;
{body}
}}"""


def run(
    cuda: driver_api.Driver,
    ptx: str,
    values: Sequence[object],
    *,
    grid: int = 1,
    block: int = 32,
    cluster: int = 0,
) -> int:
    attributes = [(CLUSTER_DIMENSION, (cluster, 1, 1))] if cluster else []
    function = cuda.function(cuda.module(ptx), "k")
    error = cuda.launch_ex(function, [grid], [block], values, attributes)
    return error or cuda.cuCtxSynchronize()  # type: ignore[operator, no-any-return]


def words(cuda: driver_api.Driver, values: Sequence[int]) -> int:
    address = cuda.alloc(4 * len(values))
    cuda.write(address, np.array(values, "u4").tobytes())
    return address


def complaint(
    fresh: Fresh,
    ptx: str,
    status: int,
    *,
    grid: int = 1,
    block: int = 32,
    arguments: str = "",
    **settings: str,
) -> str:
    """What a process of its own writes to stderr that launches kernel k and waits for it, which must end with this
    status. arguments: Python text."""
    done = fresh(
        f"""
        f = d.function(d.module({ptx!r}), "k")
        print(d.launch(f, [{grid}], [{block}], [{arguments}]) or d.cuCtxSynchronize())
        """,
        **settings,
    )
    assert done.stdout.split() == [str(status)]
    return done.stderr
