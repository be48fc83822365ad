"""Texture and surface objects for tests: from images of the reference to handles, and kernels that use them."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Sequence

import driver_api as api
from array_api import CUBEMAP, GATHER, LAYERED, Box, Resource, Texture, create
from copy_api import ARRAY, HOST, Copy3D
from driver_api import Driver
from texture_reference import Format, Image, Level

FORMATS = {
    "u8": Format("u", 8, 1, 0x01),
    "u8x4": Format("u", 8, 4, 0x01),
    "s8x2": Format("s", 8, 2, 0x08),
    "u16x2": Format("u", 16, 2, 0x02),
    "s16x4": Format("s", 16, 4, 0x09),
    "u32": Format("u", 32, 1, 0x03),
    "s32x2": Format("s", 32, 2, 0x0A),
    "f16x4": Format("f", 16, 4, 0x10),
    "f32": Format("f", 32, 1, 0x20),
    "f32x4": Format("f", 32, 4, 0x20),
    "unorm8x4": Format("un", 8, 4, 0xC2),
    "snorm16x2": Format("sn", 16, 2, 0xCA),
}

READ_AS_INTEGER, NORMALISED, SRGB, SEAMLESS = 1, 2, 0x10, 0x40


def random_texel(form: Format, chance: random.Random) -> tuple[int, ...]:
    """Any bits; floats are finite."""

    def channel() -> int:
        bits = chance.getrandbits(form.bits)
        if form.kind == "f":
            exponent = 0x7C00 if form.bits == 16 else 0x7F800000
            while bits & exponent == exponent:
                bits = chance.getrandbits(form.bits)
        return bits

    return tuple(channel() for _ in range(form.channels))


def random_level(form: Format, extents: Sequence[int], chance: random.Random) -> Level:
    width, height, slices = (max(extent, 1) for extent in extents)
    return Level(width, height, slices, [random_texel(form, chance) for _ in range(width * height * slices)])


def upload(cuda: Driver, array: int, form: Format, level: Level) -> None:
    data = b"".join(form.pack(texel) for texel in level.texels)
    row = form.size_bytes * level.width
    cuda.do("cuMemcpy3D_v2", api.out(Copy3D(
        source_type=HOST, source_host=ctypes.cast(data, ctypes.c_void_p).value, source_pitch=row,
        source_height=level.height, destination_type=ARRAY, destination_array=array, width=row, rows=level.height,
        depth=level.slices,
    )))  # fmt: skip


def download(cuda: Driver, array: int, form: Format, level: Level) -> bytes:
    row = form.size_bytes * level.width
    data = ctypes.create_string_buffer(row * level.height * level.slices)
    cuda.do("cuMemcpy3D_v2", api.out(Copy3D(
        source_type=ARRAY, source_array=array, destination_type=HOST, destination_host=ctypes.addressof(data),
        destination_pitch=row, destination_height=level.height, width=row, rows=level.height, depth=level.slices,
    )))  # fmt: skip
    return data.raw


def array_of(cuda: Driver, image: Image, extra_flags: int = 0) -> tuple[int, int]:
    """Resource type and handle of an array, mipmapped if there are several levels, that holds the image."""
    flags = extra_flags | (LAYERED if image.layered else 0) | (CUBEMAP if image.cubemap else 0)
    first = image.levels[0]
    depth = first.slices if image.layered or image.cubemap or image.dimensions == 3 else 0
    height = first.height if image.dimensions > 1 else 0
    form = image.format
    if len(image.levels) == 1:
        array = create(
            cuda, first.width, height, depth, kind=form.number, channels=form.channels, flags=flags
        )
        upload(cuda, array, form, first)
        return 0, array
    box = Box(first.width, height, depth, form.number, form.channels, flags)
    mipmapped = cuda.make("cuMipmappedArrayCreate", api.out(box), len(image.levels))
    for number, level in enumerate(image.levels):
        upload(cuda, cuda.make("cuMipmappedArrayGetLevel", mipmapped, number), form, level)
    return 1, mipmapped


def description(image: Image) -> Texture:
    flags = (
        (0 if image.promotes else READ_AS_INTEGER)
        | (NORMALISED if image.normalised else 0)
        | (SRGB if image.srgb else 0)
        | (SEAMLESS if image.seamless else 0)
    )
    border = [struct.unpack("f", struct.pack("I", bits))[0] for bits in image.border]
    return Texture(
        (ctypes.c_int * 3)(*image.modes), int(image.filters), flags, 1, int(image.filters_levels),
        (ctypes.c_float * 3)(image.bias, image.least, image.most), (ctypes.c_float * 4)(*border),
    )  # fmt: skip


def resource_of(kind: int, *words: int) -> Resource:
    return Resource(kind, (ctypes.c_uint64 * 16)(*words), 0)


def texture_of(cuda: Driver, image: Image, *, gathers: bool = False) -> int:
    kind, handle = array_of(cuda, image, GATHER if gathers else 0)
    return cuda.make(
        "cuTexObjectCreate", api.out(resource_of(kind, handle)), api.out(description(image)), None
    )


WORDS = 16  # of a thread, in and out


def kernel(instructions: str, header: str = "") -> str:
    """`k(handle, in, out)`: %r0..%r15 and %f0..%f15 hold a thread's words; %o0..%o15 are stored, zero before."""
    loads = "\n".join(
        f"ld.global.u32 %r{i}, [%in+{4 * i}]; mov.b32 %f{i}, %r{i}; mov.u32 %o{i}, 0;" for i in range(WORDS)
    )
    stores = "\n".join(f"st.global.u32 [%out+{4 * i}], %o{i};" for i in range(WORDS))
    return f""".version 8.3
.target sm_90
.address_size 64
{header}
.visible .entry k(.param .u64 handle, .param .u64 from, .param .u64 to) {{
.reg .b32 %r<{WORDS}>, %o<{WORDS}>; .reg .f32 %f<{WORDS}>; .reg .b64 %image, %in, %out, %rd<8>; .reg .b16 %h<8>;
.reg .pred %p<4>; .reg .b32 %t;
ld.param.u64 %image, [handle]; ld.param.u64 %in, [from]; ld.param.u64 %out, [to];
mov.u32 %t, %ctaid.x;
mad.lo.u32 %t, %t, 64, %tid.x;
mad.wide.u32 %in, %t, {4 * WORDS}, %in;
mad.wide.u32 %out, %t, {4 * WORDS}, %out;
{loads}
{instructions}
{stores}
}}"""


def launch(
    cuda: Driver, ptx: str, handle: int, threads: Sequence[Sequence[int]]
) -> tuple[int, list[list[int]]]:
    """Runs one thread for each list of words; the error, and what each thread stored."""
    blocks = -(-len(threads) // 64)
    data = b"".join(
        struct.pack(f"{WORDS}I", *(word & 0xFFFFFFFF for word in [*words, *[0] * WORDS][:WORDS]))
        for words in [*threads, *[threads[-1]] * (64 * blocks - len(threads))]
    )
    source, result = cuda.alloc(len(data)), cuda.alloc(len(data))
    cuda.write(source, data)
    error = cuda.launch(cuda.function(cuda.module(ptx), "k"), (blocks,), (64,), [handle, source, result])
    error = error or cuda.cuCtxSynchronize()  # type: ignore[operator]
    if error:
        return error, []
    words = struct.unpack(f"{len(data) // 4}I", cuda.read(result, len(data)))
    return 0, [list(words[WORDS * t : WORDS * (t + 1)]) for t in range(len(threads))]


def float_bits(value: float) -> int:
    return int(struct.unpack("I", struct.pack("f", value))[0])
