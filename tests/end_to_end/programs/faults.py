"""A window that ends in an error, of the kind that argv[1] names; argv[2]: the device. Prints the error in the end.

The kernel `fault` is at fault in its second launch alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from driver_calls import BUMP, check, cu, function, launch, load, start

FAULT = """
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[6] = {119, 114, 111, 110, 103, 0};
.visible .entry fault(.param .u64 p, .param .u32 how) {
    .reg .u64 %a, %t; .reg .u32 %h, %v; .reg .pred %q;
    ld.param.u64 %a, [p]; ld.param.u32 %h, [how];
    mov.u32 %v, %tid.x;
    setp.eq.u32 %q, %h, 1; @%q st.global.u32 [%a+4096], %v;
    setp.eq.u32 %q, %h, 2; @%q st.global.u32 [%a+2], %v;
    setp.eq.u32 %q, %h, 3; @%q trap;
    setp.ne.u32 %q, %h, 4; @%q bra after;
    mov.u64 %t, text; cvta.global.u64 %t, %t;
    { .param .b64 a; st.param.b64 [a], %t; .param .b64 b; st.param.b64 [b], %t; .param .b32 c; st.param.b32 [c], 7;
      .param .b64 d; st.param.b64 [d], %t; .param .b64 e; st.param.b64 [e], 1;
      call.uni __assertfail, (a, b, c, d, e); }
after:
    setp.ne.u32 %q, %h, 5; @%q bra done;
again:
    ld.volatile.global.u32 %v, [%a]; bra again;
done:
    setp.eq.u32 %q, %h, 6; @%q st.global.u32 [16], %v;
    st.global.u32 [%a], %h;
    ret;
}
"""
REFUSED = """
.visible .entry refused(.param .u64 p) {
    .reg .u64 %a; .reg .b32 %r;
    ld.param.u64 %a, [p]; nonsense.of.nobody %r, %a; st.global.u32 [%a], %r;
    ret;
}
"""
HOW = {"past": 1, "misaligned": 2, "trap": 3, "assert": 4, "hang": 5, "null": 6, "graph": 1, "freed": 0}

kind, device = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
start(device)
bump = function(load(BUMP), "bump")
memory = check(cu.cuMemAlloc(4096))
check(cu.cuMemsetD32(memory, 5, 1024))
launch(bump, memory)
stream = check(cu.cuStreamCreate(1))
check(cu.cuCtxSynchronize())
if kind == "refused":
    held = np.array([int(memory)], np.uint64)
    pointers = np.array([held.ctypes.data], np.uint64)
    kernel = function(load(REFUSED), "refused")
    print(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)[0].name)
    sys.exit()
fault = function(load(FAULT), "fault")
launch(fault, memory, np.uint32(0), stream=stream)
check(cu.cuCtxSynchronize())
other = check(cu.cuMemAlloc(64))
if kind == "freed":
    check(cu.cuMemFree(other))
if kind == "graph":
    check(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
launch(fault, other if kind == "freed" else memory, np.uint32(HOW[kind]), stream=stream)
if kind == "graph":
    graph = check(cu.cuStreamEndCapture(stream))
    check(cu.cuGraphLaunch(check(cu.cuGraphInstantiate(graph, 0)), stream))
found = np.zeros(1024, np.uint32)
print(cu.cuMemcpyDtoHAsync(found.ctypes.data, memory, 4096, stream)[0].name)
print(cu.cuStreamSynchronize(stream)[0].name)
print(cu.cuMemAlloc(4096)[0].name)  # the error stays
