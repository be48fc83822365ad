"""Matrix instructions of a warp against a reference that follows PTX ISA's layouts, bit by bit.

All products are kernels of one module: each reads the registers of A, B and C from memory, by lane, and writes those of
D. Small integers show where every element went; corners of the formats show how it was multiplied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import driver_api
import matrix_reference as reference
import numpy as np
import pytest
from matrix_reference import BITS, Codes, Product

if TYPE_CHECKING:
    pass


def mma(
    m: int, n: int, k: int, d: str, a: str, b: str, c: str, *, before: str = "", after: str = ""
) -> Product:
    opcode = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{before}.{d}.{a}.{b}.{c}{after}"
    return Product(opcode, m, n, k, a, b, d, c, saturate="satfinite" in before, bit_and=".and" in after)


def wmma(
    m: int, n: int, k: int, d: str, a: str, b: str, c: str, *, more: str = "", types: bool = True
) -> Product:
    opcode = f"wmma.mma{more}.sync.aligned.row.col.m{m}n{n}k{k}.{d}" + (f".{a}.{b}.{c}" if types else f".{c}")
    return Product(opcode, m, n, k, a, b, d, c, wmma=True, bit_and=".and" in more)


SMALL_FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def products() -> Iterator[Product]:
    for k, d, c in itertools.product((8, 16), ("f32", "f16"), ("f32", "f16")):
        yield mma(16, 8, k, d, "f16", "f16", c)
    for k in (8, 16):
        yield mma(16, 8, k, "f32", "bf16", "bf16", "f32")
    for k in (4, 8):
        yield mma(16, 8, k, "f32", "tf32", "tf32", "f32")
    for m, k in ((8, 4), (16, 4), (16, 8), (16, 16)):
        yield mma(m, 8, k, "f64", "f64", "f64", "f64")
    for bits, shapes in ((8, ((8, 16), (16, 16), (16, 32))), (4, ((8, 32), (16, 32), (16, 64)))):
        for (m, k), a, b, before in itertools.product(shapes, "us", "us", ("", ".satfinite")):
            yield mma(m, 8, k, "s32", f"{a}{bits}", f"{b}{bits}", "s32", before=before)
    for (m, k), after in itertools.product(((8, 128), (16, 128), (16, 256)), (".xor.popc", ".and.popc")):
        yield mma(m, 8, k, "s32", "b1", "b1", "s32", after=after)
    for k, a, b, d in itertools.product((16, 32), SMALL_FLOATS[:2], SMALL_FLOATS[:2], ("f32", "f16")):
        yield mma(16, 8, k, d, a, b, d)
    for a, b in zip(SMALL_FLOATS, SMALL_FLOATS[2:] + SMALL_FLOATS[:2], strict=True):
        yield mma(16, 8, 32, "f32", a, b, "f32", before=".kind::f8f6f4")
    for m, n in ((16, 16), (8, 32), (32, 8)):
        for d, c in itertools.product(("f32", "f16"), ("f32", "f16")):
            yield wmma(m, n, 16, d, "f16", "f16", c, types=False)
        yield wmma(m, n, 16, "f32", "bf16", "bf16", "f32")
        yield wmma(m, n, 16, "s32", "s8", "s8", "s32")
        yield wmma(m, n, 16, "s32", "u8", "u8", "s32")
    yield wmma(16, 16, 8, "f32", "tf32", "tf32", "f32")
    yield wmma(8, 8, 4, "f64", "f64", "f64", "f64")
    yield wmma(8, 8, 32, "s32", "s4", "s4", "s32")
    yield wmma(8, 8, 128, "s32", "b1", "b1", "s32", more=".xor.popc")


PRODUCTS = list(products())
HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"


def lane_bytes(product: Product, operand: str) -> int:
    return 8 if BITS[reference.kind_of(product, operand)] == 64 else 4


def kernel(product: Product, number: int) -> str:
    """Reads the registers of a, b and c one after the other from %in, 32 lanes each, and writes those of d to %out."""
    body, lists, at = [], {}, 0
    for operand in "abcd":
        size = lane_bytes(product, operand)
        names = [f"%{operand}{r}" for r in range(reference.register_count(product, operand))]
        body.append(f".reg .b{8 * size} {', '.join(names)};")
        lists[operand] = "{" + ", ".join(names) + "}"
        for r, name in enumerate(names if operand != "d" else []):
            body.append(
                f"ld.global.b{8 * size} {name}, [%{'w' if size == 8 else 'i'} + {at + 32 * size * r}];"
            )
        at += 32 * size * len(names)
    body.append(f"{product.opcode} {lists['d']}, {lists['a']}, {lists['b']}, {lists['c']};")
    size = lane_bytes(product, "d")
    for r in range(reference.register_count(product, "d")):
        body.append(f"st.global.b{8 * size} [%{'v' if size == 8 else 'o'} + {32 * size * r}], %d{r};")
    lines = "\n".join(body)
    return f""".visible .entry k{number}(.param .u64 in, .param .u64 out) {{
.reg .b64 %i, %o, %w, %v, %l; .reg .b32 %t;
ld.param.u64 %i, [in]; ld.param.u64 %o, [out];
mov.u32 %t, %tid.x; cvt.u64.u32 %l, %t;
mad.lo.u64 %w, %l, 8, %i; mad.lo.u64 %v, %l, 8, %o; mad.lo.u64 %i, %l, 4, %i; mad.lo.u64 %o, %l, 4, %o;
{lines}
}}
"""


class Machine:
    """The module of all products, and memory for their operands."""

    def __init__(self, driver: driver_api.Driver) -> None:
        self.driver = driver
        self.module = driver.module(HEAD + "".join(kernel(p, n) for n, p in enumerate(PRODUCTS)))
        self.input, self.output = driver.alloc(1 << 16), driver.alloc(1 << 16)

    def run(self, product: Product, a: Codes, b: Codes, c: Codes) -> Codes:
        data = b""
        for operand, matrix in (("a", a), ("b", b), ("c", c)):
            registers = reference.fragment(product, operand, matrix)
            data += registers.astype(f"u{lane_bytes(product, operand)}").tobytes()
        self.driver.write(self.input, data)
        function = self.driver.function(self.module, f"k{PRODUCTS.index(product)}")
        assert self.driver.launch(function, [1], [32], [self.input, self.output]) == 0
        assert self.driver.cuCtxSynchronize() == 0  # type: ignore[operator]
        size, count = lane_bytes(product, "d"), reference.register_count(product, "d")
        read = np.frombuffer(self.driver.read(self.output, 32 * size * count), f"u{size}")
        return reference.matrix_of(product, "d", read.reshape(count, 32).astype(np.uint64))


@pytest.fixture(scope="module")
def machine(library: driver_api.Driver) -> Iterator[Machine]:
    context = driver_api.handle()
    library.do("cuCtxCreate_v2", driver_api.out(context), 0, 0)
    library.context = context.value
    yield Machine(library)
    library.cuCtxDestroy_v2(context)  # type: ignore[operator]
    library.do("cuCtxSetCurrent", 0)


def small(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Codes:
    """Small integers as codes, of which every format has products and sums exactly."""
    if kind == "b1":
        return random.integers(0, 2, shape).astype(np.uint64)
    table = {reference.value(code, kind): code for code in range(1 << min(BITS[kind], 8))}
    if BITS[kind] >= 16 and kind != "s32":
        exponent, fraction = reference.EXPONENT_FRACTION[kind]
        shift = 13 if kind == "tf32" else 0
        one = (1 << (exponent - 1)) - 1 << fraction
        sign = 1 << (exponent + fraction)
        table = {0.0: 0, 1.0: one << shift, -1.0: (one | sign) << shift, 2.0: one + (1 << fraction) << shift}
    low = 0.0 if kind[0] == "u" else -1.0
    numbers = [code for number, code in table.items() if low <= number <= 2 and number == int(number)]
    return random.choice(numbers, shape).astype(np.uint64)


def check(machine: Machine, product: Product, a: Codes, b: Codes, c: Codes) -> None:
    np.testing.assert_array_equal(
        machine.run(product, a, b, c), reference.expected(product, a, b, c), err_msg=product.opcode
    )


Draw = Callable[[str, tuple[int, int], np.random.Generator], Codes]


def operands(product: Product, draw: Draw, random: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    return (
        draw(product.a, (product.m, product.k), random),
        draw(product.b, (product.k, product.n), random),
        draw(product.c, (product.m, product.n), random),
    )


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_every_element_goes_where_ptx_says(machine: Machine, product: Product) -> None:
    check(machine, product, *operands(product, small, np.random.default_rng(1)))


def any_code(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Codes:
    """Any codes; of large formats half of the exponents near one, so that sums cancel and round."""
    codes = random.integers(0, 1 << BITS[kind], shape, np.uint64, endpoint=False) if BITS[kind] < 64 else None
    if codes is None or kind in ("f32", "tf32", "bf16", "f16"):
        numbers = random.normal(size=shape)
        near = {
            "f16": lambda: numbers.astype(np.float16).view(np.uint16),
            "bf16": lambda: numbers.astype(np.float32).view(np.uint32) >> 16,
            "f64": lambda: numbers.view(np.uint64),
        }.get(kind, lambda: numbers.astype(np.float32).view(np.uint32))().astype(np.uint64)
        if codes is None:
            return near
        codes = np.where(random.integers(0, 40, shape) > 0, near, codes)
    return codes


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_values_with_corners(machine: Machine, product: Product) -> None:
    for seed in range(2):
        check(machine, product, *operands(product, any_code, np.random.default_rng(seed)))
