"""Instructions that make a NaN or an infinity of finite numbers: found with their values, and not in the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from race_kernels import Pair, module
from race_suites import checked, script
from small_kernels import HEAD

if TYPE_CHECKING:
    from conftest import Fresh

NAN, INFINITY = ("makes_nan",), ("makes_infinity",)
LARGE, ONE = "0f7F000000", "0f3F800000"  # 2^127
PAIRS = [
    Pair("sum", f"""
  mov.f32 %f1, {LARGE};
  +++ mov.f32 %f1, {ONE};
  add.f32 %f2, %f1, %f1;  // first
""", INFINITY),
    Pair("sum_to_itself", f"""
  mov.f32 %f1, {LARGE};
  +++ mov.f32 %f1, {ONE};
  add.f32 %f1, %f1, %f1;  // first
  add.f32 %f1, %f1, %f1;
""", INFINITY),
    Pair("reciprocal", """
  cvt.rn.f32.u32 %f1, %t;
  +++ add.f32 %f1, %f1, 0f3F800000;
  rcp.rn.f32 %f2, %f1;  // first
  mul.f32 %f3, %f2, %f2;
""", INFINITY),
    Pair("root", """
  cvt.rn.f32.s32 %f1, %t; sub.f32 %f1, %f1, 0f3F800000;
  +++ add.f32 %f1, %f1, 0f3F800000;
  sqrt.approx.ftz.f32 %f2, %f1;  // first
""", NAN),
    Pair("logarithm", """
  mov.f32 %f1, 0fBF800000;
  +++ neg.f32 %f1, %f1;
  lg2.approx.f32 %f2, %f1;  // first
""", NAN),
    Pair("quotient", """
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
  +++ mov.f32 %f2, 0f3F800000;
  div.rn.f32 %f3, %f1, %f2;  // first
""", NAN),
    Pair("exponential", """
  mov.f32 %f1, 0f43010000;
  +++ mov.f32 %f1, 0fFF800000;
  ex2.approx.f32 %f2, %f1;  // first
""", INFINITY),
    Pair("fused", f"""
  mov.f32 %f1, {LARGE}; mov.f32 %f2, 0f40000000;
  +++ mov.f32 %f2, 0f3F000000;
  fma.rn.f32 %f3, %f1, %f2, %f2;  // first
""", INFINITY),
    Pair("up", f"""
  mov.f32 %f1, 0f7F7FFFFF; mov.f32 %f2, {ONE};
  --- add.rp.f32 %f3, %f1, %f2;  // first
  +++ add.rm.f32 %f3, %f1, %f2;
""", INFINITY),
    Pair("double", """
  mov.b64 %rd1, 0d7FE0000000000000; mov.b64 %rd2, 0d4000000000000000;
  +++ mov.b64 %rd2, 0d3FF0000000000000;
  mul.rn.f64 %rd3, %rd1, %rd2;  // first
""", INFINITY),
    Pair("half", """
  mov.b16 %h1, 0x7bff;
  +++ mov.b16 %h1, 0x3c00;
  add.f16 %h2, %h1, %h1;  // first
""", INFINITY),
    Pair("pair_of_halves", """
  mov.b32 %r1, 0x7bff3c00;
  +++ mov.b32 %r1, 0x3c003c00;
  fma.rn.f16x2 %r2, %r1, %r1, %r1;  // first
""", INFINITY),
    Pair("narrowed", """
  mov.f32 %f1, 0f47C35000;
  +++ mov.f32 %f1, 0f447A0000;
  cvt.rn.f16.f32 %h1, %f1;  // first
""", INFINITY),
    Pair("narrowed_pair", """
  mov.f32 %f1, 0f47C35000; mov.f32 %f2, 0f3F800000;
  +++ mov.f32 %f1, 0f3F800000;
  cvt.rn.f16x2.f32 %r1, %f1, %f2;  // first
""", INFINITY),
    Pair("integer", """
  mov.u32 %r1, 70000;
  +++ mov.u32 %r1, 60000;
  cvt.rn.f16.u32 %h1, %r1;  // first
""", INFINITY),
    Pair("guarded", """
  setp.eq.u32 %p1, %t, 5; mov.f32 %f1, 0f3F800000;
  @%p1 mov.f32 %f1, 0f00000000;
  --- @%p1 rcp.approx.ftz.f32 %f2, %f1;  // first
  +++ @!%p1 rcp.approx.ftz.f32 %f2, %f1;
""", INFINITY),
    Pair("product_of_matrices", """
  mov.b32 %r1, 0x7bff7bff; mov.b32 %r2, 0x7bff7bff; mov.b32 %r3, 0;
  +++ mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0x3c003c00;
  mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r4,%r5}, {%r1,%r1,%r1,%r1}, {%r2,%r2}, {%r3,%r3};  // first
""", INFINITY),
    Pair("handed_on", """
  mov.f32 %f1, 0f7F800000; mov.f32 %f2, 0f00000000;
  --- rcp.rn.f32 %f1, %f2;  // first
  sub.f32 %f3, %f1, %f1; mul.f32 %f4, %f3, %f2; cvt.rn.f16.f32 %h1, %f4; max.f32 %f5, %f4, %f1; abs.f32 %f6, %f3;
""", INFINITY),
]  # fmt: skip
TEXT, MARKS = module(PAIRS)
Found = dict[str, dict[str, object]]


@pytest.fixture(scope="module")
def kept() -> Found:
    return {}


@pytest.fixture
def found(kept: Found, fresh: Fresh, tmp_path: Path) -> Found:
    """Every kernel, run once for all tests of this file."""
    if not kept:
        kept.update(checked(fresh, tmp_path, script(list(MARKS), text=TEXT), checks="numbers"))
    return kept


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_makes_it_is_found_and_what_hands_it_on_is_not(found, pair: Pair) -> None:
    fault = found[f"{pair.name}_fault"]
    assert {(item["check"], item["kind"]) for item in fault["findings"]} == {("numbers", pair.kinds[0])}
    assert {item["first"]["ptx_line"] for item in fault["findings"]} == MARKS[f"{pair.name}_fault"]["first"]
    assert fault["unchecked"] == []
    assert found[f"{pair.name}_twin"]["findings"] == []


@pytest.mark.parametrize(
    ("name", "operands", "result", "count", "thread"),
    [
        ("sum", ["1.70141183e+38", "1.70141183e+38"], "inf", 256, 0),
        ("sum_to_itself", ["1.70141183e+38", "1.70141183e+38"], "inf", 256, 0),
        ("reciprocal", ["0"], "inf", 2, 0),
        ("root", ["-1"], "nan", 2, 0),
        ("quotient", ["0", "0"], "nan", 256, 0),
        ("double", ["8.9884656743115795e+307", "2"], "inf", 256, 0),
        ("half", ["65504", "65504"], "inf", 256, 0),
        ("pair_of_halves", ["(1, 65504)", "(1, 65504)", "(1, 65504)"], "(2, inf)", 256, 0),
        ("narrowed_pair", ["100000", "1"], "(1, inf)", 256, 0),
        ("integer", ["70000"], "inf", 256, 0),
        ("guarded", ["0"], "inf", 2, 5),
        ("product_of_matrices", [], "(inf, inf)", 512, 0),
    ],
)
def test_the_values_and_the_threads_are_told(found, name, operands, result, count, thread) -> None:
    (item,) = found[f"{name}_fault"]["findings"]
    assert (item["operands"], item["result"]) == (operands, result)
    assert (item["count"], item["first"]["thread"]) == (count, [thread, 0, 0])


def test_the_first_of_two_is_first(fresh: Fresh, tmp_path: Path) -> None:
    body = """
  mov.u32 %r1, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000;
LOOP:
  setp.eq.u32 %p1, %r1, 1;
  rcp.rn.f32 %f3, %f1;  // then
  setp.eq.u32 %p2, %r1, 0;
  @%p2 mov.f32 %f1, 0f00000000;
  @%p2 mov.f32 %f2, 0fBF800000;
  sqrt.rn.f32 %f4, %f2;  // first
  mov.f32 %f2, 0f3F800000; add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 2;
  @%p3 bra LOOP;
"""
    text, marks = module([Pair("two", body)])
    found = checked(fresh, tmp_path, script(["two_fault"], text=text), checks="numbers")["two_fault"]
    lines = [item["first"]["ptx_line"] for item in found["findings"]]
    assert [{line} for line in lines] == [marks["two_fault"]["first"], marks["two_fault"]["then"]]


def test_threads_of_the_host_change_nothing(fresh: Fresh, tmp_path: Path) -> None:
    names = [name for name in MARKS if name.endswith("_fault")]
    runs = [
        checked(fresh, tmp_path, script(names, grid=40, text=TEXT), checks="numbers", THREADS=workers)
        for workers in ("1", "4")
    ]
    assert [{name: one["findings"] for name, one in run.items()} for run in runs][0] == {
        name: one["findings"] for name, one in runs[1].items()
    }


def test_products_that_are_not_looked_at_are_named(fresh: Fresh, tmp_path: Path) -> None:
    text = HEAD + (
        ".visible .entry k() { .reg .b32 %r<8>; .reg .f32 %f<8>;\n"
        "mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;\n"
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f2,%f3,%f4,%f5}, {%r1,%r1,%r1,%r1}, {%r1,%r1},"
        " {%f1,%f1,%f1,%f1};\nret; }\n"
    )
    found = checked(fresh, tmp_path, script(["k"], text=text), checks="numbers")["k"]
    assert found["findings"] == []
    assert [item["check"] for item in found["unchecked"]] == ["numbers"]


LOST = """
  mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f3F000000;
  sub.f32 %f4, %f1, %f2;  // first
  sub.f32 %f5, %f2, %f2;
  sub.f32 %f6, %f2, %f3;
  fma.rn.f32 %f7, %f1, %f2, 0fBF800000;  // first
"""


def test_differences_that_lose_most_of_their_digits_are_told_on_request(fresh: Fresh, tmp_path: Path) -> None:
    frame = ".visible .entry {name}() {{\n.reg .f32 %f<9>;\n{body}\nret;\n}}\n"
    text, marks = module([Pair("k", LOST)], frame)
    found = checked(fresh, tmp_path, script(["k_fault"], text=text), checks="cancellation")["k_fault"][
        "findings"
    ]
    assert {item["first"]["ptx_line"] for item in found} == marks["k_fault"]["first"]
    assert {(item["check"], item["kind"]) for item in found} == {("cancellation", "loses_digits")}
    assert (found[0]["operands"], found[0]["result"]) == (["1.00000012", "1"], "1.1920929e-07")
    alone = checked(fresh, tmp_path, script(["k_fault"], text=text), checks="numbers")["k_fault"]["findings"]
    assert alone == []
