"""A kernel copies pixels along the width of images through a wide tensor map: one by value, one that is kept in memory.

The images are named by the maps alone. Launches: 1 and 2 by value, the second with its address replaced; 3 from memory.
Wide maps come with compute capability 10.0.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

UINT32, SWIZZLE_64B = 2, 2
CHANNELS, WIDTH, HEIGHT, IMAGES = 16, 6, 3, 8
PIXELS, HALO, OFFSET = 30, 2, 1

BODY = """
    .reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %rd<4>, %map, %out; .reg .pred %p<4>;
    .shared .align 1024 .b8 tile[2048];
    .shared .align 8 .b64 bar;
    {source}
    ld.param.u64 %out, [out];
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar;
    @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
    @%p0 bra WAIT;
    mov.u16 %h0, 2; mov.u16 %h1, 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 2048;
    cp.async.bulk.tensor.4d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes
      [%r1], [%map, {{0, %r10, %r11, 0}}], [%r2], {{%h0, %h1}};
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    bar.sync 0;
    shl.b32 %r4, %r0, 2; add.u32 %r5, %r4, %r1; ld.shared.u32 %r6, [%r5];
    cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r6;
    ret;"""
BY_VALUE = "mov.b64 %map, map; cvta.param.u64 %map, %map; mov.u32 %r10, 2; mov.u32 %r11, 1;"
KEPT = "ld.param.u64 %map, [map]; mov.u32 %r10, 0; mov.u32 %r11, 2;"
PTX = f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry by_value(.param .align 64 .b8 map[128], .param .u64 out) {{{BODY.format(source=BY_VALUE)} }}
.visible .entry kept(.param .u64 map, .param .u64 out) {{{BODY.format(source=KEPT)} }}
"""


def images(first: int) -> tuple[int, list[int]]:
    values = [first + 13 * n for n in range(CHANNELS * WIDTH * HEIGHT * IMAGES)]
    address = made("cuMemAlloc_v2", 4 * len(values))
    call("cuMemcpyHtoD_v2", address, struct.pack(f"<{len(values)}I", *values), 4 * len(values))
    return address, values


def copied(values: list[int], w: int, h: int) -> list[int]:
    """What is in shared memory: pixels of 64 bytes, whose quarters change places by the number of the 128 bytes."""
    result = [0] * (CHANNELS * (PIXELS + HALO))
    n, w = 0, w + OFFSET
    for pixel in range(PIXELS + HALO):
        for channel in range(CHANNELS if w < WIDTH else 0):
            quarter = pixel % 2 * 4 + channel // 4 ^ (pixel // 2 & 3)
            place = pixel // 2 * 32 + quarter * 4 + channel % 4
            result[place] = values[((n * HEIGHT + h) * WIDTH + w) * CHANNELS + channel]
        w += 1
        if w > WIDTH - 1 + OFFSET:
            n, w = n + 1, OFFSET
    return result


def main() -> None:
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    module = made("cuModuleLoadData", PTX.encode() + b"\0")
    first, second = images(1), images(500)
    output = made("cuMemAlloc_v2", 2048)
    room = ctypes.create_string_buffer(192)
    at = -(-ctypes.addressof(room) // 64) * 64
    strides = [4 * CHANNELS, 4 * CHANNELS * WIDTH, 4 * CHANNELS * WIDTH * HEIGHT]
    call("cuTensorMapEncodeIm2colWide", at, UINT32, ctypes.c_uint32(4), first[0],
         struct.pack("<4Q", CHANNELS, WIDTH, HEIGHT, IMAGES), struct.pack("<3Q", *strides), ctypes.c_int(0),
         ctypes.c_int(0), CHANNELS, PIXELS, struct.pack("<4I", 1, 1, 1, 1), 0, 0, SWIZZLE_64B, 0, 0)  # fmt: skip

    def launch(kernel: str, given: bytes, held: tuple[int, list[int]], w: int, h: int) -> None:
        parameter = ctypes.create_string_buffer(given, len(given))
        target = ctypes.c_uint64(output)
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(parameter), ctypes.addressof(target))
        function = made("cuModuleGetFunction", module, kernel.encode())
        call("cuLaunchKernel", function, 1, 1, 1, 512, 1, 1, 0, 0, pointers, 0)
        got = ctypes.create_string_buffer(2048)
        call("cuMemcpyDtoH_v2", got, output, len(got))
        assert list(struct.unpack("<512I", got.raw)) == copied(held[1], w, h), kernel

    launch("by_value", ctypes.string_at(at, 128), first, 2, 1)
    call("cuTensorMapReplaceAddress", at, second[0])
    launch("by_value", ctypes.string_at(at, 128), second, 2, 1)
    table = made("cuMemAlloc_v2", 512)
    call("cuMemcpyHtoD_v2", table + 256, ctypes.string_at(at, 128), 128)
    launch("kept", struct.pack("<Q", table + 256), second, 0, 2)
    print("wide tensor maps: all correct")


if __name__ == "__main__":
    main()
