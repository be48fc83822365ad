"""usage: own_contexts.py one|two|mixed. Launches in contexts that it makes itself: one, as tinygrad and Halide do; two,
each with a module of its own; or one beside the primary context. Each has a variable that counts its launches."""

from __future__ import annotations

import os
import sys

from cuda.bindings import driver as cu

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import made  # noqa: E402
from driver_calls import check, function, launch, load, words  # noqa: E402

COUNT = """
.visible .global .u32 launches = 5;
.visible .entry count(.param .u64 p) {
    .reg .u64 %a; .reg .u32 %v;
    ld.param.u64 %a, [p];
    ld.global.u32 %v, [launches]; add.u32 %v, %v, 1; st.global.u32 [launches], %v;
    st.global.u32 [%a], %v;
    ret;
}
"""


def own() -> cu.CUcontext:
    """A context that becomes current."""
    return cu.CUcontext(made("cuCtxCreate_v2", 0, 0))


check(cu.cuInit(0))
kind = sys.argv[1]
contexts = [own()] if kind == "one" else [own(), own()]
if kind == "mixed":
    contexts = [check(cu.cuDevicePrimaryCtxRetain(0)), contexts[1]]
places = []
for context in contexts:
    check(cu.cuCtxSetCurrent(context))
    places.append(
        (context, function(load(COUNT), "count"), check(cu.cuMemAlloc(4)), check(cu.cuStreamCreate(0)))
    )
for number in range(1, 4):
    for context, kernel, memory, stream in places[: 1 + number % 2]:
        check(cu.cuCtxSetCurrent(context))
        launch(kernel, memory, stream=stream)
        check(cu.cuStreamSynchronize(stream))
counted = []
for context, _, memory, _ in places:
    check(cu.cuCtxSetCurrent(context))
    counted.append(int(words(memory, 1)[0]))
for context, *_ in places if kind != "mixed" else ():
    check(cu.cuCtxDestroy(context))
assert counted == [8, 7][: len(counted)], counted
