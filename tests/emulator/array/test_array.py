"""CUDA arrays as storage: shapes, copies in every form, mipmaps; texture and surface objects as descriptions."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from array_api import (
    BC1,
    CUBEMAP,
    FLOAT,
    GATHER,
    HALF,
    LAYERED,
    NV12,
    SPARSE,
    SURFACE,
    U8,
    U16,
    U32,
    UNORM8X4,
    Box,
    Flat,
    Resource,
    Texture,
    create,
)
from copy_api import ARRAY, DEVICE, HOST, Copy2D, Copy3D
from driver_api import Driver


def pattern(size: int) -> bytes:
    return bytes((7 * i + i // 256) % 256 for i in range(size))


def move_box(cuda: Driver, **fields: int) -> int:
    return cuda.cuMemcpy3D_v2(api.out(Copy3D(**fields)))


def whole(cuda: Driver, array: int, row_bytes: int, rows: int = 1, slices: int = 1) -> bytes:
    result = ctypes.create_string_buffer(row_bytes * rows * slices)
    error = move_box(
        cuda, source_type=ARRAY, source_array=array, destination_type=HOST,
        destination_host=ctypes.addressof(result), destination_pitch=row_bytes, destination_height=rows,
        width=row_bytes, rows=rows, depth=slices,
    )  # fmt: skip
    assert error == api.SUCCESS
    return result.raw


def test_descriptions_come_back(cuda: Driver):
    flat = cuda.make("cuArrayCreate_v2", api.out(Flat(10, 20, HALF, 4)))
    given = Flat()
    cuda.do("cuArrayGetDescriptor_v2", api.out(given), flat)
    assert (given.width, given.height, given.format, given.channels) == (10, 20, HALF, 4)
    box = Box()
    cuda.do("cuArray3DGetDescriptor_v2", api.out(box), create(cuda, 8, 8, 12, flags=LAYERED | CUBEMAP))
    assert (box.width, box.height, box.depth, box.flags) == (8, 8, 12, LAYERED | CUBEMAP)


@pytest.mark.parametrize(
    ("shape", "settings", "error"),
    [
        ((0,), {}, api.INVALID_VALUE),
        ((8, 0, 8), {}, api.INVALID_VALUE),
        ((8,), {"channels": 3}, api.INVALID_VALUE),
        ((8,), {"kind": 4}, api.INVALID_VALUE),
        ((8,), {"kind": UNORM8X4, "channels": 2}, api.INVALID_VALUE),
        ((8,), {"flags": 0x8000}, api.INVALID_VALUE),
        ((8, 9, 6), {"flags": CUBEMAP}, api.INVALID_VALUE),
        ((8, 8, 7), {"flags": CUBEMAP | LAYERED}, api.INVALID_VALUE),
        ((8, 8), {"flags": LAYERED}, api.INVALID_VALUE),
        ((8,), {"flags": GATHER}, api.INVALID_VALUE),
        ((131073,), {}, api.INVALID_VALUE),
        ((16385, 1, 1), {}, api.INVALID_VALUE),
        ((8, 8), {"kind": NV12}, api.NOT_SUPPORTED),
        ((8, 8), {"kind": BC1}, api.NOT_SUPPORTED),
        ((8, 8), {"flags": SPARSE}, api.NOT_SUPPORTED),
        ((16384, 16384, 16384), {"kind": FLOAT, "channels": 4}, api.OUT_OF_MEMORY),
    ],
)
def test_wrong_shapes_are_refused(cuda: Driver, shape: tuple[int, ...], settings: dict[str, int], error: int):
    width, height, depth = (*shape, 0, 0)[:3]
    box = Box(
        width,
        height,
        depth,
        settings.get("kind", U8),
        settings.get("channels", 1),
        settings.get("flags", 0),
    )
    before = cuda.free_bytes()
    assert cuda.cuArray3DCreate_v2(api.out(api.handle()), api.out(box)) == error
    assert cuda.free_bytes() == before


def test_arrays_take_device_memory_and_give_it_back(cuda: Driver):
    before = cuda.free_bytes()
    array = create(cuda, 1024, 1024, kind=FLOAT)
    assert before - cuda.free_bytes() == 4 << 20
    cuda.do("cuArrayDestroy", array)
    assert cuda.free_bytes() == before
    assert cuda.cuArrayDestroy(array) == api.INVALID_HANDLE
    assert cuda.cuArrayGetDescriptor_v2(api.out(Flat()), array) == api.INVALID_HANDLE


def test_a_context_takes_its_arrays_along(library: Driver):
    context = api.handle()
    library.do("cuCtxCreate_v2", api.out(context), 0, 0)
    before = library.free_bytes()
    array = create(library, 1 << 16, 64)
    library.do("cuCtxDestroy_v2", context)
    library.do("cuCtxCreate_v2", api.out(context), 0, 0)
    assert library.free_bytes() == before
    assert library.cuArrayDestroy(array) == api.INVALID_HANDLE
    library.do("cuCtxDestroy_v2", context)


def test_linear_forms_move_bytes_through_an_array(cuda: Driver):
    data = pattern(256)
    first, second = create(cuda, 64, kind=U32), create(cuda, 64, kind=U32)
    stream, device = cuda.make("cuStreamCreate", 1), cuda.alloc(256)
    cuda.do("cuMemcpyHtoA_v2", first, 16, data[16:], 240)
    cuda.do("cuMemcpyHtoAAsync_v2", first, 0, data, 16, stream)
    cuda.do("cuStreamSynchronize", stream)
    cuda.do("cuMemcpyAtoA_v2", second, 0, first, 128, 128)
    cuda.do("cuMemcpyAtoD_v2", device, second, 64, 64)
    cuda.do("cuMemcpyDtoA_v2", second, 128, device, 64)
    back = ctypes.create_string_buffer(64)
    cuda.do("cuMemcpyAtoHAsync_v2", back, second, 128, 64, stream)
    assert back.raw == data[192:256]
    cuda.do("cuMemcpyAtoH_v2", back, first, 0, 64)
    assert back.raw == data[:64]


def test_linear_forms_check_bounds_elements_and_shape(cuda: Driver):
    line, plane = create(cuda, 64, kind=U32), create(cuda, 64, 2, kind=U32)
    data = pattern(512)
    assert cuda.cuMemcpyHtoA_v2(line, 0, data, 257) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(line, 252, data, 8) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(line, 2, data, 8) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(line, (1 << 64) - 4, data, 8) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(plane, 0, data, 8) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(line, 0, None, 8) == api.INVALID_VALUE
    assert cuda.cuMemcpyHtoA_v2(4711, 0, data, 8) == api.INVALID_HANDLE
    assert cuda.cuMemcpyAtoA_v2(line, 0, plane, 0, 8) == api.INVALID_VALUE
    assert whole(cuda, line, 256) == bytes(256)


def test_rectangles_and_boxes_of_arrays(cuda: Driver):
    width, height, depth = 20, 6, 4
    data = pattern(width * height * depth)
    box, plane = create(cuda, width // 2, height, depth, kind=U16), create(cuda, 16, 8)
    fields = {
        "source_type": HOST, "source_host": ctypes.cast(data, ctypes.c_void_p).value, "source_pitch": width,
        "source_height": height, "destination_type": ARRAY, "destination_array": box, "width": width,
        "rows": height, "depth": depth,
    }  # fmt: skip
    assert move_box(cuda, **fields) == api.SUCCESS
    assert whole(cuda, box, width, height, depth) == data
    cuda.do("cuMemcpy2D_v2", api.out(Copy2D(
        source_x=4, source_y=1, source_type=ARRAY, source_array=box, destination_x=3, destination_y=2,
        destination_type=ARRAY, destination_array=plane, width=6, height=5,
    )))  # fmt: skip
    expected = bytearray(128)
    for row in range(5):
        expected[(row + 2) * 16 + 3 : (row + 2) * 16 + 9] = data[(row + 1) * width + 4 :][:6]
    assert whole(cuda, plane, 16, 8) == bytes(expected)
    device = cuda.alloc(64)
    small = {
        "source_type": ARRAY, "source_array": box, "source_x": 2, "source_y": 1, "source_z": 2,
        "destination_type": DEVICE, "destination_device": device, "destination_pitch": 8,
        "destination_height": 2, "width": 8, "rows": 2, "depth": 2,
    }  # fmt: skip
    assert move_box(cuda, **small) == api.SUCCESS
    at = [((z + 2) * height + y + 1) * width + 2 for z in range(2) for y in range(2)]
    assert cuda.read(device, 32) == b"".join(data[start : start + 8] for start in at)
    for wrong in ({"source_x": 1}, {"source_x": 14}, {"source_y": 5}, {"source_z": 3}, {"width": 7}):
        assert move_box(cuda, **(small | wrong)) == api.INVALID_VALUE, wrong
    assert move_box(cuda, **(small | {"source_array": 4711})) == api.INVALID_HANDLE


def test_layers_are_slices(cuda: Driver):
    data = pattern(8 * 5)
    layered = create(cuda, 8, 0, 5, flags=LAYERED)
    fields = {
        "source_type": HOST, "source_host": ctypes.cast(data, ctypes.c_void_p).value, "source_pitch": 8,
        "source_height": 1, "destination_type": ARRAY, "destination_array": layered, "width": 8, "rows": 1,
        "depth": 5,
    }  # fmt: skip
    assert move_box(cuda, **fields) == api.SUCCESS
    assert whole(cuda, layered, 8, 1, 5) == data
    assert move_box(cuda, **(fields | {"destination_z": 1})) == api.INVALID_VALUE


def test_mipmap_levels_halve_and_hold_their_own_data(cuda: Driver):
    before = cuda.free_bytes()
    mipmapped = cuda.make("cuMipmappedArrayCreate", api.out(Box(16, 6, 0, U8, 1, 0)), 100)
    levels, sizes = [], []
    for level in range(5):
        levels.append(cuda.make("cuMipmappedArrayGetLevel", mipmapped, level))
        given = Flat()
        cuda.do("cuArrayGetDescriptor_v2", api.out(given), levels[-1])
        sizes.append((given.width, given.height))
    assert sizes == [(16, 6), (8, 3), (4, 1), (2, 1), (1, 1)]
    assert cuda.cuMipmappedArrayGetLevel(api.out(api.handle()), mipmapped, 5) == api.INVALID_VALUE
    for number, (array, (width, height)) in enumerate(zip(levels, sizes, strict=True)):
        data = bytes([number + 1]) * (width * height)
        cuda.do("cuMemcpy2D_v2", api.out(Copy2D(
            source_type=HOST, source_host=ctypes.cast(data, ctypes.c_void_p).value, source_pitch=width,
            destination_type=ARRAY, destination_array=array, width=width, height=height,
        )))  # fmt: skip
    for number, (array, (width, height)) in enumerate(zip(levels, sizes, strict=True)):
        assert set(whole(cuda, array, width, height)) == {number + 1}
    assert cuda.cuArrayDestroy(levels[1]) == api.INVALID_VALUE
    cuda.do("cuMipmappedArrayDestroy", mipmapped)
    assert cuda.cuArrayGetDescriptor_v2(api.out(Flat()), levels[0]) == api.INVALID_HANDLE
    assert cuda.free_bytes() == before


def test_layers_of_a_mipmap_do_not_shrink_but_a_volume_does(cuda: Driver):
    for flags, expected in ((LAYERED, (2, 2, 8)), (0, (2, 2, 4))):
        mipmapped = cuda.make("cuMipmappedArrayCreate", api.out(Box(4, 4, 8, U8, 1, flags)), 2)
        box = Box()
        level = cuda.make("cuMipmappedArrayGetLevel", mipmapped, 1)
        cuda.do("cuArray3DGetDescriptor_v2", api.out(box), level)
        assert (box.width, box.height, box.depth) == expected


def test_array_copies_wait_as_device_copies_do(fresh):
    done = fresh(
        """
        from test_array import *
        stream, pinned = d.make("cuStreamCreate", 1), d.make("cuMemHostAlloc", 16, 0)
        array = create(d, 16)
        ctypes.memset(pinned, 1, 16)
        d.do("cuMemcpyHtoAAsync_v2", array, 0, pinned, 16, stream)  # pinned: read when the copy runs
        ctypes.memset(pinned, 2, 16)
        source = ctypes.create_string_buffer(b"a" * 4, 4)
        d.do("cuMemcpyHtoAAsync_v2", array, 4, source, 4, stream)  # pageable: read at the call
        source.raw = b"b" * 4
        pageable = ctypes.create_string_buffer(16)
        d.do("cuMemcpyAtoHAsync_v2", pageable, array, 0, 16, stream)  # complete at return
        print(pageable.raw == bytes([2]) * 4 + b"a" * 4 + bytes([2]) * 8)
        d.do("cuMemcpyHtoAAsync_v2", array, 0, pinned, 16, stream)
        d.do("cuArrayDestroy", array)  # the queued copy keeps the storage
        d.do("cuStreamSynchronize", stream)
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "True"


def test_poison_reaches_arrays(fresh):
    done = fresh("from test_array import *\nprint(set(whole(d, create(d, 64, 2), 64, 2)))", POISON="1")
    assert done.stdout.strip() == "{205}"


def test_texture_objects_are_described_and_destroyed(cuda: Driver):
    array = create(cuda, 16, 16, kind=FLOAT)
    resource = Resource(0, (ctypes.c_uint64 * 16)(array), 0)
    texture = Texture((ctypes.c_int * 3)(1, 1, 1), 1, 2, 4)
    made = cuda.make("cuTexObjectCreate", api.out(resource), api.out(texture), None)
    given, again = Resource(), Texture()
    cuda.do("cuTexObjectGetResourceDesc", api.out(given), made)
    cuda.do("cuTexObjectGetTextureDesc", api.out(again), made)
    assert (given.type, given.words[0]) == (0, array)
    assert (list(again.address_mode), again.filter_mode, again.flags) == ([1, 1, 1], 1, 2)
    view = ctypes.create_string_buffer(256)
    assert cuda.cuTexObjectGetResourceViewDesc(view, made) == api.INVALID_VALUE  # none was given
    cuda.do("cuTexObjectDestroy", made)
    assert cuda.cuTexObjectDestroy(made) == api.INVALID_VALUE


def test_resources_of_textures_and_surfaces_are_checked(cuda: Driver):
    def texture_of(kind: int, *words: int, flags: int = 0) -> int:
        resource = Resource(kind, (ctypes.c_uint64 * 16)(*words), flags)
        return cuda.cuTexObjectCreate(api.out(api.handle()), api.out(resource), api.out(Texture()), None)

    device = cuda.alloc(4096)
    u8_by_4 = U8 | 4 << 32
    assert texture_of(2, device, u8_by_4, 4096) == api.SUCCESS
    assert texture_of(2, device, u8_by_4, 4097) == api.INVALID_VALUE  # past the end
    assert texture_of(2, device + 4, u8_by_4, 64) == api.INVALID_VALUE  # alignment
    assert texture_of(3, device, u8_by_4, 8, 8, 64) == api.SUCCESS
    assert texture_of(3, device, u8_by_4, 8, 8, 33) == api.INVALID_VALUE  # pitch alignment
    assert texture_of(3, device, u8_by_4, 16, 8, 32) == api.INVALID_VALUE  # wider than its pitch
    assert texture_of(0, 4711) == api.INVALID_HANDLE
    assert texture_of(9) == api.INVALID_VALUE
    assert texture_of(2, device, u8_by_4, 64, flags=1) == api.INVALID_VALUE
    for flags, error in ((0, api.INVALID_VALUE), (SURFACE, api.SUCCESS)):
        resource = Resource(0, (ctypes.c_uint64 * 16)(create(cuda, 8, 8, flags=flags)), 0)
        assert cuda.cuSurfObjectCreate(api.out(api.handle()), api.out(resource)) == error


class View(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_int),
        ("extents", ctypes.c_size_t * 3),
        ("levels", ctypes.c_uint * 2),
        ("layers", ctypes.c_uint * 2),
        ("reserved", ctypes.c_uint * 16),
    ]


def test_views_of_textures_are_checked(cuda: Driver):
    def view_of(box: Box, depth: int, flags: int = 2, **fields: object) -> int:
        made = cuda.make("cuMipmappedArrayCreate", api.out(box), depth) if depth else None
        array = made or cuda.make("cuArray3DCreate_v2", api.out(box))
        resource = Resource(1 if depth else 0, (ctypes.c_uint64 * 16)(array), 0)
        view = View(0, (box.width, box.height, box.depth), (0, 0), (0, 0))
        for name, value in fields.items():
            setattr(view, name, value)
        texture = Texture(flags=flags)
        return cuda.cuTexObjectCreate(
            api.out(api.handle()), api.out(resource), api.out(texture), api.out(view)
        )

    plane, layered = Box(8, 8, 0, FLOAT, 1, 0), Box(8, 8, 4, U8, 4, LAYERED)
    assert view_of(plane, 0) == api.SUCCESS
    assert view_of(plane, 0, extents=(8, 4, 0)) == api.INVALID_VALUE
    assert view_of(plane, 0, levels=(0, 1)) == api.INVALID_VALUE
    assert view_of(plane, 0, layers=(0, 1)) == api.INVALID_VALUE
    assert view_of(plane, 0, format=0x0D) == api.SUCCESS  # one unsigned integer of 32 bits
    assert view_of(plane, 0, format=0x17) == api.INVALID_VALUE  # two floats
    assert view_of(plane, 0, format=0x19) == api.NOT_SUPPORTED  # block-compressed
    assert view_of(plane, 0, format=0x23) == api.INVALID_VALUE
    assert view_of(plane, 3, levels=(1, 2)) == api.SUCCESS
    assert view_of(plane, 3, levels=(2, 1)) == api.INVALID_VALUE
    assert view_of(plane, 3, levels=(1, 3)) == api.INVALID_VALUE
    assert view_of(plane, 3, flags=0) == api.INVALID_VALUE  # mipmaps have normalised coordinates
    assert view_of(layered, 0, layers=(1, 3)) == api.SUCCESS
    assert view_of(layered, 0, layers=(1, 4)) == api.INVALID_VALUE
    assert view_of(plane, 0, flags=0x40) == api.INVALID_VALUE  # seamless, and no cubemap
    assert view_of(Box(8, 8, 6, U8, 1, CUBEMAP), 0, flags=0x40) == api.SUCCESS


FETCH = (
    api.HEADER
    + """
.visible .entry fetch(.param .u64 texture, .param .u64 result)
{
  .reg .b32 %r1; .reg .f32 %f<5>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [result];
  mov.u32 %r1, 0;
  tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
  st.global.f32 [%rd2], %f1;
  ret;
}
"""
)


@pytest.mark.parametrize(
    ("handle", "why"), [("0", "no texture object has it"), ("4711", "no texture object has it")]
)
def test_a_handle_of_nothing_is_an_illegal_address(fresh, handle: str, why: str):
    done = fresh(
        "from test_array import FETCH\n"
        f'print(d.launch(d.function(d.module(FETCH), "fetch"), (1,), (1,), [{handle}, d.alloc(4)]))\n'
        "print(d.cuCtxSynchronize())"
    )
    assert done.stdout.split()[-1] == str(api.ILLEGAL_ADDRESS)
    assert f"illegal handle {int(handle):#x}: {why}" in done.stderr
    assert "kernel fetch" in done.stderr
    assert "block (0,0,0), thread (0,0,0)" in done.stderr
