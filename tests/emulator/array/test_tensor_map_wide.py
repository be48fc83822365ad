"""Copies of pixels along the width alone (im2col::w, im2col::w::128), and the maps that they take. Against numpy."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import driver_api as api
import numpy as np
import pytest
from driver_api import Driver
from test_tensor_map_shapes import DTYPES, launch, strides_of
from test_tensor_maps import DRAIN, F16, U8, U32, Map, ptx, swizzled

if TYPE_CHECKING:
    from conftest import Fresh

SPANS = {2: 64, 3: 128, 4: 128}


@dataclass(frozen=True)
class Wide:
    """Extents and steps count from the channels on: C, W, H, D, N."""

    extents: tuple[int, ...]
    channels: int
    pixels: int
    lower: int = 0
    upper: int = 0
    kind: int = U32
    steps: tuple[int, ...] = (1, 1, 1, 1, 1)
    interleave: int = 0
    mode: int = 0  # 1: im2col::w::128
    swizzle: int = 3
    fill: int = 0


def encode_wide(cuda: Driver, s: Wide, address: int, into: Map) -> int:
    def array(kind: type, values: Sequence[int]) -> object:
        return (kind * 5)(*values)

    strides = strides_of(s.extents, np.dtype(DTYPES[s.kind]).itemsize)
    return cuda.cuTensorMapEncodeIm2colWide(
        into.at, s.kind, len(s.extents), address, array(ctypes.c_uint64, s.extents), array(ctypes.c_uint64, strides),
        s.lower, s.upper, s.channels, s.pixels, array(ctypes.c_uint32, s.steps), s.interleave, s.mode, s.swizzle, 0,
        s.fill,
    )  # type: ignore[operator, no-any-return] # fmt: skip


def pixels_of(s: Wide, first: Sequence[int], halo: int, offset: int) -> list[tuple[int, int]]:
    """(W, N) of each pixel that is copied, in the order of shared memory."""
    left, right = s.lower + offset, s.extents[1] - 1 + s.upper + offset
    walk, w, n = [], first[1] + offset, first[-1]
    for _ in range(2048):
        walk.append((w, n))
        w += s.steps[1]
        if w > right:
            w, n = left, n + s.steps[len(s.extents) - 1]
    if s.mode == 0:
        return walk[: s.pixels + halo]
    groups = [walk[32 * g + 32 : 32 * g + 32 + halo] for g in range(4)]
    return walk[:128] + [group[k] for k in range(halo) for group in groups]


def kernel(s: Wide, size: int, copied: int) -> str:
    rank = len(s.extents)
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    name = "im2col::w::128" if s.mode else "im2col::w"
    body = f"""
    .reg .b16 %h<2>;
    ld.param.u16 %h0, [c+20]; ld.param.u16 %h1, [c+22];
    @%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {copied};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{name}.mbarrier::complete_tx::bytes
      [%r1], [%map, {{{coordinates}}}], [%r2], {{%h0, %h1}};
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    return ptx(body + DRAIN.format(bytes=size), size).replace("c[20]", "c[24]").replace("sm_90a", "sm_100a")


CASES = [  # what, where it starts, halo, offset
    (Wide((64, 9, 7, 6), 32, 40), (0, 2, 3, 0), 2, 0),
    (Wide((64, 9, 7, 6), 16, 40, swizzle=2), (16, 2, 3, 1), 0, 1),
    (Wide((64, 9, 7, 6), 32, 40, -1, 1), (32, -1, 0, 0), 2, 2),
    (Wide((64, 7, 7, 6), 32, 20, -1, -1, steps=(1, 3, 1, 1)), (0, -1, 2, 0), 0, 1),  # example 2 of PTX ISA
    (Wide((64, 67, 3, 5), 16, 128, -1, 0, steps=(1, 2, 1, 1), swizzle=2), (0, -1, 2, 0), 1, 0),  # example 1
    (Wide((64, 9, 7, 6), 64, 24, kind=F16), (0, -4, 9, 0), 1, 0),  # begins left of the box, outside of H
    (Wide((16, 5, 4, 3, 2), 32, 30, kind=U32, swizzle=4), (-8, 0, 1, 2, 0), 3, 1),
    (Wide((128, 11, 12), 128, 50, kind=U8), (0, 3, 2), 5, 0),
    (Wide((64, 9, 7, 40), 32, 1, mode=1), (0, 2, 3, 0), 2, 0),
    (Wide((64, 9, 7, 40), 16, 7, -1, 0, mode=1, swizzle=2), (16, 2, 3, 5), 3, 1),
    (Wide((64, 50, 2, 2, 9), 64, 9, -2, 1, F16, (1, 2, 1, 1, 1), mode=1, swizzle=4), (0, -1, 1, 0, 0), 1, 1),
    (Wide((64, 9, 7, 40), 32, 1, mode=1), (0, 0, 0, 0), 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("s", "first", "halo", "offset"), CASES)
def test_pixels_along_the_width_are_loaded(
    blackwell: Driver, s: Wide, first: tuple[int, ...], halo: int, offset: int
) -> None:
    dtype = np.dtype(DTYPES[s.kind])
    count = int(np.prod(s.extents))
    tensor = np.frombuffer(random.Random(str(s)).randbytes(count * dtype.itemsize), dtype).reshape(
        s.extents[::-1]
    )
    address, made = blackwell.alloc(tensor.nbytes), Map()
    blackwell.write(address, tensor.tobytes())
    assert encode_wide(blackwell, s, address, made) == api.SUCCESS
    places = pixels_of(s, first, halo, offset)
    row = s.channels * dtype.itemsize
    rows = np.zeros((len(places), SPANS[s.swizzle]), "u1")
    for at, (w, n) in enumerate(places):
        for c in range(s.channels):
            index = (n, *reversed(first[2:-1]), w, first[0] + c)
            if all(0 <= i < e for i, e in zip(index, tensor.shape, strict=True)):
                rows[at, c * dtype.itemsize : (c + 1) * dtype.itemsize] = np.frombuffer(
                    tensor[index].tobytes(), "u1"
                )
    size = rows.nbytes
    out = blackwell.alloc(size)
    words = (
        np.array([*first, *[0] * (5 - len(first))], "i4").tobytes() + np.array([halo, offset], "u2").tobytes()
    )
    launch(blackwell, kernel(s, size, len(places) * row), made, out, words)
    known = np.zeros_like(rows)
    known[:, :row] = 1
    mask = np.frombuffer(swizzled(known.tobytes(), s.swizzle), "u1") == 1
    found = np.frombuffer(blackwell.read(out, size), "u1")
    assert (found[mask] == np.frombuffer(swizzled(rows.tobytes(), s.swizzle), "u1")[mask]).all()


GIVEN = Wide((64, 9, 7, 6), 32, 40)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({}, api.SUCCESS), ({"extents": (64, 9)}, api.INVALID_VALUE), ({"interleave": 1}, api.INVALID_VALUE),
        ({"swizzle": 0}, api.INVALID_VALUE), ({"swizzle": 1}, api.INVALID_VALUE), ({"swizzle": 5}, api.INVALID_VALUE),
        ({"swizzle": 6}, api.INVALID_VALUE), ({"swizzle": 2}, api.INVALID_VALUE),
        ({"swizzle": 2, "channels": 16}, api.SUCCESS), ({"mode": 2}, api.INVALID_VALUE),
        ({"pixels": 1024}, api.SUCCESS), ({"pixels": 1025}, api.INVALID_VALUE), ({"pixels": 0}, api.INVALID_VALUE),
        ({"pixels": 0, "mode": 1}, api.SUCCESS), ({"lower": -32769}, api.INVALID_VALUE),
        ({"upper": 32768}, api.INVALID_VALUE), ({"upper": -9}, api.INVALID_VALUE), ({"upper": -8}, api.SUCCESS),
        ({"channels": 3}, api.INVALID_VALUE), ({"channels": 257}, api.INVALID_VALUE), ({"fill": 1}, api.INVALID_VALUE),
    ],
)  # fmt: skip
def test_what_encoding_of_wide_maps_documents_is_checked(
    blackwell: Driver, wrong: dict[str, object], error: int
) -> None:
    assert encode_wide(blackwell, replace(GIVEN, **wrong), 1 << 20, Map()) == error  # type: ignore[arg-type]


def test_addresses_of_wide_maps_are_replaced(blackwell: Driver) -> None:
    made = Map()
    assert encode_wide(blackwell, GIVEN, 1 << 20, made) == api.SUCCESS
    before = ctypes.string_at(made.at, 128)
    assert blackwell.cuTensorMapReplaceAddress(made.at, 1 << 21) == api.SUCCESS
    assert ctypes.string_at(made.at, 128) != before
    assert blackwell.cuTensorMapReplaceAddress(made.at, 1 << 20) == api.SUCCESS
    assert ctypes.string_at(made.at, 128) == before


def test_devices_before_blackwell_have_no_wide_maps(fresh: Fresh) -> None:
    done = fresh(
        "from test_tensor_map_wide import *\nprint(encode_wide(d, GIVEN, 1 << 20, Map()))",
        COMPUTE_CAPABILITY="9.0",
    )
    assert done.stdout.strip() == str(api.NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("changes", "words", "why"),
    [
        ({"mode": 1}, "[0] * 6", "a copy of the mode im2col::w through a tensor map for im2col::w::128"),
        ({}, "[0, 9, 0, 0, 0, 0]", "begins on the right of the bounding box"),
        ({}, "[0, 0, 0, 0, 0, 512]", "a halo of 512 pixels"),
        ({}, "[0, 0, 0, 0, 0, 32 << 16]", "a halo of 0 pixels at the offset 32"),
    ],
)
def test_what_is_no_wide_copy_ends_the_kernel(
    fresh: Fresh, changes: dict[str, int], words: str, why: str
) -> None:
    done = fresh(
        "from test_tensor_map_wide import *\nmade, out = Map(), d.alloc(1 << 16)\n"
        f"assert encode_wide(d, replace(GIVEN, **{changes}), d.alloc(1 << 20), made) == 0\n"
        f"function = d.function(d.module(kernel(GIVEN, 5120, 5120)), 'k')\nplace = (ctypes.c_int32 * 6)(*{words})\n"
        "print(d.launch(function, (1,), (32,), [made.parameter, out, place]) or d.cuCtxSynchronize())",
        COMPUTE_CAPABILITY="10.0",
    )
    assert done.stdout.split() == ["715"]
    assert why in done.stderr
