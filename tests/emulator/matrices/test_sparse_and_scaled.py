"""mma with a sparse A, and with factors for blocks of A and B, against a reference that follows PTX ISA."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import driver_api
import matrix_reference as reference
import numpy as np
import pytest
import sparse_reference as sparse
from matrix_kernels import Draw, Machine, any_code, operands, small
from matrix_reference import Codes, Product
from small_kernels import complaint, module
from sparse_reference import Extras

if TYPE_CHECKING:
    from conftest import Fresh

SMALL_FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
Case = tuple[Product, Extras]


def case(
    shape: tuple[int, str],
    types: tuple[str, str, str, str],
    extras: Extras,
    *,
    is_sparse: bool,
    before: str = "",
) -> Case:
    """shape: k, and what .kind the instruction has; types: of D, A, B and C."""
    k, kind = shape
    d, a, b, c = types
    variant = ("::ordered_metadata" if extras.ordered else "") if is_sparse else ""
    name = "mma" + (f".sp{variant}" if is_sparse else "")
    names = ".".join("e2m1" if t == "packed_e2m1" else t for t in types)
    scaled = f".block_scale.scale_vec::{extras.scales}X" if extras.scale else ""
    after = f".{extras.scale}" if extras.scale else ""
    opcode = f"{name}.sync.aligned.m16n8k{k}.row.col{kind}{scaled}{before}.{names}{after}"
    held = k // 2 if is_sparse else k
    return Product(opcode, 16, 8, held, a, b, d, c, saturate="satfinite" in before, sparse=is_sparse), extras


def sparse_cases() -> Iterator[Case]:
    def of(k: int, types: tuple[str, str, str, str], selectors: int, **more: str) -> Iterator[Case]:
        for ordered, selector in itertools.product((True, False), range(selectors)):
            yield case((k, ""), types, Extras(ordered, selector), is_sparse=True, **more)

    for d in ("f32", "f16"):
        yield from of(16, (d, "f16", "f16", d), 4)
        yield from of(32, (d, "f16", "f16", d), 2)
    yield from of(16, ("f32", "bf16", "bf16", "f32"), 4)
    yield from of(32, ("f32", "bf16", "bf16", "f32"), 2)
    yield from of(8, ("f32", "tf32", "tf32", "f32"), 4)
    yield from of(16, ("f32", "tf32", "tf32", "f32"), 2)
    for bits, k in ((8, 32), (4, 64)):
        for a, b in itertools.product("us", "us"):
            types = ("s32", f"{a}{bits}", f"{b}{bits}", "s32")
            yield from of(k, types, 2)
            yield from of(2 * k, types, 1, before=".satfinite" if a == b else "")
    for a, b in itertools.product(SMALL_FLOATS[:2], SMALL_FLOATS[:2]):
        yield from of(64, ("f32", a, b, "f32"), 1)
    for (a, b), d in itertools.product(itertools.product(SMALL_FLOATS, SMALL_FLOATS), ("f32", "f16")):
        if SMALL_FLOATS.index(a) <= SMALL_FLOATS.index(b):
            yield case((64, ".kind::f8f6f4"), (d, a, b, d), Extras(), is_sparse=True)


def scaled_cases() -> Iterator[Case]:
    places = itertools.product((True, False), (0, 1), (0, 1, 2, 3))
    pairs = itertools.cycle(itertools.product(SMALL_FLOATS, SMALL_FLOATS))
    for byte, (is_sparse, thread_a, thread_b) in enumerate(places):
        a, b = next(pairs)
        one = Extras(True, 0, "ue8m0", 1, byte % 4, thread_a, (byte + thread_b) % 4, thread_b)
        k = 64 if is_sparse else 32
        yield case((k, ".kind::mxf8f6f4"), ("f32", a, b, "f32"), one, is_sparse=is_sparse)
        two = Extras(True, 0, "ue8m0", 2, byte % 2 * 2, thread_a, thread_b % 2 * 2, thread_b)
        types = ("f32", "packed_e2m1", "packed_e2m1", "f32")
        for kind in (".kind::mxf4", ".kind::mxf4nvf4"):
            yield case((2 * k, kind), types, two, is_sparse=is_sparse)
        for scale in ("ue8m0", "ue4m3"):
            four = Extras(True, 0, scale, 4, 0, thread_a, 0, thread_b)
            yield case((2 * k, ".kind::mxf4nvf4"), types, four, is_sparse=is_sparse)


def more_of(product: Product, extras: Extras, *, in_registers: bool) -> tuple[str, int]:
    """What the instruction has after C, and the words of each lane for it."""
    text, words = "", 0
    if product.sparse:
        text, words = f", %e0, {extras.selector}", 1
    if extras.scale:
        places = [str(n) for n in (extras.byte_a, extras.thread_a, extras.byte_b, extras.thread_b)]
        factors = [f"%e{words}", f"%e{words + 1}"]
        words += 2
        if in_registers:  # and in braces, as CUTLASS writes them
            places = [f"%h{n}" for n in range(4)]
            factors = [f"{{{factor}}}" for factor in factors]
            words += 4
        text += f", {factors[0]}, {{{places[0]}, {places[1]}}}, {factors[1]}, {{{places[2]}, {places[3]}}}"
    return text, words


CASES = list(dict.fromkeys([*sparse_cases(), *scaled_cases()]))
NAMES = [f"{n}-{product}-{extras.selector}" for n, (product, extras) in enumerate(CASES)]


def unique(cases: list[Case]) -> list[Product]:
    """Products that compare unequal: the opcode gets the number of its case as a comment."""
    return [
        Product(**{**product.__dict__, "opcode": f"/* {n} */ {product.opcode}"})
        for n, (product, _) in enumerate(cases)
    ]


PRODUCTS = unique(CASES)


@pytest.fixture(scope="module")
def machine(library: driver_api.Driver) -> Iterator[Machine]:
    more = [more_of(p, e, in_registers=n % 3 == 0) for n, (p, e) in enumerate(CASES)]
    made = Machine(library, PRODUCTS, more)
    yield made
    made.close()


def check(machine: Machine, number: int, draw: Draw, factors_near_one: bool, seed: int) -> None:
    product, extras = PRODUCTS[number], CASES[number][1]
    random = np.random.default_rng(seed)
    a, b, c = operands(product, draw, random)
    words: list[Codes] = []
    held = np.tile(np.arange(product.k), (product.m, 1))
    if product.sparse:
        metadata = sparse.draw_metadata(product, extras.ordered, random)
        held = sparse.columns(product, metadata)
        words.append(sparse.metadata_words(product, metadata, extras.selector, random))
    factors = None
    if extras.scale:
        one = 127 if extras.scale == "ue8m0" else 0x38
        low, high = (one - 1, one + 2) if factors_near_one else (0, 256 if extras.scale == "ue8m0" else 128)
        step = 1 if extras.scale == "ue8m0" or not factors_near_one else 8
        factors = (
            low + step * random.integers(0, (high - low), (16, extras.scales), np.uint64),
            low + step * random.integers(0, (high - low), (8, extras.scales), np.uint64),
        )
        words.append(sparse.factor_words(factors[0], extras.byte_a, sparse.lanes_of_a(extras), random))
        words.append(sparse.factor_words(factors[1], extras.byte_b, sparse.lanes_of_b(extras), random))
        if number % 3 == 0:
            words += [
                np.full(32, n, np.uint64)
                for n in (extras.byte_a, extras.thread_a, extras.byte_b, extras.thread_b)
            ]
    wanted = sparse.expected(product, extras, a, b, c, held, factors)
    np.testing.assert_array_equal(machine.run(product, a, b, c, words), wanted, err_msg=product.opcode)


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_every_element_goes_where_ptx_says(machine: Machine, number: int) -> None:
    check(machine, number, small, True, 1)


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_values_with_corners(machine: Machine, number: int) -> None:
    check(machine, number, any_code, False, 2)
    check(machine, number, any_code, True, 3)


# ---- mma.m8n8k4 of f16 -------------------------------------------------------------------------------------------


def place_of_a(lane: int, i: int, layout: str) -> tuple[int, int]:
    low = 0 if lane < 16 else 4
    return (lane % 4 + low, i) if layout == "row" else (i + low, lane % 4)


def place_of_b(lane: int, i: int, layout: str) -> tuple[int, int]:
    low = 0 if lane < 16 else 4
    return (lane % 4, i + low) if layout == "row" else (i, lane % 4 + low)


def place_of_c(lane: int, i: int, kind: str) -> tuple[int, int]:
    low = 0 if lane < 16 else 4
    if kind == "f16":
        return lane % 4 + low, i
    return (lane & 1) + (i & 2) + low, (i & 4) + (lane & 2) + (i & 1)


@pytest.mark.parametrize(
    ("rows", "columns", "d", "c"),
    list(itertools.product(("row", "col"), ("row", "col"), ("f32", "f16"), ("f16",)))
    + [(a, b, "f32", "f32") for a, b in itertools.product(("row", "col"), ("row", "col"))],
)
def test_four_products_of_eight_lanes_each(
    cuda: driver_api.Driver, rows: str, columns: str, d: str, c: str
) -> None:
    random = np.random.default_rng(6)
    product = Product("", 8, 8, 4, "f16", "f16", d, c)
    matrices = [operands(product, any_code, random) for _ in range(4)]
    counts = {"a": 2, "b": 2, "c": 4 if c == "f16" else 8, "d": 4 if d == "f16" else 8}
    registers = {name: np.zeros((count, 32), np.uint64) for name, count in counts.items()}

    def fill(name: str, lane: int, i: int, code: int, bits: int) -> None:
        registers[name][i * bits // 32, lane] |= np.uint64(code << i * bits % 32)

    for lane in range(32):
        a, b, sums = matrices[lane % 16 // 4]
        for i in range(4):
            fill("a", lane, i, int(a[place_of_a(lane, i, rows)]), 16)
            fill("b", lane, i, int(b[place_of_b(lane, i, columns)]), 16)
        for i in range(8):
            fill("c", lane, i, int(sums[place_of_c(lane, i, c)]), 16 if c == "f16" else 32)
    names = {k: [f"%{k}{r}" for r in range(count)] for k, count in counts.items()}
    data = b"".join(registers[k].astype("u4").tobytes() for k in "abc")
    loads = [n for k in "abc" for n in names[k]]
    lists = ", ".join("{" + ", ".join(names[k]) + "}" for k in "dabc")
    ptx = module(
        f"""
        .reg .b32 {", ".join(n for k in "abcd" for n in names[k])};
        mul.wide.u32 %rd5, %t, 4; add.u64 %rd0, %rd0, %rd5; add.u64 %rd1, %rd1, %rd5;
        {" ".join(f"ld.global.b32 {name}, [%rd0 + {128 * r}];" for r, name in enumerate(loads))}
        mma.sync.aligned.m8n8k4.{rows}.{columns}.{d}.f16.f16.{c} {lists};
        {" ".join(f"st.global.b32 [%rd1 + {128 * r}], {name};" for r, name in enumerate(names["d"]))}
        """
    )
    into, out = cuda.alloc(len(data)), cuda.alloc(128 * counts["d"])
    cuda.write(into, data)
    assert cuda.launch(cuda.function(cuda.module(ptx), "k"), [1], [32], [into, out]) == 0
    assert cuda.cuCtxSynchronize() == 0  # type: ignore[operator]
    found = np.frombuffer(cuda.read(out, 128 * counts["d"]), "u4").reshape(counts["d"], 32)
    wanted = [reference.expected(product, *one) for one in matrices]
    bits = 16 if d == "f16" else 32
    for lane, i in itertools.product(range(32), range(8)):
        code = int(found[i * bits // 32, lane]) >> i * bits % 32 & ((1 << bits) - 1)
        assert code == int(wanted[lane % 16 // 4][place_of_c(lane, i, d)]), (lane, i)


# ---- what is refused ---------------------------------------------------------------------------------------------


FOUR = "{%f0, %f1, %f2, %f3}"
SCALED = (
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 "
    f"{FOUR}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {FOUR}, %r6, "
)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("{0, 2}, %r7, {0, 0};", "factors of A from byte 0 of thread 2, which PTX does not define"),
        ("{3, 1}, %r7, {4, 0};", "factors of B from byte 4 of thread 0, which PTX does not define"),
        ("{3, 1}, %r7, {3, 4};", "factors of B from byte 3 of thread 4, which PTX does not define"),
    ],
)
def test_factors_that_no_lane_has_are_named(fresh: Fresh, places: str, said: str) -> None:
    told = complaint(fresh, module(SCALED + places, parameters=0), 715)
    assert said in told
    assert "in kernel k, PTX line" in told


@pytest.mark.parametrize(
    ("opcode", "after", "said"),
    [
        (
            "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            ", %r8, 2",
            "with the sparsity selector 2, of 2",
        ),
        (
            "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            ", %r8, 4",
            "with the sparsity selector 4, of 4",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e3m2.e3m2.f32",
            "",
            "mma.sync.aligned.m16n8k32.row.col.f32.e3m2",
        ),
        (
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
            ", %r6, {0, 0}, %r7, {0, 0}",
            "scale_vec::4X",
        ),
    ],
)
def test_what_ptx_does_not_have_is_refused(fresh: Fresh, opcode: str, after: str, said: str) -> None:
    a = "{%r0, %r1}" if "m16n8k16" in opcode else "{%r0, %r1, %r2, %r3}"
    b = "{%r4, %r5, %r6, %r7}" if ".sp." in opcode and "k32" in opcode else "{%r4, %r5}"
    text = f"{opcode} {FOUR}, {a}, {b}, {FOUR}{after};"
    assert said in complaint(fresh, module(text, parameters=0), 801)
