"""Kernels that get at memory in ways that a search for aligned words cannot see, and numbers that look like addresses.

usage: pointers.py plain|packed|decoy|graph|halves|xor|end|number|scaled|hashed|seeded|node|several|computed|address
One launch of the kernel of that name.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

KEY = 0x5A5A_5A5A_5A5A_5A5A
COUNT = 64

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
# out[i] = data[i] + 1, where %data comes from the table in a way of its own
KERNEL = """
.visible .entry {name}(.param .u64 table, .param .u64 out, .param .align 4 .b8 packed[12]) {{
    .reg .b32 %r<8>; .reg .b64 %rd<12>, %table, %out, %data; .reg .pred %p;
    ld.param.u64 %table, [table]; ld.param.u64 %out, [out];
    {get}
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4;
    add.u64 %rd1, %data, %rd0; add.u64 %rd2, %out, %rd0;
    ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd2], %r1;
    ret;
}}
"""
# out[i] = f(table[i]) of 64-bit words; %rd3 is the word
NUMBERS = """
.visible .entry {name}(.param .u64 table, .param .u64 out, .param .u64 seed) {{
    .reg .b32 %r<8>; .reg .b64 %rd<12>, %table, %out;
    ld.param.u64 %table, [table]; ld.param.u64 %out, [out];
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 8;
    add.u64 %rd1, %table, %rd0; add.u64 %rd2, %out, %rd0;
    ld.global.u64 %rd3, [%rd1]; {work} st.global.u64 [%rd2], %rd3;
    ret;
}}
"""
GET = {
    "plain": "ld.global.u64 %data, [%table];",
    "packed": "ld.global.u32 %r2, [%table+4]; ld.global.u32 %r3, [%table+8]; mov.b64 %data, {%r2, %r3};",
    "decoy": "ld.global.u32 %r2, [%table+20]; ld.global.u32 %r3, [%table+24]; mov.b64 %data, {%r2, %r3};",
    "halves": "ld.global.u32 %r2, [%table+16]; ld.global.u32 %r3, [%table]; mov.b64 %data, {%r2, %r3};",
    "graph": "ld.param.u32 %r2, [packed+4]; ld.param.u32 %r3, [packed+8]; mov.b64 %data, {%r2, %r3};",
    "xor": f"ld.global.u64 %data, [%table]; xor.b64 %data, %data, {KEY};",
    # from the end: the last element is 4 * COUNT bytes before it
    "end": f"ld.global.u64 %data, [%table]; sub.u64 %data, %data, {4 * COUNT};",
}
WORK = {
    "number": "add.u64 %rd3, %rd3, 5;",
    "scaled": "mul.lo.u64 %rd3, %rd3, 24;",
    "hashed": "xor.b64 %rd3, %rd3, 0x5bd1e995; mul.lo.u64 %rd3, %rd3, 0x2545F4914F6CDD1D; shr.u64 %rd4, %rd3, 29;"
    " xor.b64 %rd3, %rd3, %rd4;",
    "address": "",
    # of a number in the parameters, of a launch and of a node of a graph
    "seeded": "ld.param.u64 %rd5, [seed]; mul.lo.u64 %rd5, %rd5, 24; add.u64 %rd3, %rd3, %rd5;",
    "node": "ld.param.u64 %rd5, [seed]; mul.lo.u64 %rd5, %rd5, 24; add.u64 %rd3, %rd3, %rd5;",
}
WORK["several"] = WORK["scaled"]  # numbers
WORK["computed"] = WORK["scaled"] + " mul.lo.u64 %rd6, %table, 24; add.u64 %rd3, %rd3, %rd6;"


def memory(size: int, data: bytes = b"") -> int:
    address = made("cuMemAlloc_v2", size)
    call("cuMemsetD8_v2", address, 0, size)
    if data:
        call("cuMemcpyHtoD_v2", address, data, len(data))
    return address


def table_for(kind: str, data: int) -> bytes:
    low, high = data & 0xFFFFFFFF, data >> 32
    return {
        "plain": struct.pack("<Q", data),
        "packed": struct.pack("<IIII", 7, low, high, 9),
        "decoy": struct.pack("<IQQQI", 7, data + 4, 9, data, data & 3),  # the first is never read
        "halves": struct.pack("<IIIII", high, 1, 2, 3, low),
        "xor": struct.pack("<Q", data ^ KEY),
        "end": struct.pack("<Q", data + 4 * COUNT),
    }.get(kind, b"")


def main(kind: str) -> None:
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    data = memory(4 << 20, struct.pack(f"<{COUNT}I", *range(100, 100 + COUNT)))
    if kind == "end":
        data = memory(4 * COUNT, struct.pack(f"<{COUNT}I", *range(100, 100 + COUNT)))
    out = memory(8 * COUNT)
    host = ctypes.create_string_buffer(8 * COUNT)
    if kind in WORK:
        like_addresses = {"seeded": (), "node": (), "several": (7, 9)}.get(kind, (7,))
        numbers = [data + 0x1230 if place in like_addresses else place * 1000 + 1 for place in range(COUNT)]
        table = memory(8 * COUNT, struct.pack(f"<{COUNT}Q", *numbers))
        source = NUMBERS.format(name=kind, work=WORK[kind])
    else:
        table = memory(4096, table_for(kind, data))
        source = KERNEL.format(name=kind, get=GET[kind])
    function = made("cuModuleGetFunction", made("cuModuleLoadData", (HEAD + source).encode()), kind.encode())
    packed = struct.pack(
        "<III", 7, data & 0xFFFFFFFF if kind == "graph" else 0, data >> 32 if kind == "graph" else 0
    )
    last = ctypes.c_uint64(data + 0x1230) if kind in WORK else ctypes.create_string_buffer(packed, 12)
    values = [ctypes.c_uint64(table), ctypes.c_uint64(out), last]
    parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    shape = (1, 1, 1, COUNT, 1, 1, 0)
    if kind in ("graph", "node"):
        graph = made("cuGraphCreate", 0)
        node = struct.pack("<Q7I4xQQQQ", function, *shape, ctypes.addressof(parameters), 0, 0, 0)
        made("cuGraphAddKernelNode_v2", graph, None, 0, node)
        call("cuGraphLaunch", made("cuGraphInstantiateWithFlags", graph, 0), 0)
    else:
        call("cuLaunchKernel", function, *map(ctypes.c_uint32, shape), 0, parameters, None)
    call("cuMemcpyDtoH_v2", host, out, 8 * COUNT)
    print(kind, host.raw[:32].hex())


main(sys.argv[1])
