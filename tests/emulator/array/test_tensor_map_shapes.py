"""Copies through tensor maps that are no boxes: im2col, and four rows at a time. Against numpy."""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import driver_api as api
import numpy as np
import pytest
from driver_api import Driver
from test_tensor_maps import DRAIN, F16, F32, FILL, U8, U16, U32, Map, Settings, encode, ptx, swizzled

ILLEGAL_INSTRUCTION = 715
DTYPES = {U8: "u1", U16: "u2", U32: "u4", F16: "u2", F32: "f4"}


@dataclass(frozen=True)
class Columns:
    """Extents and steps count from the channels on: C, W, H, D, N."""

    extents: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    kind: int = U32
    steps: tuple[int, ...] = (1, 1, 1, 1, 1)
    swizzle: int = 0


def strides_of(extents: Sequence[int], item_bytes: int) -> list[int]:
    return [item_bytes * int(np.prod(extents[: d + 1])) for d in range(len(extents) - 1)]


def encode_im2col(
    cuda: Driver, s: Columns, address: int, into: Map, interleave: int = 0, strides: Sequence[int] = ()
) -> int:
    def array(kind: type, values: Sequence[int]) -> object:
        return (kind * 5)(*values)

    strides = strides or strides_of(s.extents, np.dtype(DTYPES[s.kind]).itemsize)
    return cuda.cuTensorMapEncodeIm2col(
        into.at, s.kind, len(s.extents), address, array(ctypes.c_uint64, s.extents), array(ctypes.c_uint64, strides),
        array(ctypes.c_int32, s.lower), array(ctypes.c_int32, s.upper), s.channels, s.pixels,
        array(ctypes.c_uint32, s.steps), interleave, s.swizzle, 0, 0,
    )  # type: ignore[operator, no-any-return] # fmt: skip


def positions(s: Columns, first: Sequence[int]) -> list[tuple[int, ...]]:
    """The W, H, D, N of each pixel: all positions of the endless row of boxes, from that of `first` on."""
    axes = [
        range(low, extent + high, step)
        for low, high, extent, step in zip(s.lower, s.upper, s.extents[1:-1], s.steps[1:], strict=False)
    ]
    image = first[-1]
    one = [tuple(reversed(place)) for place in itertools.product(*reversed(axes))]
    begin = one.index(tuple(first[1:-1]))
    images = s.pixels // len(one) + 2
    step = s.steps[len(s.extents) - 1]
    whole = [(*place, image + step * k) for k in range(images) for place in one]
    return whole[begin : begin + s.pixels]


def pixels_of(
    tensor: np.ndarray, s: Columns, first: Sequence[int], distance: Sequence[int]
) -> list[list[tuple[int, ...] | None]]:
    """For each pixel the indices (numpy's order) of its channels, None outside of the tensor."""
    result = []
    for place in positions(s, first):
        moved = [p + (distance[d] if d < len(distance) else 0) for d, p in enumerate(place)]
        indices = []
        for channel in range(first[0], first[0] + s.channels):
            index = (*reversed(moved), channel)
            inside = all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True))
            indices.append(index if inside else None)
        result.append(indices)
    return result


CASES = [  # what, where it starts (C, then spatial, N), distances
    (Columns((8, 16, 3), (-1,), (-1,), 4, 20), (0, -1, 0), (0,)),
    (Columns((8, 16, 3), (-1,), (-1,), 4, 20), (4, 5, 1), (2,)),
    (Columns((8, 9, 7, 3), (-1, -1), (-1, -1), 8, 64), (0, 4, 2, 1), (1, 2)),
    (Columns((8, 9, 7, 3), (-1, -1), (-1, -1), 4, 100), (6, 7, 5, 0), (0, 0)),
    (Columns((16, 6, 5, 2), (0, 0), (0, 0), 16, 48, F16, swizzle=1), (0, 0, 0, 0), (0, 0)),
    (Columns((64, 9, 8, 2), (-1, -2), (1, 0), 64, 40, F16, swizzle=3), (0, -1, -2, 0), (1, 1)),
    (Columns((16, 5, 4, 3, 2), (-1, 0, -1), (0, -1, 1), 16, 90, U8), (0, 1, 2, 1, 0), (1, 0, 1)),
    (Columns((8, 11, 9, 2), (-1, -1), (-1, -1), 4, 40, steps=(1, 2, 2, 1, 1)), (0, -1, -1, 0), (2, 1)),
    (Columns((8, 5, 5, 2), (-2, -2), (2, 2), 8, 200), (0, 0, 0, 1), (0, 0)),  # past the last image
]


def shared_load(s: Columns, size: int) -> str:
    rank = len(s.extents)
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    distances = ", ".join(f"%h{d}" for d in range(rank - 2))
    body = f"""
    .reg .b16 %h<3>;
    {" ".join(f"ld.param.u16 %h{d}, [c+{20 + 2 * d}];" for d in range(rank - 2))}
    @%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
      [%r1], [%map, {{{coordinates}}}], [%r2], {{{distances}}};
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    return ptx(body + DRAIN.format(bytes=size), size).replace("c[20]", "c[28]")


def launch(cuda: Driver, text: str, made: Map, memory: int, words: bytes) -> None:
    function = cuda.function(cuda.module(text), "k")
    place = ctypes.create_string_buffer(words, len(words))
    assert cuda.launch(function, (1,), (32,), [made.parameter, memory, place]) == 0
    assert cuda.cuCtxSynchronize() == 0


def tensor_of(cuda: Driver, s: Columns, chance: random.Random) -> tuple[np.ndarray, int]:
    dtype = np.dtype(DTYPES[s.kind])
    count = int(np.prod(s.extents))
    tensor = np.frombuffer(chance.randbytes(count * dtype.itemsize), dtype).copy().reshape(s.extents[::-1])
    address = cuda.alloc(tensor.nbytes)
    cuda.write(address, tensor.tobytes())
    return tensor, address


@pytest.mark.parametrize(("s", "first", "distance"), CASES)
def test_columns_of_pixels_are_loaded(
    cuda: Driver, s: Columns, first: tuple[int, ...], distance: tuple[int, ...]
) -> None:
    tensor, address = tensor_of(cuda, s, random.Random(str(s)))
    made = Map()
    assert encode_im2col(cuda, s, address, made) == api.SUCCESS
    size = s.channels * s.pixels * tensor.itemsize
    out = cuda.alloc(size)
    words = (
        np.array([*first, *[0] * (5 - len(first))], "i4").tobytes()
        + np.array([*distance, 0, 0, 0], "u2").tobytes()
    )
    launch(cuda, shared_load(s, size), made, out, words[:28])
    expected = np.array(
        [
            0 if index is None else tensor[index]
            for row in pixels_of(tensor, s, first, distance)
            for index in row
        ],
        tensor.dtype,
    )
    assert cuda.read(out, size) == swizzled(expected.tobytes(), s.swizzle)


@pytest.mark.parametrize(("s", "first", "distance"), CASES[:4])
def test_columns_of_pixels_are_stored(
    cuda: Driver, s: Columns, first: tuple[int, ...], distance: tuple[int, ...]
) -> None:
    chance = random.Random(str(s))
    tensor, address = tensor_of(cuda, s, chance)
    made = Map()
    assert encode_im2col(cuda, s, address, made) == api.SUCCESS
    size, rank = s.channels * s.pixels * tensor.itemsize, len(s.extents)
    source = cuda.alloc(size)
    data = np.frombuffer(chance.randbytes(size), tensor.dtype)
    cuda.write(source, data.tobytes())
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    body = FILL.format(bytes=size) + (
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group [%map, {{{coordinates}}}], [%r1];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )
    launch(cuda, ptx(body, size), made, source, np.array([*first, *[0] * (5 - len(first))], "i4").tobytes())
    indices = [index for row in pixels_of(tensor, s, first, ()) for index in row]
    for index, value in zip(indices, data, strict=True):
        if index is not None:
            tensor[index] = value
    assert cuda.read(address, tensor.nbytes) == tensor.tobytes()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({}, api.SUCCESS), ({"extents": (8, 16)}, api.INVALID_VALUE), ({"lower": (-129, 0)}, api.INVALID_VALUE),
        ({"upper": (0, 128)}, api.INVALID_VALUE), ({"upper": (-9, 0), "lower": (0, 0)}, api.INVALID_VALUE),
        ({"upper": (-8, 0), "lower": (0, 0)}, api.SUCCESS), ({"channels": 0}, api.INVALID_VALUE),
        ({"channels": 257}, api.INVALID_VALUE), ({"channels": 3}, api.INVALID_VALUE),
        ({"pixels": 0}, api.INVALID_VALUE), ({"pixels": 1025}, api.INVALID_VALUE), ({"pixels": 1024}, api.SUCCESS),
        ({"swizzle": 1, "channels": 12}, api.INVALID_VALUE),
    ],
)  # fmt: skip
def test_what_encoding_of_columns_documents_is_checked(
    cuda: Driver, wrong: dict[str, object], error: int
) -> None:
    given = {
        "extents": (16, 9, 7, 3),
        "lower": (-1, -1),
        "upper": (-1, -1),
        "channels": 8,
        "pixels": 64,
    } | wrong
    assert encode_im2col(cuda, Columns(**given), 1 << 20, Map()) == error  # type: ignore[arg-type]


ROWS = [[3, 0, 31, 7], [5, 5, 5, 5], [-1, 2, 40, 30], [-5, -6, 99, 1 << 20]]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("column", "swizzle"), [(0, 0), (60, 0), (-4, 0), (8, 3)])
def test_four_rows_are_gathered(cuda: Driver, rows: list[int], column: int, swizzle: int) -> None:
    tensor = np.arange(32 * 64, dtype="u4").reshape(32, 64)
    address, made, width = cuda.alloc(tensor.nbytes), Map(), 32 if swizzle else 16
    cuda.write(address, tensor.tobytes())
    s = Settings(U32, 2, address, (64, 32), (256,), (width, 1), swizzle=swizzle)
    assert encode(cuda, s, made) == api.SUCCESS
    size = 16 * width
    text = ptx(
        f"""
        @%p0 bra WAIT;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
        cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes
          [%r1], [%map, {{%c0, %c1, %c2, %c3, %c4}}], [%r2];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
        """
        + DRAIN.format(bytes=size),
        size,
    )
    out = cuda.alloc(size)
    launch(cuda, text, made, out, np.array([column, *rows], "i4").tobytes())
    expected = np.zeros((4, width), "u4")
    for k, row in enumerate(rows):
        for c in range(width):
            if 0 <= row < 32 and 0 <= column + c < 64:
                expected[k, c] = tensor[row, column + c]
    assert cuda.read(out, size) == swizzled(expected.tobytes(), swizzle)


@pytest.mark.parametrize("rows", ROWS)
def test_four_rows_are_scattered(cuda: Driver, rows: list[int]) -> None:
    tensor = np.arange(32 * 64, dtype="u4").reshape(32, 64)
    address, made, column = cuda.alloc(tensor.nbytes), Map(), 56
    cuda.write(address, tensor.tobytes())
    assert encode(cuda, Settings(U32, 2, address, (64, 32), (256,), (16, 1)), made) == api.SUCCESS
    data = np.arange(10000, 10064, dtype="u4").reshape(4, 16)
    source = cuda.alloc(256)
    cuda.write(source, data.tobytes())
    body = FILL.format(bytes=256) + (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%map, {%c0, %c1, %c2, %c3, %c4}], [%r1];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )
    launch(cuda, ptx(body, 256), made, source, np.array([column, *rows], "i4").tobytes())
    for k, row in enumerate(rows):
        if 0 <= row < 32:
            tensor[row, column:] = data[k, :8]
    assert cuda.read(address, tensor.nbytes) == tensor.tobytes()


def tile_copy(cuda: Driver, made: Map, rank: int) -> int:
    copy = f"cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    text = ptx(f"@%p0 ret;\n{copy} [%r1], [%map, {{{coordinates}}}], [%r2];", 4096)
    function = cuda.function(cuda.module(text), "k")
    place = (ctypes.c_int32 * 5)()
    error = cuda.launch(function, (1,), (32,), [made.parameter, 0, place])
    return error or cuda.cuCtxSynchronize()  # type: ignore[operator, no-any-return]


def test_a_map_of_the_other_kind_is_refused(cuda: Driver) -> None:
    made, address = Map(), cuda.alloc(1 << 16)
    assert encode_im2col(cuda, Columns((8, 9, 7), (0,), (0,), 8, 16), address, made) == api.SUCCESS
    assert tile_copy(cuda, made, 3) == ILLEGAL_INSTRUCTION


@pytest.mark.parametrize(
    "box",
    [
        pytest.param((256, 256, 256, 256, 1), id="a multiple of 2^32 bytes"),
        pytest.param((16, 256, 256, 2, 1), id="2 MiB, 8 KiB without its second dimension"),
    ],
)
def test_a_box_that_no_shared_memory_holds_is_refused(cuda: Driver, box: tuple[int, ...]) -> None:
    made, address = Map(), cuda.alloc(1 << 16)
    s = Settings(U8, 5, address, (256,) * 5, (256, 1 << 16, 1 << 24, 1 << 32), box)
    assert encode(cuda, s, made) == api.SUCCESS
    assert tile_copy(cuda, made, 5) == ILLEGAL_INSTRUCTION


# Numbers that PTX ISA gives to types of elements (tensormap.replace, .elemtype), and those of CUtensorMapDataType.
ELEMENT_TYPES = {
    "u8": (0, 0), "u16": (1, 1), "u32": (2, 2), "s32": (3, 3), "u64": (4, 4), "s64": (5, 5), "f16": (6, 6),
    "f32": (7, 7), "f32.ftz": (8, 10), "f64": (9, 8), "bf16": (10, 9), "tf32": (11, 11), "tf32.ftz": (12, 12),
    "b4x16": (13, 13), "b4x16_p64": (14, 14), "b6x16_p32": (15, 15),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_a_type_set_by_a_kernel_is_that_of_the_host(cuda: Driver, name: str) -> None:
    number, kind = ELEMENT_TYPES[name]
    at, room, of_host, other = cuda.alloc(1 << 13), cuda.alloc(512), Map(), Map()
    geometry = ((128, 8), (1024,), (128, 4))
    assert encode(cuda, Settings(kind, 2, at, *geometry), of_host) == api.SUCCESS
    assert encode(cuda, Settings(U8 if kind else U32, 2, at, *geometry), other) == api.SUCCESS
    cuda.write(room, ctypes.string_at(other.at, 128))
    text = ptx(
        f"mov.b64 %rd3, {room}; tensormap.replace.tile.elemtype.global.b1024.b32 [%rd3], {number};", 128
    )
    launch(cuda, text, other, 0, bytes(20))
    assert cuda.read(room, 128) == ctypes.string_at(of_host.at, 128)
