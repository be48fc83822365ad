"""A kernel copies a tile out of a matrix through a tensor map: one by value, one that is kept in memory.

The matrix is named by the maps alone. Launches: 1 and 2 by value, the second with its address replaced; 3 from memory.

usage: tensor_maps.py [--graph]    --graph: each kernel is launched by a graph
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

FLOAT32, WIDTH, HEIGHT, TILE = 7, 64, 32, (16, 8)

BODY = """
    .reg .b32 %r<20>; .reg .b64 %rd<4>, %map, %out; .reg .pred %p<4>;
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 bar;
    {source}
    ld.param.u64 %out, [out];
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar;
    @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
    @%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
      [%r1], [%map, {{%r10, %r11}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    bar.sync 0;
    shl.b32 %r4, %r0, 2; add.u32 %r5, %r4, %r1; ld.shared.u32 %r6, [%r5];
    cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r6;
    ret;"""
BY_VALUE = "mov.b64 %map, map; cvta.param.u64 %map, %map; mov.u32 %r10, 32; mov.u32 %r11, 16;"
KEPT = "ld.param.u64 %map, [map]; mov.u32 %r10, 8; mov.u32 %r11, 4;"
PTX = f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry by_value(.param .align 64 .b8 map[128], .param .u64 out) {{{BODY.format(source=BY_VALUE)} }}
.visible .entry kept(.param .u64 map, .param .u64 out) {{{BODY.format(source=KEPT)} }}
"""


def matrix(first: int) -> tuple[int, list[float]]:
    values = [float((first + 13 * n) % 1021) for n in range(WIDTH * HEIGHT)]
    address = made("cuMemAlloc_v2", 4 * len(values))
    call("cuMemcpyHtoD_v2", address, struct.pack(f"<{len(values)}f", *values), 4 * len(values))
    return address, values


def main() -> None:
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    module = made("cuModuleLoadData", PTX.encode() + b"\0")
    first, second = matrix(1), matrix(500)
    stream = made("cuStreamCreate", 1)
    output = made("cuMemAlloc_v2", 4 * TILE[0] * TILE[1])
    room = ctypes.create_string_buffer(192)
    at = -(-ctypes.addressof(room) // 64) * 64
    call("cuTensorMapEncodeTiled", at, FLOAT32, ctypes.c_uint32(2), first[0], struct.pack("<2Q", WIDTH, HEIGHT),
         struct.pack("<Q", 4 * WIDTH), struct.pack("<2I", *TILE), struct.pack("<2I", 1, 1), 0, 0, 0, 0)  # fmt: skip

    def launch(kernel: str, given: bytes, held: tuple[int, list[float]], x: int, y: int) -> None:
        parameter = ctypes.create_string_buffer(given, len(given))
        target = ctypes.c_uint64(output)
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(parameter), ctypes.addressof(target))
        function = made("cuModuleGetFunction", module, kernel.encode())
        if "--graph" in sys.argv:
            call("cuStreamBeginCapture_v2", stream, ctypes.c_int(0))
        call("cuLaunchKernel", function, 1, 1, 1, TILE[0] * TILE[1], 1, 1, 0, stream, pointers, 0)
        if "--graph" in sys.argv:
            graph = ctypes.c_uint64(0)
            call("cuStreamEndCapture", stream, ctypes.byref(graph))
            call("cuGraphLaunch", made("cuGraphInstantiateWithFlags", graph.value, 0), stream)
        call("cuStreamSynchronize", stream)
        got = ctypes.create_string_buffer(4 * TILE[0] * TILE[1])
        call("cuMemcpyDtoH_v2", got, output, len(got))
        expected = [held[1][(y + row) * WIDTH + x + n] for row in range(TILE[1]) for n in range(TILE[0])]
        assert list(struct.unpack(f"<{len(expected)}f", got.raw)) == expected, kernel

    launch("by_value", ctypes.string_at(at, 128), first, 32, 16)
    call("cuTensorMapReplaceAddress", at, second[0])
    launch("by_value", ctypes.string_at(at, 128), second, 32, 16)
    table = made("cuMemAlloc_v2", 512)
    call("cuMemcpyHtoD_v2", table + 256, ctypes.string_at(at, 128), 128)
    launch("kept", struct.pack("<Q", table + 256), second, 8, 4)
    print("tensor maps: all correct")


if __name__ == "__main__":
    main()
