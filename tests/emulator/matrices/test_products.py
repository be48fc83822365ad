"""Matrix instructions of a warp against a reference that follows PTX ISA's layouts, bit by bit.

All products are kernels of one module: each reads the registers of A, B and C from memory, by lane, and writes those of
D. Small integers show where every element went; corners of the formats show how it was multiplied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import driver_api
import matrix_reference as reference
import numpy as np
import pytest
from matrix_kernels import Machine, any_code, operands, small
from matrix_reference import Codes, Product


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
    yield mma(16, 8, 16, "f32", "e4m3", "e5m2", "f32", before=".kind::f8f6f4")
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


@pytest.fixture(scope="module")
def machine(library: driver_api.Driver) -> Iterator[Machine]:
    made = Machine(library, PRODUCTS)
    yield made
    made.close()


def check(machine: Machine, product: Product, a: Codes, b: Codes, c: Codes) -> None:
    np.testing.assert_array_equal(
        machine.run(product, a, b, c), reference.expected(product, a, b, c), err_msg=product.opcode
    )


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_every_element_goes_where_ptx_says(machine: Machine, product: Product) -> None:
    check(machine, product, *operands(product, small, np.random.default_rng(1)))


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_values_with_corners(machine: Machine, product: Product) -> None:
    for seed in range(2):
        check(machine, product, *operands(product, any_code, np.random.default_rng(seed)))
