"""Kernels of one matrix product each, in one module: they read the registers of A, B and C from memory, by lane, and
write those of D. And the numbers that tests put into matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import driver_api
import matrix_reference as reference
import numpy as np
from matrix_reference import BITS, Codes, Product

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"


def lane_bytes(product: Product, operand: str) -> int:
    return 8 if BITS[reference.kind_of(product, operand)] == 64 else 4


def kernel(product: Product, number: int, more: str, words: int) -> str:
    """Reads the registers of a, b and c one after the other from %in, 32 lanes each, then %e0, %e1.., which are words
    of what comes after them: `more` is how the instruction names it. Writes the registers of d to %out."""
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
        at += 32 * size * len(names) if operand != "d" else 0
    body.append(".reg .b32 %e<7>; .reg .u16 %h<4>;")
    body += [f"ld.global.b32 %e{r}, [%i + {at + 128 * r}];" for r in range(words)]
    body += [f"cvt.u16.u32 %h{r}, %e{words - 4 + r};" for r in range(4) if words >= 4]
    body.append(f"{product.opcode} {lists['d']}, {lists['a']}, {lists['b']}, {lists['c']}{more};")
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
    """The module of some products and memory for their operands, in a context of their own, which outlives those of
    the tests between. `more`: of each, what its instruction has after C, and how many words a lane has for it."""

    def __init__(
        self,
        driver: driver_api.Driver,
        products: Sequence[Product],
        more: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        self.driver = driver
        self.context = driver_api.handle()
        driver.do("cuCtxCreate_v2", driver_api.out(self.context), 0, 0)
        names = more or [("", 0)] * len(products)
        kernels = [kernel(p, n, *names[n]) for n, p in enumerate(products)]
        self.module = driver.module(HEAD + "".join(kernels))
        self.number = {p: n for n, p in enumerate(products)}
        self.input, self.output = driver.alloc(1 << 16), driver.alloc(1 << 16)
        driver.do("cuCtxSetCurrent", 0)

    def close(self) -> None:
        self.driver.do("cuCtxDestroy_v2", self.context)

    @contextmanager
    def current(self) -> Iterator[None]:
        """In it, calls go to the machine's context."""
        self.driver.do("cuCtxSetCurrent", self.context)
        yield
        self.driver.do("cuCtxSetCurrent", 0)

    def run(self, product: Product, a: Codes, b: Codes, c: Codes, more: Sequence[Codes] = ()) -> Codes:
        data = b""
        for operand, matrix in (("a", a), ("b", b), ("c", c)):
            registers = reference.fragment(product, operand, matrix)
            data += registers.astype(f"u{lane_bytes(product, operand)}").tobytes()
        data += b"".join(word.astype("u4").tobytes() for word in more)
        size, count = lane_bytes(product, "d"), reference.register_count(product, "d")
        with self.current():
            self.driver.write(self.input, data)
            function = self.driver.function(self.module, f"k{self.number[product]}")
            assert self.driver.launch(function, [1], [32], [self.input, self.output]) == 0
            assert self.driver.cuCtxSynchronize() == 0  # type: ignore[operator]
            read = np.frombuffer(self.driver.read(self.output, 32 * size * count), f"u{size}")
        return reference.matrix_of(product, "d", read.reshape(count, 32).astype(np.uint64))


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


def any_code(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Codes:
    """Any codes; of large formats most near one, so that sums cancel and round."""
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


Draw = Callable[[str, tuple[int, int], np.random.Generator], Codes]


def operands(product: Product, draw: Draw, random: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    return (
        draw(product.a, (product.m, product.k), random),
        draw(product.b, (product.k_of_b, product.n), random),
        draw(product.c, (product.m, product.n), random),
    )
