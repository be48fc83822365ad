"""Loads a file of weights as a model does, and launches one kernel that adds some of them to activations of a seed.

usage: weights.py FILE OFFSET LENGTH [SEED]: LENGTH bytes from OFFSET on are tensors, put after 512 bytes of their own.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

ADD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 weights, .param .u64 out) {
    .reg .b32 %r<6>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [weights]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r4, [%rd1]; ld.global.u32 %r5, [%rd2]; add.u32 %r5, %r5, %r4; st.global.u32 [%rd2], %r5;
    ret;
}
"""
THREADS, BEFORE = 1024, 512


def main(path: str, offset: int, length: int, seed: int = 1) -> None:
    with open(path, "rb") as file:
        file.seek(offset)
        tensors = random.Random(2).randbytes(BEFORE) + file.read(length)
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    function = made("cuModuleGetFunction", made("cuModuleLoadData", ADD.encode()), b"add")
    weights, out = made("cuMemAlloc_v2", len(tensors)), made("cuMemAlloc_v2", 4 * THREADS)
    call("cuMemcpyHtoD_v2", weights, tensors, len(tensors))
    call("cuMemcpyHtoD_v2", out, random.Random(seed).randbytes(4 * THREADS), 4 * THREADS)
    values = [ctypes.c_uint64(weights), ctypes.c_uint64(out)]
    parameters = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    shape = map(ctypes.c_uint32, (THREADS // 256, 1, 1, 256, 1, 1, 0))
    call("cuLaunchKernel", function, *shape, 0, parameters, None)
    call("cuCtxSynchronize")


main(sys.argv[1], *map(int, sys.argv[2:]))
