"""Two loads from shared memory and the multiply-add that reads them are one step, and so are a chain of those, and a
product with the multiply-add that adds it. The same kernel instruction by instruction (REPLAY_EMULATOR_INTERLEAVE)
gives the same bits and the same counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_kernels import complaint, module

if TYPE_CHECKING:
    from conftest import Fresh

PRODUCTS, ELEMENTS = 12, 128
# Where the lanes of a factor are, as numbers of elements.
PLACES = {
    "uniform": "mov.u32 %r4, 3;",
    "contiguous": "mov.u32 %r4, %r20;",
    "halves": "shr.u32 %r4, %r20, 4; shl.b32 %r4, %r4, 5;",
    "two rows": "and.b32 %r4, %r20, 15; shr.u32 %r5, %r20, 4; mad.lo.u32 %r4, %r5, 48, %r4;",
    "scattered": "mul.lo.u32 %r4, %r20, 7; and.b32 %r4, %r4, 31;",
}


def kernel(kind: str, first: str, second: str, *, between: str = "", after: str = "", step: int = 2) -> str:
    """Elements from %rd0 go to shared memory, the sum of their products and one in the midst of it to %rd1.
    `between`, `after`: what is done in the midst and at the end."""
    size = 4 if kind == "f32" else 8
    chain = "\n".join(
        f"""ld.shared.{kind} %x{k}, [%r10+{size * k}];
        ld.shared.{kind} %y{k}, [%r11+{size * step * k}];
        fma.rn.{kind} %v{k + 1}, {f"%x{k}, %y{k}" if k % 3 else f"%y{k}, %x{k}"}, %v{k};
        {between if k == 5 else ""}"""
        for k in range(PRODUCTS)
    )
    return module(
        f"""
        .reg .{kind} %v<20>, %x<20>, %y<20>;
        mov.u32 %r1, %t;
        and.b32 %r20, %t, 31;
        FILL: mul.wide.u32 %rd3, %r1, {size};
        add.u64 %rd4, %rd0, %rd3;
        ld.global.{kind} %v0, [%rd4];
        cvt.u32.u64 %r2, %rd3;
        mov.u32 %r3, room;
        add.u32 %r3, %r3, %r2;
        st.shared.{kind} [%r3], %v0;
        add.u32 %r1, %r1, 32;
        setp.lt.u32 %p1, %r1, {ELEMENTS};
        @%p1 bra FILL;
        bar.sync 0;
        mov.u32 %r3, room;
        {PLACES[first]}
        mad.lo.u32 %r10, %r4, {size}, %r3;
        {PLACES[second]}
        mad.lo.u32 %r11, %r4, {size}, %r3;
        mul.wide.u32 %rd3, %t, {size};
        add.u64 %rd4, %rd1, %rd3;
        setp.lt.u32 %p2, %t, 5;
        ld.shared.{kind} %x18, [%r10];
        ld.shared.{kind} %y18, [%r11];
        mul.rn.{kind} %v0, %x18, %y18;
        {chain}
        st.global.{kind} [%rd4], %v{PRODUCTS};
        {after}
        """,
        shared=f".shared .align 16 .b8 room[{ELEMENTS * size}];",
    )


SCRIPT = """
import sys
f = d.function(d.module({ptx!r}), "k")
data, out_ = d.alloc({bytes}), d.alloc(4096)
for contents in {contents!r}:
    d.write(data, bytes.fromhex(contents))
    for block in {blocks}:
        d.do("cuMemsetD8_v2", out_, 0, 4096)
        assert d.launch(f, [1], [block], [data, out_]) == 0 and d.cuCtxSynchronize() == 0
        print(d.read(out_, 2048).hex())
"""


def contents(kind: str) -> list[str]:
    number = np.random.default_rng(11)
    plain = number.normal(size=ELEMENTS).astype(kind)
    odd = plain.copy()
    odd[::9], odd[1::13], odd[2::17] = np.inf, np.nan, np.finfo(kind).smallest_subnormal
    small = np.arange(ELEMENTS).astype(kind) % 5
    return [one.astype(kind).tobytes().hex() for one in (plain, odd, small)]


def results(
    fresh: Fresh, ptx: str, kind: str, path: Path, blocks: tuple[int, ...], **settings: str
) -> tuple[list[str], object]:
    size = int(kind[1:]) // 8
    script = SCRIPT.format(ptx=ptx, bytes=ELEMENTS * size, contents=contents(f"f{size}"), blocks=blocks)
    done = fresh(script, COUNTERS=str(path), **settings)
    counts = [json.loads(line)["counters"] for line in path.read_text().splitlines()]
    path.unlink()
    return done.stdout.split(), counts


PAIRS = [
    ("uniform", "contiguous"),
    ("two rows", "halves"),
    ("contiguous", "contiguous"),
    ("uniform", "halves"),
]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("first", "second"), [*PAIRS, ("scattered", "uniform")])
def test_a_chain_gives_what_its_instructions_give_one_by_one(
    fresh: Fresh, tmp_path: Path, kind: str, first: str, second: str
) -> None:
    ptx = kernel(kind, first, second)
    blocks = (32, 64, 40, 7)
    at_once = results(fresh, ptx, kind, tmp_path / "counters", blocks)
    assert at_once == results(fresh, ptx, kind, tmp_path / "counters", blocks, INTERLEAVE="1")
    whole = [np.frombuffer(bytes.fromhex(line), f"f{int(kind[1:]) // 8}") for line in at_once[0]]
    where = {"uniform": lambda t: 3, "contiguous": lambda t: t, "halves": lambda t: t // 16 * 32}
    if first in where and second in where:
        x, y = where[first], where[second]
        small = [k % 5 for k in range(2 * ELEMENTS)]
        for t in range(7):
            products = [small[x(t)] * small[y(t)]]
            products += [small[x(t) + k] * small[y(t) + 2 * k] for k in range(PRODUCTS)]
            assert whole[-4][t] == sum(products)


# A sum that is read in between ends the chain; so does one that changes, or is kept in some lanes.
@pytest.mark.parametrize(
    "between",
    [
        "st.global.f32 [%rd4+1024], %v6;",
        "add.f32 %v6, %v6, %v6;",
        "@%p2 mov.f32 %v6, %x1;",
        "st.global.f32 [%rd4+1024], %y5;",
        "add.u32 %r11, %r11, 4;",
        "st.shared.f32 [%r3+72], %v6;",
        "bar.sync 0;",
    ],
)
def test_what_is_read_in_the_midst_of_a_chain_is_there(fresh: Fresh, tmp_path: Path, between: str) -> None:
    ptx = kernel("f32", "uniform", "contiguous", between=between)
    blocks = (32, 7)  # one warp: the order of two decides what they read of each other's
    at_once = results(fresh, ptx, "f32", tmp_path / "counters", blocks)
    assert at_once == results(fresh, ptx, "f32", tmp_path / "counters", blocks, INTERLEAVE="1")


def test_a_sum_in_the_midst_and_a_factor_can_be_read_after_the_chain(fresh: Fresh, tmp_path: Path) -> None:
    after = "st.global.f32 [%rd4+512], %v6; st.global.f32 [%rd4+1024], %y8;"
    ptx = kernel("f32", "uniform", "contiguous", after=after)
    at_once = results(fresh, ptx, "f32", tmp_path / "counters", (32, 7))
    assert at_once == results(fresh, ptx, "f32", tmp_path / "counters", (32, 7), INTERLEAVE="1")


def test_a_load_in_the_midst_of_a_chain_faults_at_its_own_line(fresh: Fresh) -> None:
    ptx = kernel("f32", "uniform", "contiguous", step=16)
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if f"%y7, [%r11+{4 * 16 * 7}]" in text)
    for settings in ({}, {"INTERLEAVE": "1"}):
        said = complaint(fresh, ptx, 700, arguments="d.alloc(512), d.alloc(4096)", **settings)
        assert f"PTX line {line}" in said, said
        assert "at 0x200" in said, said


# What is done with four elements; the result is %v9.
SUMS = {
    "a sum": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v9, %v3, %v4, %v5;",
    "in the row of a factor": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v1, %v1, %v4, %v5; mov.{k} %v9, %v1;",
    "in the row of the product": "mul.rn.{k} %v9, %v1, %v2; fma.rn.{k} %v9, %v3, %v4, %v9;",
    "read again": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v6, %v3, %v4, %v5; mul.rn.{k} %v9, %v6, %v5;",
    "as a factor": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v9, %v5, %v4, %v3;",
    "twice": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v9, %v5, %v4, %v5;",
    "rounded down": "mul.rn.{k} %v5, %v1, %v2; fma.rm.{k} %v9, %v3, %v4, %v5;",
    "product rounded up": "mul.rp.{k} %v5, %v1, %v2; fma.rn.{k} %v9, %v3, %v4, %v5;",
    "guarded": "mov.{k} %v9, %v4; mul.rn.{k} %v5, %v1, %v2; @%p2 fma.rn.{k} %v9, %v3, %v4, %v5;",
    "in some lanes": "mov.{k} %v9, %v4; @%p2 bra L; mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v9, %v3, %v4, %v5; L:",
    "a sum of three": "mul.rn.{k} %v5, %v1, %v2; fma.rn.{k} %v6, %v3, %v4, %v5; fma.rn.{k} %v9, %v1, %v3, %v6;",
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("which", SUMS)
def test_a_sum_of_two_products_gives_what_its_instructions_give(
    fresh: Fresh, tmp_path: Path, kind: str, which: str
) -> None:
    size = int(kind[1:]) // 8
    loads = "\n".join(f"ld.global.{kind} %v{k + 1}, [%rd4+{32 * size * k}];" for k in range(4))
    ptx = module(
        f"""
        .reg .{kind} %v<10>;
        and.b32 %r1, %t, 31;
        mul.wide.u32 %rd3, %r1, {size};
        add.u64 %rd4, %rd0, %rd3;
        {loads}
        setp.lt.u32 %p2, %t, 5;
        {SUMS[which].format(k=kind)}
        mul.wide.u32 %rd3, %t, {size};
        add.u64 %rd4, %rd1, %rd3;
        st.global.{kind} [%rd4], %v9;
        """
    )
    blocks = (32, 40, 7)
    at_once = results(fresh, ptx, kind, tmp_path / "counters", blocks)
    assert at_once == results(fresh, ptx, kind, tmp_path / "counters", blocks, INTERLEAVE="1")
    if which == "a sum":
        found = np.frombuffer(bytes.fromhex(at_once[0][-3]), f"f{size}")[:32]
        small = [k % 5 for k in range(ELEMENTS)]
        assert found.tolist() == [small[t] * small[32 + t] + small[64 + t] * small[96 + t] for t in range(32)]
