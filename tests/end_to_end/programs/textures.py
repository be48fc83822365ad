"""Kernels that read through textures and write through surfaces, checked against the host.

usage: textures.py [--hold] [--graph]: with --hold the kernels only look at the handles, for drivers that execute no
textures; with --graph each launch is a graph of its own.
Each launch has a stretch of its own for `--launch N`:
1 filters a 2D texture into linear memory  2 the same through a handle kept in memory  3 writes a 2D surface
4 reads it back as a texture  5 fetches from a texture over linear memory  6 reads a mipmap level by level
7 a texture reference bound to an array  8 one that is made inside the stretch: array, texture and all
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

WIDTH, HEIGHT = 40, 24
FLOAT, SURFACE_LDST = 0x20, 2
ARRAY, MIPMAPPED, LINEAR = 0, 1, 2
CLAMP, POINT, LINEAR_FILTER, NORMALIZED = 1, 0, 1, 2

HEAD = """.version 7.0
.target sm_70
.address_size 64
"""
INDEX = """
    .reg .u32 %t<8>; .reg .u64 %a<8>; .reg .f32 %f<8>; .reg .pred %p<2>;
    ld.param.u64 %a1, [handle]; ld.param.u64 %a2, [memory];
    mov.u32 %t1, %ctaid.x; mov.u32 %t2, %tid.x; // row and column
    mov.u32 %t4, %ntid.x;
    mad.lo.u32 %t3, %t1, %t4, %t2;
    mul.wide.u32 %a3, %t3, 4; add.u64 %a3, %a3, %a2;
"""
# A kernel gets a handle (or where one is kept) and the memory that it writes or reads.
KERNELS = {
    "sample": "cvt.rn.f32.u32 %f1, %t2; cvt.rn.f32.u32 %f2, %t1; add.f32 %f1, %f1, 0f3F400000; add.f32 %f2, %f2, "
    "0f3F800000; tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%a1, {%f1,%f2}]; st.global.f32 [%a3], %f3;",
    "sample_kept": "ld.global.u64 %a1, [%a1+16]; cvt.rn.f32.u32 %f1, %t2; cvt.rn.f32.u32 %f2, %t1; "
    "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%a1, {%f1,%f2}]; st.global.f32 [%a3], %f3;",
    "write": "ld.global.f32 %f3, [%a3]; mov.b32 %t5, %f3; shl.b32 %t6, %t2, 2; "
    "sust.b.2d.b32.trap [%a1, {%t6,%t1}], {%t5};",
    "fetch": "tex.1d.v4.f32.s32 {%f3,%f4,%f5,%f6}, [%a1, {%t3}]; add.f32 %f3, %f3, %f3; st.global.f32 [%a3], %f3;",
    # The second level is 20 x 12; the coordinates of a mipmap are normalised.
    "level": "cvt.rn.f32.u32 %f1, %t2; cvt.rn.f32.u32 %f2, %t1; mov.f32 %f7, 0f3F800000; "
    "add.f32 %f1, %f1, 0f3F000000; add.f32 %f2, %f2, 0f3F000000; "
    "div.rn.f32 %f1, %f1, 0f41A00000; div.rn.f32 %f2, %f2, 0f41400000; "
    "tex.level.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%a1, {%f1,%f2}], %f7; st.global.f32 [%a3], %f3;",
    "by_reference": "cvt.rn.f32.u32 %f1, %t2; cvt.rn.f32.u32 %f2, %t1; "
    "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [picture, {%f1,%f2}]; st.global.f32 [%a3], %f3;",
}
HOLD = "setp.ne.u64 %p1, %a1, 0; selp.u32 %t5, 1, 0, %p1; st.global.u32 [%a3], %t5;"


def module_text(hold: bool) -> bytes:
    text = HEAD + ("" if hold else ".global .texref picture;\n")
    for name, body in KERNELS.items():
        held = "ld.global.u64 %a1, [%a1+16]; " if "kept" in name else ""
        held += HOLD if name != "write" else ""
        text += f".visible .entry {name}(.param .u64 handle, .param .u64 memory) {{"
        text += f"{INDEX}{held if hold else body}\nret;}}\n"
    return text.encode() + b"\0"


def floats(count: int, first: int = 0) -> bytes:
    return struct.pack(f"<{count}f", *((first + 37 * n) % 251 for n in range(count)))


def memory(data: bytes) -> int:
    address = made("cuMemAlloc_v2", len(data))
    call("cuMemcpyHtoD_v2", address, data, len(data))
    return address


def upload(array: int, data: bytes, width: int, height: int) -> None:
    side = struct.pack("<QQI4xQQQQ", 0, 0, 1, ctypes.cast(data, ctypes.c_void_p).value or 0, 0, 0, width * 4)
    target = struct.pack("<QQI4xQQQQ", 0, 0, 3, 0, 0, array, 0)
    call("cuMemcpy2D_v2", side + target + struct.pack("<QQ", width * 4, height))


def new_array(width: int, height: int, flags: int = 0) -> int:
    return made("cuArray3DCreate_v2", struct.pack("<QQQIII4x", width, height, 0, FLOAT, 1, flags))


def resource(kind: int, place: int, size: int = 0) -> bytes:
    return struct.pack("<I4xQIIQ", kind, place, FLOAT, 1, size).ljust(144, b"\0")


def texture(described: bytes, filtering: int = POINT, flags: int = 0, levels: float = 0.0) -> int:
    how = struct.pack("<3IIIIIfff", CLAMP, CLAMP, CLAMP, filtering, flags, 0, POINT, 0.0, 0.0, levels)
    return made("cuTexObjectCreate", described, how.ljust(104, b"\0"), 0)


def main() -> None:
    hold, graphs = "--hold" in sys.argv, "--graph" in sys.argv
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    module = made("cuModuleLoadData", module_text(hold))
    kernels = {name: made("cuModuleGetFunction", module, name.encode()) for name in KERNELS}
    stream = made("cuStreamCreate", ctypes.c_uint32(1)) if graphs else 0
    picture = floats(WIDTH * HEIGHT)
    rows = [struct.unpack_from(f"<{WIDTH}f", picture, 4 * WIDTH * y) for y in range(HEIGHT)]
    output = memory(bytes(4 * WIDTH * HEIGHT))

    def launch(name: str, handle: int, width: int = WIDTH, height: int = HEIGHT, at: int = 0) -> list[float]:
        words = (ctypes.c_uint64 * 2)(handle, at or output)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(words) + 8 * n for n in range(2)))
        if graphs:
            call("cuStreamBeginCapture_v2", stream, ctypes.c_uint32(0))
        call("cuLaunchKernel", kernels[name], height, 1, 1, width, 1, 1, 0, stream, pointers, 0)
        if graphs:
            graph = ctypes.c_uint64(0)
            call("cuStreamEndCapture", stream, ctypes.byref(graph))
            call("cuGraphLaunch", made("cuGraphInstantiateWithFlags", graph.value, 0), stream)
        call("cuCtxSynchronize")
        got = ctypes.create_string_buffer(4 * width * height)
        call("cuMemcpyDtoH_v2", got, output, len(got))
        return list(struct.unpack(f"<{width * height}f", got.raw))

    def same(what: str, got: list[float], expected: list[float]) -> None:
        assert hold or got == expected, f"{what}: {got[:8]} instead of {expected[:8]}"

    unused = texture(resource(ARRAY, new_array(16, 16)))
    first = new_array(WIDTH, HEIGHT)
    upload(first, picture, WIDTH, HEIGHT)
    filtered = texture(resource(ARRAY, first), LINEAR_FILTER)
    plain = texture(resource(ARRAY, first))
    kept = memory(struct.pack("<4Q", 1, 2, plain, 3))

    def at(y: int, x: int) -> float:
        return rows[min(y, HEIGHT - 1)][min(x, WIDTH - 1)]

    # Texel centres lie at .5: x + 0.75 is a quarter between two columns, y + 1 the middle between two rows.
    expected = [
        ((at(y, x) * 0.75 + at(y, x + 1) * 0.25) + (at(y + 1, x) * 0.75 + at(y + 1, x + 1) * 0.25)) / 2
        for y in range(HEIGHT)
        for x in range(WIDTH)
    ]
    same("filtered", launch("sample", filtered), expected)
    whole = [value for row in rows for value in row]
    same("kept", launch("sample_kept", kept), whole)

    drawn = new_array(WIDTH, HEIGHT, SURFACE_LDST)
    surface = made("cuSurfObjectCreate", resource(ARRAY, drawn))
    readable = texture(resource(ARRAY, drawn))
    source = memory(floats(WIDTH * HEIGHT, 5))
    launch("write", surface, at=source)
    same("drawn", launch("sample_kept", memory(struct.pack("<4Q", 0, 0, readable, 0))),
         list(struct.unpack(f"<{WIDTH * HEIGHT}f", floats(WIDTH * HEIGHT, 5))))  # fmt: skip

    line = memory(floats(WIDTH * HEIGHT, 9))
    same("fetched", launch("fetch", texture(resource(LINEAR, line, 4 * WIDTH * HEIGHT))),
         [2 * value for value in struct.unpack(f"<{WIDTH * HEIGHT}f", floats(WIDTH * HEIGHT, 9))])  # fmt: skip

    mipmap = made(
        "cuMipmappedArrayCreate", struct.pack("<QQQIII4x", WIDTH, HEIGHT, 0, FLOAT, 1, 0), ctypes.c_uint32(2)
    )
    small = floats(WIDTH * HEIGHT // 4, 77)
    upload(made("cuMipmappedArrayGetLevel", mipmap, ctypes.c_uint32(0)), picture, WIDTH, HEIGHT)
    upload(made("cuMipmappedArrayGetLevel", mipmap, ctypes.c_uint32(1)), small, WIDTH // 2, HEIGHT // 2)
    through = texture(resource(MIPMAPPED, mipmap), flags=NORMALIZED, levels=1.0)
    same("second level", launch("level", through, WIDTH // 2, HEIGHT // 2),
         list(struct.unpack(f"<{WIDTH * HEIGHT // 4}f", small)))  # fmt: skip

    if not hold:
        reference = made("cuModuleGetTexRef", module, b"picture")
        bound = new_array(WIDTH, HEIGHT)
        upload(bound, floats(WIDTH * HEIGHT, 3), WIDTH, HEIGHT)
        call("cuTexRefSetFilterMode", reference, ctypes.c_uint32(POINT))
        call("cuTexRefSetArray", reference, bound, ctypes.c_uint32(1))
        same(
            "reference",
            launch("by_reference", 0),
            list(struct.unpack(f"<{WIDTH * HEIGHT}f", floats(WIDTH * HEIGHT, 3))),
        )

    last = new_array(WIDTH, HEIGHT)
    upload(last, floats(WIDTH * HEIGHT, 11), WIDTH, HEIGHT)
    late = texture(resource(ARRAY, last))
    late_kept = memory(struct.pack("<4Q", 0, 0, late, 0))
    same(
        "late",
        launch("sample_kept", late_kept),
        list(struct.unpack(f"<{WIDTH * HEIGHT}f", floats(WIDTH * HEIGHT, 11))),
    )
    call("cuTexObjectDestroy", late)
    call("cuArrayDestroy", last)
    call("cuTexObjectDestroy", unused)
    print(f"textures: all {'held' if hold else 'correct'}")


if __name__ == "__main__":
    main()
