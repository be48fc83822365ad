"""tcgen05.ld, .st, .cp and .shift against the document's layouts, cell by cell."""

from __future__ import annotations

import driver_api
import numpy as np
import pytest
import tensor_reference as reference
from small_kernels import module
from tensor_kernels import after, noise, run
from tensor_reference import COLUMNS, LANES, Shared

FORMS = [
    (shape, repeat)
    for shape in reference.SHAPES
    for repeat in (1, 2, 4, 8, 16, 32, 64, 128)
    if reference.registers(shape, repeat) <= 128
]


def move_kernel(
    shape: str, repeat: int, half: int, column: int, split: int, packed: bool, stores: bool
) -> str:
    """Four warps. p0: 128 x 512 words of tensor memory, changed in place; p1: registers by warp and thread."""
    count = reference.registers(shape, repeat)
    names = [f"%v{r}" for r in range(count)]
    apart = f", {split}" if shape == "16x32bx2" else ""
    form = f"sync.aligned.{shape}.x{repeat}"
    registers = "{" + ", ".join(names) + "}"
    at = f"[%r5 + {column}]"
    if stores:
        moves = "".join(f"ld.global.u32 {name}, [%rd13 + {512 * r}];\n" for r, name in enumerate(names))
        unpack = ".unpack::16b" if packed else ""
        moves += f"tcgen05.st.{form}{unpack}.b32 {at}{apart}, {registers}; tcgen05.wait::st.sync.aligned;"
    else:
        pack = ".pack::16b" if packed else ""
        moves = f"tcgen05.ld.{form}{pack}.b32 {registers}, {at}{apart}; tcgen05.wait::ld.sync.aligned;\n"
        moves += "".join(f"st.global.u32 [%rd13 + {512 * r}], {name};\n" for r, name in enumerate(names))
    walk = """
        mov.u32 %r1, 0; mov.u64 %rd12, %rd11; mov.u32 %r4, %r6;
        {0}: {1}
        add.u64 %rd12, %rd12, 4; add.u32 %r4, %r4, 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p3, %r1, 512; @%p3 bra {0};"""
    return module(
        f"""
        .reg .b32 {", ".join(names)};
        mul.wide.u32 %rd9, %t, 2048; add.u64 %rd11, %rd0, %rd9;
        mul.wide.u32 %rd9, %t, 4; add.u64 %rd13, %rd1, %rd9;
        setp.lt.u32 %p2, %t, 32; mov.u32 %r7, place;
        @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 512;
        bar.sync 0; ld.shared.u32 %r6, [%r7];
        and.b32 %r5, %t, 96; shl.b32 %r5, %r5, 16; add.u32 %r6, %r6, %r5; add.u32 %r5, %r6, {half << 16};
        {walk.format("fill", "ld.global.u32 %r8, [%rd12]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], %r8;")}
        {moves}
        {walk.format("dump", "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r8, [%r4]; st.global.u32 [%rd12], %r8;")}
        bar.sync 0; ld.shared.u32 %r6, [%r7];
        @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 512;
        """,
        shared=".shared .b32 place;",
    )


@pytest.mark.parametrize("packed", [False, True], ids=["words", "halves"])
@pytest.mark.parametrize(("shape", "repeat"), FORMS, ids=[f"{shape}-x{repeat}" for shape, repeat in FORMS])
def test_every_register_of_a_warp_is_where_the_document_says(
    cuda: driver_api.Driver, shape: str, repeat: int, packed: bool
) -> None:
    each, random = 2 if packed else 1, np.random.default_rng(repeat)
    half = 16 if reference.SHAPES[shape][0] == 16 and repeat % 4 == 2 else 0
    split = each * repeat + 3 if each * repeat < 256 else 128
    column = 2 if each * reference.SHAPES[shape][1] * repeat < 256 else 0
    tensor = noise()[0]
    count = reference.registers(shape, repeat)
    values = random.integers(0, 1 << 32, (count, 128), dtype=np.uint32)

    loaded, stored = np.zeros_like(values), tensor.copy()
    for register, thread, lane, at in reference.cells(shape, repeat, split // each if packed else split):
        for warp in range(4):
            where, name = 32 * warp + half + lane, (register, 32 * warp + thread)
            if not packed:
                loaded[name] = tensor[where, column + at]
                stored[where, column + at] = values[name]
                continue
            first = column + (
                2 * at if thread < 16 or shape != "16x32bx2" else split + 2 * (at - split // each)
            )
            loaded[name] = tensor[where, first] & 0xFFFF | (tensor[where, first + 1] & 0xFFFF) << 16
            stored[where, first : first + 2] = values[name] & 0xFFFF, values[name] >> 16

    for stores, tensor_after, registers_after in ((False, tensor, loaded), (True, stored, values)):
        there, registers = cuda.alloc(tensor.nbytes), cuda.alloc(values.nbytes)
        cuda.write(there, tensor.tobytes())
        cuda.write(registers, values.tobytes())
        ptx = move_kernel(shape, repeat, half, column, split, packed, stores)
        assert run(cuda, ptx, [there, registers], block=128) == 0
        found = np.frombuffer(cuda.read(there, tensor.nbytes), np.uint32).reshape(LANES, COLUMNS)
        np.testing.assert_array_equal(found, tensor_after)
        of_threads = np.frombuffer(cuda.read(registers, values.nbytes), np.uint32).reshape(count, 128)
        np.testing.assert_array_equal(of_threads, registers_after)


def test_each_fourth_warp_reaches_the_same_lanes(cuda: driver_api.Driver) -> None:
    """The second warpgroup stores what the first one loads."""
    ptx = module(
        """
        mul.wide.u32 %rd9, %t, 4; add.u64 %rd13, %rd0, %rd9;
        setp.lt.u32 %p2, %t, 32; setp.lt.u32 %p3, %t, 128; mov.u32 %r7, place;
        @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;
        bar.sync 0; ld.shared.u32 %r6, [%r7];
        and.b32 %r5, %t, 96; shl.b32 %r5, %r5, 16; add.u32 %r5, %r6, %r5;
        @!%p3 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], %t;
        tcgen05.wait::st.sync.aligned; bar.sync 0;
        @%p3 tcgen05.ld.sync.aligned.32x32b.x1.b32 %r8, [%r5];
        tcgen05.wait::ld.sync.aligned;
        @%p3 st.global.u32 [%rd13], %r8;
        bar.sync 0;
        @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
        """,
        shared=".shared .b32 place;",
    )
    out = cuda.alloc(512)
    assert run(cuda, ptx, [out, out], block=256) == 0
    assert cuda.words(out, 128) == list(range(128, 256))


COPIES = {
    "128x256b": (128, 2, lambda row: [row]),
    "128x128b": (128, 1, lambda row: [row]),
    "4x256b": (4, 2, lambda row: [32 * row]),
    "64x128b.warpx2::02_13": (64, 1, lambda row: [row, row + 64]),
    "64x128b.warpx2::01_23": (
        64,
        1,
        lambda row: [row // 32 * 64 + row % 32 + 32 * copy for copy in range(2)],
    ),
    "32x128b.warpx4": (32, 1, lambda row: [row + 32 * copy for copy in range(4)]),
}


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("shape", COPIES)
def test_copies_put_each_row_where_the_document_says(
    cuda: driver_api.Driver, shape: str, swizzle: int
) -> None:
    rows, chunks, lanes = COPIES[shape]
    lies, data = Shared(swizzle), noise(seed=1)[0].view(np.uint8).ravel()[: 1 << 16].copy()
    expected = noise()
    for row in range(rows):
        for chunk in range(chunks):
            at = lies.place(row, chunk, rows, 1)
            words = data[at : at + 16].view(np.uint32)
            for lane in lanes(row):
                expected[0, lane, 8 + 4 * chunk : 12 + 4 * chunk] = words
    found = after(
        cuda,
        f"add.u32 %r1, %base, 8; tcgen05.cp.cta_group::1.{shape} [%r1], %w0;",
        [data.tobytes()],
        noise(),
        [lies.descriptor(0, rows, 1)],
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", COPIES)
def test_copies_of_a_pair_fill_both_blocks_from_their_own_shared_memory(
    cuda: driver_api.Driver, shape: str
) -> None:
    rows, chunks, lanes = COPIES[shape]
    lies = Shared(64)
    data = [noise(seed=seed)[0].view(np.uint8).ravel()[: 1 << 16].copy() for seed in (1, 2)]
    expected = noise(2)
    for block, row, chunk in np.ndindex(2, rows, chunks):
        at = lies.place(row, chunk, rows, 1)
        for lane in lanes(row):
            expected[block, lane, 4 * chunk : 4 * chunk + 4] = data[block][at : at + 16].view(np.uint32)
    found = after(
        cuda,
        f"tcgen05.cp.cta_group::2.{shape} [%base], %w0;",
        [one.tobytes() for one in data],
        noise(2),
        [lies.descriptor(0, rows, 1)],
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize(("source", "bits", "shift"), [("b6x16_p32", 6, 0), ("b4x16_p64", 4, 2)])
def test_copies_decompress(cuda: driver_api.Driver, source: str, bits: int, shift: int, chunks: int) -> None:
    lies, random = Shared(64), np.random.default_rng(bits)
    codes = random.integers(0, 1 << bits, (128, 16 * chunks))
    element = {6: "e2m3", 4: "e2m1"}[bits]
    expected = noise()
    expected[0, :, : 4 * chunks] = (codes << shift).astype(np.uint8).view(np.uint32)
    found = after(
        cuda,
        f"tcgen05.cp.cta_group::1.128x{128 * chunks}b.b8x16.{source} [%base], %w0;",
        [lies.image(codes.astype(np.uint64), "f8f6f4", element, 1 << 16)],
        noise(),
        [lies.descriptor(0, 128, 16)],
    )
    np.testing.assert_array_equal(found, expected)


def test_a_shift_moves_31_rows(cuda: driver_api.Driver) -> None:
    expected = noise()
    expected[0, 32:63, 4:12] = expected[0, 33:64, 4:12]
    found = after(
        cuda,
        f"add.u32 %r1, %base, {(32 << 16) + 4}; tcgen05.shift.cta_group::1.down [%r1];",
        [b""],
        noise(),
        [],
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("shape", "count"), [("32x32b", 4), ("16x32bx2", 4), ("32x32b", 2), ("16x32bx2", 2)])
@pytest.mark.parametrize("form", ["max.u32", "min.s32", "max.f32", "min.abs.f32", "max.NaN.f32"])
def test_loads_reduce(cuda: driver_api.Driver, shape: str, count: int, form: str) -> None:
    random = np.random.default_rng(1)
    kind = form[-3:]
    if kind == "f32":
        numbers = random.choice(np.array([0.0, -0.0, 1.5, -2.5, np.nan], np.float32), (128, 32))
        numbers[0] = np.nan
        bits = numbers.view(np.uint32)
    else:
        bits = random.integers(0, 1 << 32, (128, 32), dtype=np.uint32)
    ptx = module(
        f"""
        mov.u32 %r7, place; setp.lt.u32 %p2, %t, 32;
        @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;
        bar.sync 0; ld.shared.u32 %r6, [%r7];
        and.b32 %r5, %t, 96; shl.b32 %r5, %r5, 16; add.u32 %r6, %r6, %r5;
        mul.wide.u32 %rd9, %t, 128; add.u64 %rd10, %rd0, %rd9;
        mov.u32 %r1, 0; mov.u32 %r4, %r6;
        fill: ld.global.u32 %r8, [%rd10]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], %r8;
        add.u64 %rd10, %rd10, 4; add.u32 %r4, %r4, 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p3, %r1, 32; @%p3 bra fill;
        tcgen05.ld.red.sync.aligned.{shape}.x{count}.{form}
            {{{", ".join(f"%r{10 + r}" for r in range(count))}}}, %r14, [%r6]
            {", 8" if shape == "16x32bx2" else ""};
        mul.wide.u32 %rd9, %t, 4; add.u64 %rd10, %rd1, %rd9; st.global.u32 [%rd10], %r14;
        bar.sync 0; ld.shared.u32 %r6, [%r7];
        @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
        """,
        shared=".shared .b32 place;",
    )
    into, out = cuda.alloc(bits.nbytes), cuda.alloc(512)
    cuda.write(into, bits.tobytes())
    assert run(cuda, ptx, [into, out], block=128) == 0

    def reduced(lane: int, first: int) -> int:
        row = bits[lane, first : first + count]
        if kind != "f32":
            numbers = row.view(np.int32) if kind == "s32" else row
            return int(numbers.max() if form.startswith("max") else numbers.min()) & 0xFFFFFFFF
        numbers = [float(x) for x in (abs(row.view(np.float32)) if "abs" in form else row.view(np.float32))]
        known = [x for x in numbers if x == x]
        if not known or ("NaN" in form and len(known) < count):
            return 0x7FFFFFFF
        key = lambda x: (x, np.copysign(1, x))  # noqa: E731
        best = (max if form.startswith("max") else min)(known, key=key)
        return int(np.float32(best).view(np.uint32))

    if shape == "32x32b":
        expected = [reduced(lane, 0) for lane in range(128)]
    else:
        expected = [reduced(t // 32 * 32 + t % 16, 8 * (t % 32 // 16)) for t in range(128)]
    assert cuda.words(out, 128) == expected
