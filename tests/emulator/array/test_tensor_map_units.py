"""Tensor maps whose boxes are not of plain elements: interleaved, packed, narrower than their swizzle; NaN outside of a
tensor; reductions of halves. Against numpy, by the rules of PTX ISA and cuda.h."""

from __future__ import annotations

import ctypes
import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import driver_api as api
import numpy as np
import pytest
from driver_api import Driver
from test_tensor_map_shapes import Columns, encode_im2col, launch, shared_load
from test_tensor_maps import (
    BF16,
    DRAIN,
    F16,
    F32,
    F64,
    U8,
    U16,
    U32,
    Map,
    Settings,
    encode,
    load_kernel,
    ptx,
    run,
    store_kernel,
    swizzled,
)

if TYPE_CHECKING:
    from conftest import Fresh

U4, U4_PADDED, U6 = 13, 14, 15
OUTSIDE_NAN = 0x7FF7


def on_device(cuda: Driver, data: bytes) -> int:
    address = cuda.alloc(len(data))
    cuda.write(address, data)
    return address


# ---- interleaved: dimensions W, H, slices of channels, N -----------------------------------------------------------


@pytest.mark.parametrize(("interleave", "swizzle"), [(1, 0), (2, 1), (1, 1)])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("first", [(0, 0, 1, 0), (-1, 3, 2, 1), (5, -2, 0, 1), (2, 1, 3, 0)])
def test_slices_of_channels_are_loaded_and_stored(
    cuda: Driver, interleave: int, swizzle: int, step: int, first: tuple[int, ...]
) -> None:
    channels = 8 * interleave  # of a slice, of two bytes each
    width, height, slices, images = 7, 5, 3, 2
    chance = random.Random(f"{interleave} {first}")
    tensor = np.frombuffer(
        chance.randbytes(images * slices * height * width * channels * 2), "u2"
    ).reshape(images, slices, height, width, channels)  # fmt: skip
    at, made = on_device(cuda, tensor.tobytes()), Map()
    strides = tuple(tensor.strides[2::-1])
    extents, box = (width, height, slices, images), (4 * step, 3, 1, 2)
    s = Settings(U16, 4, at, extents, strides, box, (step, 1, 1, 1, 1), interleave, swizzle)
    assert encode(cuda, s, made) == api.SUCCESS
    places = [
        [first[0] + step * k for k in range(4)],
        [first[1] + k for k in range(3)],
        [first[2]],
        [first[3], first[3] + 1],
    ]
    expected = [
        tensor[n, c, h, w] if 0 <= n < images and 0 <= c < slices and 0 <= h < height and 0 <= w < width
        else np.zeros(channels, "u2")
        for n, c, h, w in itertools.product(*reversed(places))
    ]  # fmt: skip
    data = np.array(expected, "u2").tobytes()
    out = cuda.alloc(len(data))
    run(cuda, load_kernel(4, len(data)), made, out, first)
    assert cuda.read(out, len(data)) == swizzled(data, swizzle)

    other = np.frombuffer(chance.randbytes(len(data)), "u2").reshape(-1, channels)
    run(cuda, store_kernel(4, len(data)), made, on_device(cuda, swizzled(other.tobytes(), swizzle)), first)
    after = tensor.copy()
    for (n, c, h, w), value in zip(itertools.product(*reversed(places)), other, strict=True):
        if 0 <= n < images and 0 <= c < slices and 0 <= h < height and 0 <= w < width:
            after[n, c, h, w] = value
    assert cuda.read(at, tensor.nbytes) == after.tobytes()


@pytest.mark.parametrize("start", [(0, 0, 1, 0), (-1, 2, 2, 0), (3, 1, 0, 1)])
def test_pixels_have_a_slice_of_channels(cuda: Driver, start: tuple[int, ...]) -> None:
    """im2col of NC/8HWC8: the number of channels of a pixel plays no part."""
    width, height, slices, images, pixels = 6, 4, 3, 2, 20
    tensor = np.arange(images * slices * height * width * 8, dtype="u2").reshape(
        images, slices, height, width, 8
    )
    at, made = on_device(cuda, tensor.tobytes()), Map()
    s = Columns((width, height, slices, images), (-1, -1), (-1, -1), 8, pixels, U16)
    assert encode_im2col(cuda, s, at, made, interleave=1, strides=tensor.strides[2::-1]) == api.SUCCESS
    distance = (1, 2)
    box = [(n, h, w) for n in range(images + 2) for h in range(-1, height - 1) for w in range(-1, width - 1)]
    begin = box.index((start[3], start[1], start[0]))
    expected = []
    for n, h, w in box[begin : begin + pixels]:
        moved = (n, start[2], h + distance[1], w + distance[0])
        inside = all(0 <= i < e for i, e in zip(moved, tensor.shape, strict=False))
        expected.append(tensor[moved] if inside else np.zeros(8, "u2"))
    size = 16 * pixels
    out = cuda.alloc(size)
    words = np.array([*start, 0], "i4").tobytes() + np.array([*distance, 0, 0], "u2").tobytes()
    launch(cuda, shared_load(replace(s, channels=8), size), made, out, words[:28])
    assert cuda.read(out, size) == np.array(expected, "u2").tobytes()


# ---- packed elements ---------------------------------------------------------------------------------------------


def packed(codes: np.ndarray, bits: int) -> bytes:
    """Elements of so many bits, the first in the lowest ones."""
    whole = (codes[:, :, None].astype("u1") >> np.arange(bits, dtype="u1")) & 1
    return np.packbits(whole.reshape(len(codes), -1), axis=1, bitorder="little").tobytes()


@pytest.mark.parametrize("first", [(0, 0), (32, 3), (-32, -2), (64, 9)])
def test_fours_without_gaps_are_copied_as_they_are(cuda: Driver, first: tuple[int, int]) -> None:
    codes = np.random.default_rng(1).integers(0, 16, (12, 96), "u1")
    data = packed(codes, 4)
    at, made = on_device(cuda, data), Map()
    assert encode(cuda, Settings(U4, 2, at, (96, 12), (48,), (64, 4)), made) == api.SUCCESS
    padded = np.pad(codes, ((16, 16), (128, 128)))
    expected = packed(padded[16 + first[1] :, 128 + first[0] :][:4, :64], 4)
    out = cuda.alloc(128)
    run(cuda, load_kernel(2, 128), made, out, first)
    assert cuda.read(out, 128) == expected
    new = np.random.default_rng(2).integers(0, 16, (4, 64), "u1")
    run(cuda, store_kernel(2, 128), made, on_device(cuda, packed(new, 4)), first)
    for row, column in itertools.product(range(4), range(64)):
        if 0 <= first[1] + row < 12 and 0 <= first[0] + column < 96:
            codes[first[1] + row, first[0] + column] = new[row, column]
    assert cuda.read(at, len(data)) == packed(codes, 4)


@pytest.mark.parametrize(("kind", "bits"), [(U4_PADDED, 4), (U6, 6)])
@pytest.mark.parametrize("swizzle", [0, 3, 4])
@pytest.mark.parametrize("first", [(0, 0), (128, 2), (-128, 1), (128, 5)])
def test_packed_elements_get_gaps(
    cuda: Driver, kind: int, bits: int, swizzle: int, first: tuple[int, int]
) -> None:
    """Sixteen of them take 16 bytes of shared memory: 8 or 12, and what was there before."""
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (7, 256), "u1")
    at, made = on_device(cuda, packed(codes, bits)), Map()
    s = Settings(kind, 2, at, (256, 7), (256 * bits // 8,), (128, 4), swizzle=swizzle)
    assert encode(cuda, s, made) == api.SUCCESS
    padded = np.pad(codes, ((8, 8), (128, 128)))[8 + first[1] :, 128 + first[0] :][:4, :128]
    rows = np.frombuffer(packed(padded, bits), "u1").reshape(32, 2 * bits)
    known = np.zeros((32, 16), "u1")
    known[:, : 2 * bits] = 1
    wanted = np.zeros((32, 16), "u1")
    wanted[:, : 2 * bits] = rows
    out = cuda.alloc(512)
    text = load_kernel(2, 512).replace(
        "expect_tx.shared::cta.b64 _, [%r2], 512", f"expect_tx.shared::cta.b64 _, [%r2], {64 * bits}"
    )
    run(cuda, text, made, out, first)
    mask = np.frombuffer(swizzled(known.tobytes(), swizzle), "u1") == 1
    found = np.frombuffer(cuda.read(out, 512), "u1")
    assert (found[mask] == np.frombuffer(swizzled(wanted.tobytes(), swizzle), "u1")[mask]).all()


@pytest.mark.parametrize("swizzle", [0, 3])
def test_sixes_are_stored_out_of_bytes(cuda: Driver, swizzle: int) -> None:
    codes = np.random.default_rng(6).integers(0, 64, (7, 256), "u1")
    at, made = on_device(cuda, packed(codes, 6)), Map()
    assert encode(cuda, Settings(U6, 2, at, (256, 7), (192,), (128, 4), swizzle=swizzle), made) == api.SUCCESS
    new = np.random.default_rng(7).integers(0, 256, (4, 128), "u1")  # two bits of each are dropped
    run(cuda, store_kernel(2, 512), made, on_device(cuda, swizzled(new.tobytes(), swizzle)), (128, 5))
    codes[5:, 128:] = new[:2] & 63
    assert cuda.read(at, 7 * 192) == packed(codes, 6)


# ---- narrow boxes, NaN -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("swizzle", "span"), [(1, 32), (2, 64), (3, 128), (4, 128), (6, 128)])
@pytest.mark.parametrize("width", [16, 32, 48])
def test_rows_of_a_narrow_box_are_as_far_apart_as_its_swizzle_is_wide(
    cuda: Driver, swizzle: int, span: int, width: int
) -> None:
    if width >= span:
        pytest.skip("nothing to test: not narrower")
    rows = 16
    tensor = np.random.default_rng(3).integers(0, 256, (rows, 64), "u1")
    at, made, out = on_device(cuda, tensor.tobytes()), Map(), cuda.alloc(rows * span)
    s = Settings(U8, 2, at, (64, rows), (64,), (width, rows), swizzle=swizzle)
    assert encode(cuda, s, made) == api.SUCCESS
    text = load_kernel(2, rows * span).replace(f"_, [%r2], {rows * span}", f"_, [%r2], {rows * width}")
    run(cuda, text, made, out, (0, 0))
    wanted, known = np.zeros((rows, span), "u1"), np.zeros((rows, span), "u1")
    wanted[:, :width], known[:, :width] = tensor[:, :width], 1
    mask = np.frombuffer(swizzled(known.tobytes(), swizzle), "u1") == 1
    found = np.frombuffer(cuda.read(out, rows * span), "u1")
    assert (found[mask] == np.frombuffer(swizzled(wanted.tobytes(), swizzle), "u1")[mask]).all()


@pytest.mark.parametrize(("kind", "size"), [(F16, 2), (BF16, 2), (F32, 4), (F64, 8), (11, 4)])
def test_elements_outside_are_nan_where_the_map_says_so(cuda: Driver, kind: int, size: int) -> None:
    tensor = np.zeros((4, 16), f"u{size}")
    at, made, out = on_device(cuda, tensor.tobytes()), Map(), cuda.alloc(64 * size)
    s = Settings(kind, 2, at, (16, 4), (16 * size,), (16, 4), fill=1)
    assert encode(cuda, s, made) == api.SUCCESS
    run(cuda, load_kernel(2, 64 * size), made, out, (-3, 2))
    wanted = np.full((4, 16, size // 2), OUTSIDE_NAN, "u2")
    wanted[:2, 3:] = 0
    assert cuda.read(out, 64 * size) == wanted.tobytes()


# ---- reductions of halves ----------------------------------------------------------------------------------------


def bfloat(values: np.ndarray) -> np.ndarray:
    """f32 rounded to the nearest bf16, as its bits."""
    bits = values.astype("f4").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


@pytest.mark.parametrize("kind", [F16, BF16])
@pytest.mark.parametrize("operation", ["add", "min", "max"])
def test_halves_are_reduced(cuda: Driver, kind: int, operation: str) -> None:
    random_bits = (
        np.random.default_rng(kind).integers(0, 0x7800 if kind == F16 else 0x7F00, (2, 8, 16)).astype("u2")
    )
    random_bits |= np.random.default_rng(8).integers(0, 2, random_bits.shape).astype("u2") << 15
    old, new = random_bits[0].copy(), random_bits[1].copy()
    old[0, 0], new[0, 0] = 0x7FC1, 0x3C00  # a number wins over NaN; a sum is NaN
    old[0, 1], new[0, 1] = 1, 2  # subnormal numbers are kept
    at, made = on_device(cuda, old.tobytes()), Map()
    assert encode(cuda, Settings(kind, 2, at, (16, 8), (32,), (16, 8)), made) == api.SUCCESS
    run(cuda, store_kernel(2, 256, operation), made, on_device(cuda, new.tobytes()), (0, 0))
    wide = [
        a.view("f2").astype("f4") if kind == F16 else (a.astype("u4") << 16).view("f4") for a in (old, new)
    ]
    with np.errstate(all="ignore"):
        exact = {"add": np.add, "min": np.fmin, "max": np.fmax}[operation](*wide)
        wanted = exact.astype("f2").view("u2") if kind == F16 else bfloat(exact)
    wanted = np.where(np.isnan(exact), 0x7FFF, wanted).astype("u2")
    assert cuda.read(at, 256) == wanted.tobytes()


@pytest.mark.parametrize(
    ("settings", "kernel", "why"),
    [
        ("kind=13, box=(32, 8)", "load_kernel(2, 128)", "a box that begins at element 1: it must be a multiple of 2"),
        ("kind=1, extents=(64, 8)", "store_kernel(2, 256, 'add')", "a reduction that elements of this tensor"),
        ("kind=6, extents=(64, 8)", "store_kernel(2, 256, 'xor')", "a reduction that elements of this tensor"),
        ("box=(32, 8), swizzle=5", "store_kernel(2, 1024)", "whose swizzle flips 8 bytes"),
        ("kind=14, extents=(128, 8), box=(128, 4)", "store_kernel(2, 512)", "of padded elements of 4 bits"),
        ("rank=3, extents=(8, 8, 8), strides=(256, 4096), box=(8, 2, 2), interleave=2, swizzle=1",
         "load_kernel(3, 1024)", "several slices of channels"),
    ],
)  # fmt: skip
def test_what_no_unit_has_ends_the_kernel(fresh: Fresh, settings: str, kernel: str, why: str) -> None:
    first = "(1, 0, 0, 0, 0)" if "kind=13" in settings else "()"
    done = fresh(
        "from test_tensor_maps import *\nmade, out = Map(), d.alloc(8192)\n"
        f"settings = Settings(**(dict(address=d.alloc(1 << 16)) | dict({settings})))\n"
        f"assert encode(d, settings, made) == 0\nfunction = d.function(d.module({kernel}), 'k')\n"
        f"place = (ctypes.c_int32 * 5)(*{first})\n"
        "print(d.launch(function, (1,), (32,), [made.parameter, out, place]) or d.cuCtxSynchronize())"
    )
    assert done.stdout.split() == ["715"]
    assert why in done.stderr


# ---- pairs of blocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", ["0xFEFFFFFF", "-16777224"])
@pytest.mark.parametrize("mask", [None, 1, 2, 3])
def test_blocks_of_a_pair_tell_the_first_ones_mbarrier(
    blackwell: Driver, mask: int | None, bits: str
) -> None:
    """.cta_group::2: each block copies 512 bytes; the first one waits for those of both. Programs name its mbarrier by
    clearing a bit of the address of their own. With a mask, the first block copies for the blocks in it."""
    tensor = np.random.default_rng(9).integers(0, 1 << 32, (32, 64), "u4")
    at, made, out = on_device(blackwell, tensor.tobytes()), Map(), blackwell.alloc(1024)
    assert encode(blackwell, Settings(U32, 2, at, (64, 32), (256,), (16, 8)), made) == api.SUCCESS
    multicast, operand = (".multicast::cluster", ", %h0") if mask is not None else ("", "")
    blocks = [rank for rank in range(2) if mask is None or mask >> rank & 1]
    body = f"""
    .reg .b16 %h0;
    .reg .pred %q<3>;
    mov.u32 %r10, %cluster_ctarank; setp.ne.u32 %q0, %r10, 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p0 bra COPIED;
    and.b32 %r11, %r2, {bits};
    mov.b16 %h0, {mask or 0};
    @!%q0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {512 * len(blocks)};
    mad.lo.s32 %c0, %r10, 16, %c0;
    {"@%q0 bra COPIED;" if mask is not None else ""}
    cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes{multicast}
      [%r1], [%map, {{%c0, %c1}}], [%r11]{operand};
    @%q0 bra COPIED;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    COPIED: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mul.wide.u32 %rd3, %r10, 512; add.u64 %out, %out, %rd3;
    """
    text = ptx(body + DRAIN.format(bytes=512), 512).replace("sm_90a", "sm_100a")
    end = ".param .align 4 .b8 c[20])"
    function = blackwell.function(blackwell.module(text.replace(end, end + " .reqnctapercluster 2")), "k")
    place = (ctypes.c_int32 * 5)(3, 2)
    assert blackwell.launch(function, (2,), (32,), [made.parameter, out, place]) == 0
    assert blackwell.cuCtxSynchronize() == 0
    found = np.frombuffer(blackwell.read(out, 1024), "u4").reshape(2, 8, 16)
    for rank in blocks:
        first = 3 + 16 * (rank if mask is None else 0)
        assert (found[rank] == tensor[2:10, first : first + 16]).all(), rank
