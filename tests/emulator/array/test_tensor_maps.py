"""Tensor maps: what encoding checks, and copies of boxes with every rank, bounds and swizzle against numpy."""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import driver_api as api
import numpy as np
import pytest
from driver_api import Driver

if TYPE_CHECKING:
    from conftest import Fresh

U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16 = range(10)
DTYPES = {
    U8: "u1",
    U16: "u2",
    U32: "u4",
    S32: "i4",
    U64: "u8",
    S64: "i8",
    F16: "f2",
    F32: "f4",
    F64: "f8",
    BF16: "u2",
}


class Map(ctypes.Structure):
    """128 bytes at a multiple of 64: `at` is inside of `room`."""

    _fields_ = [("room", ctypes.c_uint8 * 192)]

    @property
    def at(self) -> int:
        return (ctypes.addressof(self) + 63) // 64 * 64

    @property
    def parameter(self) -> ctypes.Array[ctypes.c_char]:
        return ctypes.create_string_buffer(ctypes.string_at(self.at, 128), 128)


@dataclass(frozen=True)
class Settings:
    kind: int = F32
    rank: int = 2
    address: int = 1 << 20
    extents: tuple[int, ...] = (64, 32)
    strides: tuple[int, ...] = (256,)
    box: tuple[int, ...] = (16, 8)
    steps: tuple[int, ...] = (1, 1, 1, 1, 1)
    interleave: int = 0
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0


def encode(cuda: Driver, s: Settings, into: Map, at: int | None = None) -> int:
    def array(kind: type, values: Sequence[int]) -> object:
        return (kind * 5)(*values)

    return cuda.cuTensorMapEncodeTiled(
        at or into.at, s.kind, s.rank, s.address, array(ctypes.c_uint64, s.extents), array(ctypes.c_uint64, s.strides),
        array(ctypes.c_uint32, s.box), array(ctypes.c_uint32, s.steps), s.interleave, s.swizzle, s.promotion, s.fill,
    )  # type: ignore[operator, no-any-return] # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": 16}, {"rank": 0}, {"rank": 6}, {"address": 8 + (1 << 20)}, {"address": 0}, {"extents": (0, 32)},
        {"extents": (64, (1 << 32) + 1)}, {"strides": (264,)}, {"strides": (1 << 40,)}, {"box": (0, 8)},
        {"box": (16, 257)}, {"box": (3, 8)}, {"steps": (1, 0)}, {"steps": (1, 9)}, {"interleave": 1},
        {"interleave": 3}, {"swizzle": 1}, {"swizzle": 7}, {"promotion": 4}, {"fill": 2}, {"kind": U32, "fill": 1},
        {"rank": 3, "extents": (8, 8, 8), "strides": (256, 4096), "box": (8, 8, 8), "interleave": 2},
        {"kind": 14, "address": 16 + (1 << 20)}, {"kind": 14, "extents": (100, 8), "box": (128, 8)},
        {"kind": 13, "extents": (63, 32), "box": (32, 8)},
    ],
)  # fmt: skip
def test_what_encoding_documents_is_checked(cuda: Driver, wrong: dict[str, object]) -> None:
    made = Map()
    assert encode(cuda, Settings(), made) == api.SUCCESS
    assert encode(cuda, Settings(**wrong), made) == api.INVALID_VALUE  # type: ignore[arg-type]


def test_maps_are_aligned_and_addresses_replaced(cuda: Driver) -> None:
    made = Map()
    assert encode(cuda, Settings(), made, made.at + 32) == api.INVALID_VALUE
    assert cuda.cuTensorMapReplaceAddress(made.at, 1 << 21) == api.INVALID_VALUE  # nothing was encoded there
    assert encode(cuda, Settings(extents=(1 << 32, 32)), made) == api.SUCCESS
    before = ctypes.string_at(made.at, 128)
    assert cuda.cuTensorMapReplaceAddress(made.at, (1 << 21) + 8) == api.INVALID_VALUE
    assert cuda.cuTensorMapReplaceAddress(made.at, 1 << 21) == api.SUCCESS
    assert ctypes.string_at(made.at, 128) != before
    assert cuda.cuTensorMapReplaceAddress(made.at, 1 << 20) == api.SUCCESS
    assert ctypes.string_at(made.at, 128) == before


WIDE = {"extents": (8,) * 5, "strides": (32, 256, 2048, 16384), "box": (8, 8, 2, 2, 1)}


def test_a_bit_that_programs_clear_says_nothing(cuda: Driver) -> None:
    """CUTLASS and Triton clear bit 21 of the second word of small tensors' maps."""
    made = Map()
    for change in (
        {},
        {"address": 1 << 21},
        {"address": 0xFFFFFFFFF0},
        {"swizzle": 3, "promotion": 3},
        {"rank": 5, **WIDE},
    ):
        assert encode(cuda, Settings(**change), made) == api.SUCCESS  # type: ignore[arg-type]
        assert not int.from_bytes(ctypes.string_at(made.at + 8, 8), "little") >> 21 & 1


def test_devices_before_hopper_have_none(fresh: Fresh) -> None:
    done = fresh(
        "from test_tensor_maps import *\nprint(encode(d, Settings(), Map()))", COMPUTE_CAPABILITY="8.0"
    )
    assert done.stdout.strip() == str(api.NOT_SUPPORTED)


def ptx(body: str, shared_bytes: int) -> str:
    """`k(map, out, five coordinates)`: one thread copies, 32 threads write shared memory to `out`."""
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .align 4 .b8 c[20]) {{
.reg .b32 %r<20>, %c<5>; .reg .b64 %rd<8>, %map, %out; .reg .pred %p<4>;
.shared .align 1024 .b8 tile[{shared_bytes}];
.shared .align 8 .b64 bar;
mov.b64 %map, map; cvta.param.u64 %map, %map;
ld.param.u64 %out, [out];
{" ".join(f"ld.param.s32 %c{d}, [c+{4 * d}];" for d in range(5))}
mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar;
@!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
bar.sync 0;
{body}
}}"""


DRAIN = """
bar.sync 0;
mov.u32 %r3, %r0;
LOOP: shl.b32 %r4, %r3, 2;
setp.ge.u32 %p1, %r4, {bytes};
@%p1 bra DONE;
add.u32 %r5, %r4, %r1; ld.shared.u32 %r6, [%r5];
cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r6;
add.u32 %r3, %r3, 32; bra LOOP;
DONE: ret;
"""
FILL = """
mov.u32 %r3, %r0;
LOOP: shl.b32 %r4, %r3, 2;
setp.ge.u32 %p1, %r4, {bytes};
@%p1 bra DONE;
cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd1, %out; ld.global.u32 %r6, [%rd1];
add.u32 %r5, %r4, %r1; st.shared.u32 [%r5], %r6;
add.u32 %r3, %r3, 32; bra LOOP;
DONE: bar.sync 0;
@%p0 ret;
"""


def coordinate_list(rank: int) -> str:
    return "{" + ", ".join(f"%c{d}" for d in range(rank)) + "}"


def load_kernel(rank: int, size: int) -> str:
    body = f"""
    @%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
    cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [%map, {coordinate_list(rank)}];
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
      [%r1], [%map, {coordinate_list(rank)}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    return ptx(body + DRAIN.format(bytes=size), size)


def store_kernel(rank: int, size: int, operation: str = "") -> str:
    name = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}"
        if operation
        else (f"cp.async.bulk.tensor.{rank}d.global.shared::cta")
    )
    body = (
        FILL.format(bytes=size)
        + f"""
    fence.proxy.async.shared::cta;
    {name}.tile.bulk_group [%map, {coordinate_list(rank)}], [%r1];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    )
    return ptx(body, size)


def swizzled(data: bytes, mode: int) -> bytes:
    """Chunks of 16 (modes 4 and 5: 32, 6: 64) bytes in each 128 change places by the number of the 128 bytes they are
    in; mode 5: in each second of these the 8 bytes of every 16 are exchanged, too."""
    bits, chunk = {0: (0, 16), 1: (1, 16), 2: (3, 16), 3: (7, 16), 4: (3, 32), 5: (3, 32), 6: (1, 64)}[mode]
    result = bytearray(len(data) + 1024)
    for at in range(0, len(data), chunk):
        row, column = divmod(at, 128)
        to = row * 128 + ((column // chunk) ^ (row & bits)) * chunk
        result[to : to + chunk] = data[at : at + chunk]
    if mode == 5:
        for at in range(128, len(data), 256):
            line = np.frombuffer(bytes(result[at : at + 128]), "u8").reshape(8, 2)
            result[at : at + 128] = line[:, ::-1].tobytes()
    return bytes(result[: len(data)])


def positions(first: Sequence[int], box: Sequence[int], steps: Sequence[int]) -> list[list[int]]:
    """The indices of the box's elements along each dimension."""
    return [
        [f + k * (s if d else 1) for k in range(-(-b // (s if d else 1)))]
        for d, (f, b, s) in enumerate(zip(first, box, steps, strict=False))
    ]


def gathered(tensor: np.ndarray, places: list[list[int]]) -> bytes:
    """Row by row, dimension 0 fastest; numpy has the dimensions the other way round. Zeros outside."""
    values = []
    for index in itertools.product(*reversed(places)):
        inside = all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True))
        values.append(tensor[index] if inside else 0)
    return np.array(values, tensor.dtype).tobytes()


SHAPES = [  # kind, extents, box, steps, swizzle
    (U8, (64,), (32,), (1,), 0),
    (F32, (40, 9), (16, 8), (1, 1), 0),
    (F16, (80, 20), (64, 8), (1, 1), 3),
    (F32, (24, 17), (16, 8), (1, 1), 2),
    (U16, (32, 21), (16, 16), (1, 1), 1),
    (F64, (32, 18), (16, 8), (1, 1), 4),
    (F32, (40, 18), (32, 16), (1, 1), 5),
    (U16, (128, 9), (64, 8), (1, 1), 6),
    (BF16, (24, 11), (16, 8), (1, 1), 0),
    (U32, (12, 7, 5), (8, 4, 3), (1, 1, 1), 0),
    (S64, (8, 6, 5, 3), (4, 3, 2, 2), (1, 2, 1, 2), 0),
    (F16, (16, 4, 3, 3, 3), (8, 2, 2, 2, 2), (1, 1, 2, 1, 1), 0),
    (U8, (128, 3, 11), (128, 1, 9), (1, 1, 3), 3),
]


def prepared(
    cuda: Driver, shape: tuple[object, ...], chance: random.Random
) -> tuple[np.ndarray, int, Map, int]:
    kind, extents, box, steps, swizzle = shape
    dtype = np.dtype(DTYPES[kind])  # type: ignore[index]
    row = -(-extents[0] * dtype.itemsize // 16) * 16  # type: ignore[index]
    padded = (row // dtype.itemsize, *extents[1:])  # type: ignore[index]
    count = int(np.prod(padded))
    whole = np.frombuffer(chance.randbytes(count * dtype.itemsize), dtype).copy()
    if dtype.kind == "f":
        whole = np.array([chance.randint(-99, 99) for _ in range(count)], dtype)
    address = cuda.alloc(whole.nbytes)
    cuda.write(address, whole.tobytes())
    strides = [row]
    for extent in extents[1:-1]:  # type: ignore[index]
        strides.append(strides[-1] * extent)
    made = Map()
    settings = Settings(kind, len(extents), address, extents, tuple(strides), box, steps, swizzle=swizzle)  # type: ignore[arg-type]
    assert encode(cuda, settings, made) == api.SUCCESS
    size = int(np.prod([len(p) for p in positions([0] * 5, box, steps)])) * dtype.itemsize  # type: ignore[arg-type]
    return whole.reshape(padded[::-1]), address, made, size


def run(cuda: Driver, text: str, made: Map, out: int, first: Sequence[int]) -> None:
    place = (ctypes.c_int32 * 5)(*first)
    function = cuda.function(cuda.module(text), "k")
    assert cuda.launch(function, (1,), (32,), [made.parameter, out, place]) == 0
    assert cuda.cuCtxSynchronize() == 0


def starts(shape: tuple[object, ...], chance: random.Random) -> list[list[int]]:
    extents, box = shape[1], shape[2]
    inside = [0 for _ in extents]  # type: ignore[attr-defined]
    return [inside] + [
        [chance.randint(-b, e) for e, b in zip(extents, box, strict=True)]
        for _ in range(5)  # type: ignore[call-overload]
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_are_loaded(cuda: Driver, shape: tuple[object, ...]) -> None:
    chance = random.Random(str(shape))
    tensor, _, made, size = prepared(cuda, shape, chance)
    tensor = tensor[..., : shape[1][0]]  # type: ignore[index]
    out, text = cuda.alloc(size), load_kernel(len(shape[1]), size)  # type: ignore[arg-type]
    for first in starts(shape, chance):
        run(cuda, text, made, out, first)
        expected = gathered(tensor, positions(first, shape[2], shape[3]))  # type: ignore[arg-type]
        assert cuda.read(out, size) == swizzled(expected, shape[4]), first  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operation", ["", "add", "max"])
def test_boxes_are_stored_and_reduced(cuda: Driver, shape: tuple[object, ...], operation: str) -> None:
    chance = random.Random(f"{shape} {operation}")
    tensor, address, made, size = prepared(cuda, shape, chance)
    if operation and shape[0] in (U8, U16, BF16):
        pytest.skip("nothing to test: reductions of these are refused, or another test's")
    if shape[4] == 5:
        pytest.skip("nothing to test: no store has this swizzle")
    source, text = cuda.alloc(size), store_kernel(len(shape[1]), size, operation)  # type: ignore[arg-type]
    for first in starts(shape, chance):
        data = np.frombuffer(chance.randbytes(size), tensor.dtype)
        if tensor.dtype.kind == "f":
            data = np.array([chance.randint(-99, 99) for _ in range(size // tensor.itemsize)], tensor.dtype)
        cuda.write(source, swizzled(data.tobytes(), shape[4]))  # type: ignore[arg-type]
        run(cuda, text, made, source, first)
        places = positions(first, shape[2], shape[3])  # type: ignore[arg-type]
        for index, value in zip(itertools.product(*reversed(places)), data, strict=True):
            limits = shape[1][::-1]  # type: ignore[index]
            if all(0 <= i < n for i, n in zip(index, limits, strict=True)):
                old = tensor[index]
                with np.errstate(over="ignore"):
                    tensor[index] = (
                        old + value if operation == "add" else max(old, value) if operation else value
                    )
        assert cuda.read(address, tensor.nbytes) == tensor.tobytes(), first


def test_maps_are_changed_by_kernels(cuda: Driver) -> None:
    """tensormap.replace in shared memory, the changed map copied to global memory and used from there."""
    chance = random.Random(3)
    first, other = (np.frombuffer(chance.randbytes(4 * 64 * 16), "u4").reshape(16, 64) for _ in range(2))
    at = [cuda.alloc(first.nbytes), cuda.alloc(other.nbytes)]
    for address, tensor in zip(at, (first, other), strict=True):
        cuda.write(address, tensor.tobytes())
    made, room = Map(), cuda.alloc(512)
    assert encode(cuda, Settings(U32, 2, at[0], (64, 16), (256,), (4, 4)), made) == api.SUCCESS
    body = f"""
    .shared .align 128 .b8 copy[128];
    @%p0 bra WAIT;
    mov.u32 %r10, copy;
    {" ".join(f"ld.u64 %rd1, [%map+{8 * w}]; st.shared.u64 [%r10+{8 * w}], %rd1;" for w in range(16))}
    mov.b64 %rd2, {at[1]};
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r10], %rd2;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r10], 0, 8;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r10], 1, 2;
    mov.b64 %rd3, {room};
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r10], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{%c0, %c1}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    out = cuda.alloc(128)
    run(cuda, ptx(body + DRAIN.format(bytes=128), 128), made, out, [8, 0])
    assert cuda.read(out, 128) == gathered(other[:2], positions([8, 0], (8, 4), (1, 1)))


@pytest.mark.parametrize(
    ("kind", "flushes", "rounds"), [(10, True, False), (11, False, True), (12, True, True)]
)
def test_floats_are_rounded_and_flushed_on_the_way(
    cuda: Driver, kind: int, flushes: bool, rounds: bool
) -> None:
    bits = [0x3F801000, 0x3F803000, 0x3F801001, 0xBF802FFF, 0x7F7FFFFF, 0x7F800000, 0xFFC00001, 0x00000001,
            0x80001000, 0x007FFFFF, 0x00800000, 0x3F800FFF, 0x40000000, 0x80000000, 0, 0x12345678]  # fmt: skip
    wanted = []
    for word in bits:
        if flushes and not word >> 23 & 0xFF:
            word &= 1 << 31
        if rounds and word >> 23 & 0xFF != 0xFF:  # to a multiple of 2^13, the even one of two as near
            low, rest = divmod(word, 1 << 13)
            word = (low + (rest > 1 << 12 or (rest == 1 << 12 and low % 2 == 1))) << 13
        wanted.append(word)
    at, made, out = cuda.alloc(256), Map(), cuda.alloc(64)
    cuda.write(at, np.array(bits, "u4").tobytes())
    assert encode(cuda, Settings(kind, 1, at, (16,), (), (16,)), made) == api.SUCCESS
    run(cuda, load_kernel(1, 64), made, out, [0])
    assert cuda.words(out, 16) == wanted


@pytest.mark.parametrize(("atomicity", "mode"), [(0, 3), (1, 4), (3, 6)])
@pytest.mark.parametrize("first", ["swizzle_mode", "swizzle_atomicity"])
def test_kernels_choose_the_units_of_a_swizzle(cuda: Driver, atomicity: int, mode: int, first: str) -> None:
    tensor = np.frombuffer(random.Random(5).randbytes(4 * 32 * 16), "u4").reshape(16, 32)
    at, room, made = cuda.alloc(tensor.nbytes), cuda.alloc(512), Map()
    cuda.write(at, tensor.tobytes())
    assert encode(cuda, Settings(U32, 2, at, (32, 16), (128,), (32, 16)), made) == api.SUCCESS
    changes = [("swizzle_mode", 3), ("swizzle_atomicity", atomicity)]
    changes.sort(key=lambda change: change[0] != first)
    body = f"""
    @%p0 bra WAIT;
    mov.b64 %rd3, {room};
    {" ".join(f"ld.u64 %rd1, [%map+{8 * w}]; st.global.u64 [%rd3+{8 * w}], %rd1;" for w in range(16))}
    {" ".join(f"tensormap.replace.tile.{name}.global.b1024.b32 [%rd3], {value};" for name, value in changes)}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 2048;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{%c0, %c1}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    out = cuda.alloc(2048)
    run(cuda, ptx(body + DRAIN.format(bytes=2048), 2048), made, out, [0, 0])
    assert cuda.read(out, 2048) == swizzled(tensor.tobytes(), mode)


@pytest.mark.parametrize(("number", "size"), [(1, 2), (6, 2), (10, 2), (2, 4), (7, 4), (9, 8)])
def test_kernels_make_maps_of_zeros(cuda: Driver, number: int, size: int) -> None:
    """Every field is set, and the size of an element follows from PTX's number of its type."""
    tensor = np.frombuffer(random.Random(4).randbytes(size * 16 * 8), f"u{size}").reshape(8, 16)
    at, room, box = cuda.alloc(tensor.nbytes), cuda.alloc(512), (16 // size, 4)
    cuda.write(at, tensor.tobytes())
    cuda.write(room, bytes(128))
    fields = [
        ("rank", 32, "1"),
        ("elemtype", 32, str(number)),
        *((f"{name}", 32, f"{d}, {value}") for name, values in (
            ("box_dim", box), ("global_dim", (16, 8)), ("element_stride", (1, 1)),
        ) for d, value in enumerate(values)),
    ]  # fmt: skip
    body = f"""
    @%p0 bra WAIT;
    mov.b64 %rd3, {room}; mov.b64 %rd2, {at};
    tensormap.replace.tile.global_address.global.b1024.b64 [%rd3], %rd2;
    mov.b64 %rd2, {16 * size};
    tensormap.replace.tile.global_stride.global.b1024.b64 [%rd3], 0, %rd2;
    {" ".join(f"tensormap.replace.tile.{n}.global.b1024.b{bits} [%rd3], {v};" for n, bits, v in fields)}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {{%c0, %c1}}], [%r2];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    """
    out = cuda.alloc(64)
    run(cuda, ptx(body + DRAIN.format(bytes=64), 64), Map(), out, [2, 3])
    assert cuda.read(out, 64) == np.ascontiguousarray(tensor[3:7, 2 : 2 + box[0]]).tobytes()


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ("made.room[made.at - ctypes.addressof(made)] = 0", 715, "none that this driver made"),
        ("settings = replace(settings, rank=1, extents=(64,), box=(16,))", 715, "a tensor map of 1 dimensions"),
        ("settings = replace(settings, address=1 << 20)", 700, "illegal read"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_ends_the_kernel(fresh: Fresh, change: str, error: int, why: str) -> None:
    early, late = (change, "") if change.startswith("settings") else ("", change)
    done = fresh(
        "from test_tensor_maps import *\nfrom dataclasses import replace\n"
        "settings = Settings(address=d.alloc(1 << 16))\nmade, out = Map(), d.alloc(512)\n"
        f"{early}\nassert encode(d, settings, made) == 0\n{late}\n"
        "function = d.function(d.module(load_kernel(2, 512)), 'k')\n"
        "print(d.launch(function, (1,), (32,), [made.parameter, out, (ctypes.c_int32 * 5)()]) or d.cuCtxSynchronize())"
    )
    assert done.stdout.split() == [str(error)]
    assert why in done.stderr
    assert "in kernel k" in done.stderr
