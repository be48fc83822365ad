"""tcgen05.mma against products in numpy: every kind, type, layout of D, of A and B in memory, and scales."""

from __future__ import annotations

import itertools
from dataclasses import replace

import driver_api
import matrix_reference
import numpy as np
import pytest
import tensor_reference as reference
from numpy.typing import NDArray
from tensor_kernels import after, noise
from tensor_reference import Codes, Product, Shared, Split, Words

B_START = 1 << 15
SUFFIX = {"mxf8f6f4": ".block_scale", "mxf4": ".block_scale", "mxf4nvf4": ".block_scale.scale_vec::{0}X"}
D_COLUMN, A_COLUMN, SCALE_A, METADATA = 0, 256, 288, reference.COLUMNS - 2


def opcode(product: Product) -> str:
    names = ".ws" * product.weights_stationary + ".sp" * product.sparse
    suffix = SUFFIX.get(product.kind, "").format(product.scales)
    if product.longer:
        suffix = f".block_scale.block{64 // product.scales}"
    return f"tcgen05.mma{names}.cta_group::{product.blocks}.kind::{product.kind}{suffix}"


def scale_value(codes: Codes, powers: bool) -> NDArray[np.float64]:
    if powers:
        return np.exp2(codes.astype(np.float64) - 127)
    return matrix_reference.values(codes & np.uint64(0x7F), "e4m3")


def run_product(
    cuda: driver_api.Driver,
    product: Product,
    left: Shared | None,
    right: Shared,
    *,
    adds: bool = True,
    hint: str = "",
    mask: tuple[int, ...] = (),
    last: str = "",
    shift: int = 0,
    seed: int = 0,
) -> tuple[Words, Words, Words]:
    """Tensor memory before, after, and as the document says: D in it, the rest as it was. shift: columns that B has
    before the first that counts."""
    random = np.random.default_rng(seed)
    blocks, rows = product.blocks, product.m // product.blocks
    before = noise(blocks)
    held_k = product.k // 2 if product.sparse else product.k
    a = reference.exact_codes(product.a, (product.m, held_k), random)
    b = reference.exact_codes(product.b, (product.n + shift, product.k), random)
    whole = product.values(a, product.a)
    if product.sparse:
        whole = put_metadata(product, whole, before, random)
    numbers_b = product.values(b[shift:], product.b)
    if product.scales:
        whole, numbers_b = put_scales(product, whole, numbers_b, before, random)

    d = random.integers(-50, 51, (product.m, product.n)).astype(np.float64)
    if product.d == "s32":  # so that sums leave the range, at both ends
        d = np.where(d < 0, -(2.0**31) - d, 2.0**31 - 1 - d)
    for row, column, block, lane, at in product.places():
        before[block, lane, D_COLUMN + at] = reference.words(d[row, column : column + 1], product.d)[0]
    wanted = product.result(whole, numbers_b, d if adds else np.zeros_like(d))
    if product.saturate:
        wanted = np.clip(wanted, -(2**31), 2**31 - 1)
    elif product.d == "s32":
        wanted = (wanted + 2.0**31) % 2.0**32 - 2.0**31

    unit_a = reference.elements_of_16_bytes(product.kind, product.a)
    unit_b = reference.elements_of_16_bytes(product.kind, product.b)
    shared = []
    for block in range(blocks):
        of_a, columns = a[block * rows : (block + 1) * rows], product.n // blocks
        of_b = b[block * columns : (block + 1) * columns + shift]
        image = left.image(of_a, product.kind, product.a, B_START) if left else bytes(B_START)
        shared.append(image + right.image(of_b, product.kind, product.b, B_START))
        if left is None:
            packed = reference.tensor_rows(of_a, product.kind, product.a)
            for row, _, of, lane, _ in product.places():
                if of == block:
                    before[block, lane, A_COLUMN : A_COLUMN + packed.shape[1]] = packed[row - block * rows]
    expected = before.copy()
    for row, column, block, lane, at in product.places():
        expected[block, lane, D_COLUMN + at] = reference.words(wanted[row, column : column + 1], product.d)[0]

    operands = ["[%m0]", "%w0" if left else "[%m0 + 256]", "%w1"]
    operands += [f"[%m1 + {METADATA}]"] * product.sparse + ["%m2"]
    operands += ["{%m4, %m5, %m6, %m7}"] * bool(mask) + [
        f"[%m1 + {SCALE_A}]",
        f"[%m1 + {scale_b(product)}]",
    ] * bool(product.scales)
    instructions = f"""
        add.u32 %m0, %base, {product.first_lane << 16}; mov.u32 %m1, %base;
        cvt.u32.u64 %m2, %w2; setp.ne.u64 %p4, %w3, 0;
        shl.b64 %w22, %w23, 16; // an absolute address counts from the begin of shared memory, too
        {"add.u64 %w0, %w0, %w22;" * isinstance(left, Split)} {"add.u64 %w1, %w1, %w22;" * isinstance(right, Split)}
        {" ".join(f"mov.u32 %m{4 + i}, {bits};" for i, bits in enumerate(mask))}
        {opcode(product)}{hint} {", ".join(operands)}, %p4{last};
    """
    values = [
        left.descriptor(0, rows, unit_a) if left else 0,
        right.descriptor(B_START, product.n // blocks + shift, unit_b),
        product.descriptor(),
        int(adds),
    ]
    return before, after(cuda, instructions, shared, before, values), expected


def put_metadata(
    product: Product, held: NDArray[np.float64], before: Words, random: np.random.Generator
) -> NDArray[np.float64]:
    """Spreads what A holds, and writes where to into tensor memory, as CUTLASS's layouts of it have it."""
    group = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}.get(product.kind, 4)
    wide = group // 4 or 1
    rows, groups = len(held), product.k // group
    whole = np.zeros((rows, product.k))
    choices = [0b1110, 0b0100] if group == 2 else [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
    codes = random.choice(choices, (rows, groups))
    for row, g in np.ndindex(codes.shape):
        code, of_group = int(codes[row, g]), held[row, g * group // 2 : (g + 1) * group // 2]
        if group == 2:
            whole[row, 2 * g + (code == 0b1110)] = of_group[0]
        else:
            for part, position in enumerate((code & 3, code >> 2)):
                at = g * group + position * wide
                whole[row, at : at + wide] = of_group[part * wide : (part + 1) * wide]
    own = product.m // product.blocks
    for row, g in np.ndindex(codes.shape):
        block, lane = row // own, product.lane_of(row % own)
        for copy in range(0, 32 if product.half else 128, 32 if product.half else own):
            if groups == 16:
                at, column, shift = lane + copy, METADATA + g // 8, g % 8 * 4
            else:
                at, column = (lane & ~8 | g // 4 * 8) + copy, METADATA + product.selector
                shift = lane // 8 % 2 * 16 + g % 4 * 4
            word = int(before[block, at, column]) & ~(15 << shift) | int(codes[row, g]) << shift
            before[block, at, column] = word
    return whole


def parts_of_b(product: Product) -> int:
    """In how many parts of the lanes the factors of B are."""
    return 2 if product.pair and product.m // product.blocks == 64 else 1


def scale_b(product: Product) -> int:
    """The column where the factors of B begin: they end with the last one, or in front of metadata."""
    rows = product.n // parts_of_b(product)
    further = (product.scale_bytes[1] + product.factors - 1) // 4 * -(-rows // 128) * 4
    return reference.COLUMNS - 2 * product.sparse - (-(-rows // 32) + further)


def put_scales(
    product: Product,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    before: Words,
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chooses factors, writes them into all four quarters of the lanes, and gives the scaled matrices."""
    low, high = (125, 130) if product.powers else (0x30, 0x42)
    scaled = []
    own, of_block = product.k // product.factors, product.m // product.blocks
    parts = parts_of_b(product)
    for matrix, column, byte in (
        (a, SCALE_A, product.scale_bytes[0]),
        (b, scale_b(product), product.scale_bytes[1]),
    ):
        codes = random.integers(low, high, (len(matrix), product.factors)).astype(np.uint64)
        scaled.append(matrix * np.repeat(scale_value(codes, product.powers), own, axis=1))
        for row, j in np.ndindex(codes.shape):
            if column == SCALE_A:
                blocks, at, quarters = [row // of_block], row % of_block, range(4)
            else:
                part, at = divmod(row, len(matrix) // parts)
                blocks, quarters = (
                    list(range(product.blocks)),
                    range(part * 4 // parts, (part + 1) * 4 // parts),
                )
            in_block = of_block if column == SCALE_A else len(matrix) // parts
            there = column + at // 32 + (byte + j) // 4 * -(-in_block // 128) * 4
            for block, quarter in itertools.product(blocks, quarters):
                cell = before[block, 32 * quarter + at % 32, there]
                shift = 8 * ((byte + j) % 4)
                word = int(cell) & ~(255 << shift) | int(codes[row, j]) << shift
                before[block, 32 * quarter + at % 32, there] = word
    return scaled[0], scaled[1]


def check(
    cuda: driver_api.Driver, product: Product, left: Shared | None, right: Shared, **options: object
) -> None:
    _, found, expected = run_product(cuda, product, left, right, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, expected)


LAYOUTS = [Shared(s, k) for s, k in itertools.product((16, 32, 64, 128), (True, False))]


@pytest.mark.parametrize("right", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", ["f16", "i8"])
def test_matrices_lie_as_descriptors_say(cuda: driver_api.Driver, kind: str, right: Shared) -> None:
    left = LAYOUTS[(LAYOUTS.index(right) + 3) % len(LAYOUTS)]
    a, b, d = ("f16", "f16", "f32") if kind == "f16" else ("s8", "u8", "s32")
    product = Product(kind, 128, 64, a, b, d, transposed=(not left.by_k, not right.by_k))
    check(cuda, product, left, right)


@pytest.mark.parametrize("operand", [0, 1])
def test_32_bits_are_transposed_in_atoms_of_32_bytes(cuda: driver_api.Driver, operand: int) -> None:
    lies = [Shared(128), Shared(128)]
    lies[operand] = Shared(128, False, 32)
    product = Product("tf32", 128, 32, "tf32", "tf32", transposed=(operand == 0, operand == 1))
    check(cuda, product, *lies)


F16 = Product("f16", 128, 64, "f16", "f16")
SHAPES = [
    replace(F16, m=64),
    replace(F16, m=64, first_lane=16),
    replace(F16, n=256),
    replace(F16, n=8, d="f16"),
    replace(F16, n=24),
    *(
        replace(F16, m=m, n=n, weights_stationary=True)
        for m, n in ((32, 64), (64, 128), (128, 64), (32, 256))
    ),
    *(replace(F16, m=m, n=n, pair=True) for m, n in ((256, 128), (256, 16), (128, 64), (128, 256))),
]


@pytest.mark.parametrize("in_tensor_memory", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize(
    "product", SHAPES, ids=lambda p: f"{p.m}x{p.n}-{p.blocks}{'ws' * p.weights_stationary}-{p.first_lane}"
)
def test_each_layout_of_d(cuda: driver_api.Driver, product: Product, in_tensor_memory: bool) -> None:
    check(cuda, product, None if in_tensor_memory else Shared(128), Shared(128))


NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
TYPES = [
    Product("f16", 128, 32, "bf16", "bf16"),
    Product("tf32", 128, 32, "tf32", "tf32"),
    *(Product("f8f6f4", 128, 16, a, b) for a, b in zip(NARROW, NARROW[1:] + NARROW[:1], strict=True)),
    Product("f8f6f4", 64, 16, "e2m1", "e2m1"),
    *(
        Product("i8", 128, 32, a, b, "s32", saturate=s)
        for a, b, s in (("s8", "s8", False), ("u8", "s8", False), ("s8", "u8", True), ("u8", "u8", True))
    ),
]


@pytest.mark.parametrize("in_tensor_memory", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize("product", TYPES, ids=lambda p: f"{p.kind}-{p.a}-{p.b}")
def test_each_type(cuda: driver_api.Driver, product: Product, in_tensor_memory: bool) -> None:
    check(cuda, product, None if in_tensor_memory else Shared(64), Shared(32))


SCALED = [
    *(
        Product("mxf8f6f4", 128, 64, a, "e4m3", scales=1, scale_bytes=(byte, 3 - byte))
        for byte, a in enumerate(("e4m3", "e5m2", "e2m3", "e2m1"))
    ),
    Product("mxf8f6f4", 128, 24, "e3m2", "e3m2", scales=1, transposed=(False, False)),
    Product("mxf8f6f4", 256, 160, "e4m3", "e4m3", scales=1, pair=True),
    Product("mxf8f6f4", 128, 128, "e4m3", "e4m3", scales=1, pair=True),
    Product("mxf4", 128, 64, "e2m1", "e2m1", scales=2, scale_bytes=(2, 0)),
    Product("mxf4", 256, 64, "e2m1", "e2m1", scales=2, scale_bytes=(0, 2), pair=True),
    Product("mxf4nvf4", 128, 256, "e2m1", "e2m1", scales=4, powers=False),
    Product("mxf4nvf4", 128, 64, "e2m1", "e2m1", scales=4),
    Product("mxf4nvf4", 128, 64, "e2m1", "e2m1", scales=2, scale_bytes=(0, 2)),
    Product("mxf4", 128, 64, "e2m1", "e2m1", scales=2, longer=True),
    Product("mxf4nvf4", 128, 160, "e2m1", "e2m1", scales=4, powers=False, longer=True),
    Product("mxf4nvf4", 256, 64, "e2m1", "e2m1", scales=2, scale_bytes=(2, 0), pair=True, longer=True),
]


@pytest.mark.parametrize("in_tensor_memory", [False, True], ids=["shared", "tensor"])
@pytest.mark.parametrize(
    "product", SCALED, ids=lambda p: f"{p.kind}-{p.m}x{p.n}x{p.k}-{p.a}-{p.scales}-{p.scale_bytes}"
)
def test_blocks_are_scaled(cuda: driver_api.Driver, product: Product, in_tensor_memory: bool) -> None:
    check(cuda, product, None if in_tensor_memory else Shared(128), Shared(128))


SPARSE = [
    Product("f16", 128, 64, "f16", "f16", sparse=True),
    Product("f16", 256, 64, "bf16", "bf16", sparse=True, pair=True, selector=1),
    Product("tf32", 128, 16, "tf32", "tf32", sparse=True, selector=1),
    Product("f8f6f4", 128, 64, "e4m3", "e5m2", sparse=True),
    Product("i8", 128, 64, "s8", "u8", "s32", sparse=True),
    Product("f16", 64, 64, "f16", "f16", sparse=True, weights_stationary=True),
    Product("f8f6f4", 32, 128, "e5m2", "e4m3", sparse=True, weights_stationary=True),
    Product("f16", 64, 64, "f16", "f16", sparse=True, first_lane=16, selector=1),
    Product("tf32", 64, 16, "tf32", "tf32", sparse=True),
    Product("i8", 64, 32, "s8", "u8", "s32", sparse=True, first_lane=16),
    Product("f16", 128, 64, "f16", "f16", sparse=True, pair=True),
    Product("mxf8f6f4", 128, 64, "e4m3", "e4m3", sparse=True, scales=1),
    Product("mxf4", 128, 64, "e2m1", "e2m1", sparse=True, scales=2),
]


@pytest.mark.parametrize(
    "product", SPARSE, ids=lambda p: f"{p.kind}-{p.m}x{p.n}-{p.blocks}{'ws' * p.weights_stationary}"
)
def test_a_sparse_matrix_is_spread(cuda: driver_api.Driver, product: Product) -> None:
    check(cuda, product, Shared(64), Shared(128))


@pytest.mark.parametrize(
    "operands", [(Split(), Shared(128)), (Shared(64), Split()), (Split(), Split())], ids=str
)
def test_rows_of_48_bytes_go_on_at_an_absolute_address(
    cuda: driver_api.Driver, operands: tuple[Shared, Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that only the address modulo 128 says what fits.
    monkeypatch.setitem(globals(), "B_START", 34 << 10)
    check(cuda, Product("mxf4", 128, 64, "e2m1", "e2m1", scales=2, longer=True), *operands)


@pytest.mark.parametrize("row", range(1, 8))
def test_a_pattern_begins_at_its_base_offset(cuda: driver_api.Driver, row: int) -> None:
    check(cuda, replace(F16, n=16), Shared(128, row=row), Shared(64, row=8 - row))
    product = Product("tf32", 128, 32, "tf32", "tf32", transposed=(True, True))
    check(cuda, product, Shared(128, False, 32, row=row), Shared(128, False, 32, row=8 - row))


@pytest.mark.parametrize("shift", [8, 32])
def test_columns_of_b_are_shifted(cuda: driver_api.Driver, shift: int) -> None:
    product = replace(F16, m=32, weights_stationary=True)
    check(cuda, product, Shared(128), Shared(128), shift=shift, last=f", {shift << 56}")


def test_signs_and_no_input(cuda: driver_api.Driver) -> None:
    for negate, adds in (((1, 0), True), ((0, 1), False), ((1, 1), False)):
        check(cuda, replace(F16, negate=negate), Shared(128), Shared(128), adds=adds)


@pytest.mark.parametrize("hint", ["fill", "use", "lastuse", "discard"])
def test_a_hint_changes_nothing(cuda: driver_api.Driver, hint: str) -> None:
    check(cuda, replace(F16, n=16), Shared(128), Shared(128), hint=f".collector::a::{hint}")


def test_d_is_scaled_down(cuda: driver_api.Driver) -> None:
    before, found, expected = run_product(cuda, F16, Shared(128), Shared(128), last=", 3")
    d, plain = (of[0, :, :64].view(np.float32) for of in (before, expected))
    np.testing.assert_array_equal(found[0, :, :64].view(np.float32), plain - d + d / 8)


def test_rows_of_a_come_from_one_lane_further(cuda: driver_api.Driver) -> None:
    """.ashift, which needs all 128 rows; the last lane has no further one."""
    plain = run_product(cuda, F16, None, Shared(128), adds=False)[1]
    _, found, expected = run_product(cuda, F16, None, Shared(128), adds=False, hint=".ashift")
    expected[0, :127, : F16.n] = plain[0, 1:, : F16.n]
    np.testing.assert_array_equal(found, expected)


def test_lanes_are_left_out(cuda: driver_api.Driver) -> None:
    mask = (1, 0xFFFF0000, 0, 0x80000001)
    before, found, expected = run_product(cuda, F16, Shared(128), Shared(128), mask=mask)
    out = [lane for lane in range(128) if mask[lane // 32] >> lane % 32 & 1]
    expected[0, out] = before[0, out]
    np.testing.assert_array_equal(found, expected)


# Mask descriptor, and the masks that the document gives for it, lowest bit first; its last example has a shift as well.
MASKS = [
    (128, (0,), (0,), ["0000111"]),
    (64, (0, 0), (1, 0), ["1110000", "0000111"]),
    (32, (0, 1, 2, 1), (1, 1, 0, 0), ["1110000", "1100001", "0011100", "0001110"]),
]


@pytest.mark.parametrize(("m", "starts", "firsts", "masks"), MASKS, ids=["128", "64", "32"])
def test_columns_of_b_are_left_out(
    cuda: driver_api.Driver, m: int, starts: tuple[int, ...], firsts: tuple[int, ...], masks: list[str]
) -> None:
    """Three columns are zero, then four are used."""
    product = replace(F16, m=m, n=64, weights_stationary=True)
    bits = 1 << 39 | 2 << 40 | 3 << 48
    for part, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        bits |= start << 8 * part | first << 32 + part
    last = f", {bits}"
    before, found, expected = run_product(cuda, product, Shared(128), Shared(128), last=last)
    width = 64 // len(masks)
    for _, column, block, lane, at in product.places():
        mask = masks[column // width]
        if mask[column % width % 7] == "1":
            expected[block, lane, at] = before[block, lane, at]
    np.testing.assert_array_equal(found, expected)


def test_sums_follow_the_order_of_k_with_one_rounding_each(cuda: driver_api.Driver) -> None:
    """Numbers whose sums are not exact."""
    product, random = replace(F16, n=8), np.random.default_rng(3)
    a, b = (random.normal(size=(rows, 16)).astype(np.float16) for rows in (128, 8))
    before = noise()
    d = random.normal(size=(128, 8)).astype(np.float32)
    before[0, :, :8] = d.view(np.uint32)
    codes = [of.view(np.uint16).astype(np.uint64) for of in (a, b)]
    image = Shared(128).image(codes[0], "f16", "f16", B_START) + Shared(128).image(
        codes[1], "f16", "f16", B_START
    )
    values = [
        Shared(128).descriptor(0, 128, 8),
        Shared(128).descriptor(B_START, 8, 8),
        product.descriptor(),
    ]
    found = after(
        cuda,
        "cvt.u32.u64 %m2, %w2; tcgen05.mma.cta_group::1.kind::f16 [%base], %w0, %w1, %m2, 1;",
        [image],
        before,
        values,
    )
    form = matrix_reference.Product("", 128, 8, 16, "f16", "f16", "f32", "f32")
    wanted = matrix_reference.expected(form, codes[0], codes[1].T, d.view(np.uint32).astype(np.uint64))
    np.testing.assert_array_equal(found[0, :, :8], wanted)
