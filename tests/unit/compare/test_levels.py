"""The first level of IR at which two sides part."""

from __future__ import annotations

import json

import pytest

from replay.difference.levels import level_differences
from replay.errors import ReplayError, UsageError
from replay.report.html.levels import levels_section
from replay.report.html.page import render_page, sections_of
from replay.report.html.sources import read_sources
from replay.report.levels import render_levels, render_levels_brief, verdict_of
from replay.results.documents import DIFFERENCE
from replay.snapshot.wire import to_wire
from replay.text import Screen

TTGIR = """#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("/home/x/k.py":15:0)
#loc1 = loc(unknown)
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @rows(%x: !tt.ptr<f32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) {
    %0 = tt.get_program_id x : i32 loc(#loc1)
    %1 = arith.muli %0, %n : i32 loc(#loc2)
    %2 = arith.addi %1, %0 : i32 loc(#loc2)
    tt.return loc(#loc1)
  } loc(#loc)
} loc(#loc)
"""
LLIR = """; ModuleID = 'k'
source_filename = "k"
define ptx_kernel void @rows(ptr addrspace(1) %0, i32 %1) local_unnamed_addr #0 !dbg !4 {
  %3 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !dbg !7
  %4 = mul i32 %3, %1, !dbg !8
  ret void, !dbg !9
}
!4 = distinct !DISubprogram(name: "rows", line: 15)
"""
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry rows(.param .u64 rows_param_0)
{
.reg .b32 %r<4>;
.loc 1 15 0
mov.u32 %r1, %ctaid.x;
add.u32 %r2, %r1, 1;
ret;
}
"""
SCREEN = Screen(100, False)


@pytest.fixture
def compared(tmp_path):
    """Writes both texts as files of a level, and compares them."""

    def write(suffix: str, a: str, b: str, **options: str):
        for name, text in (("a", a), ("b", b)):
            (tmp_path / f"{name}.{suffix}").write_text(text)
        return level_differences(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", **options)

    return write


@pytest.mark.parametrize(
    ("suffix", "text", "changes"),
    [
        (
            "ttgir",
            TTGIR,
            [("%1", "%row_start"), ("#blocked", "#layout"), ("k.py", "other.py"), ("15:0", "90:2")],
        ),
        ("ttgir", TTGIR, [(" loc(#loc2)", ""), ("#loc1 = loc(unknown)\n", "")]),
        ("llir", LLIR, [("%4", "%product"), ("!7", "!1234"), ('source_filename = "k"\n', ""), ("#0", "#3")]),
        ("ptx", PTX, [("%r1", "%r3"), (".loc 1 15 0", "// nothing")]),
    ],
)
def test_names_numbers_and_lines_of_sources_do_not_count(compared, suffix, text, changes) -> None:
    other = text
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    (kernel,) = compared(suffix, text, other).kernels
    assert (kernel.first, [item.state for item in kernel.levels]) == ("", ["same"])
    assert verdict_of(kernel) == f"the same in {suffix}"


@pytest.mark.parametrize(
    ("suffix", "text", "old", "new", "only"),
    [
        ("ttgir", TTGIR, "warpsPerCTA = [4]", "warpsPerCTA = [8]", (1, 1)),
        ("ttgir", TTGIR, "    %1 = arith.muli %0, %n : i32 loc(#loc2)\n", "", (1, 0)),
        ("ttgir", TTGIR, "arith.addi %1, %0", "arith.addi %0, %1", (1, 1)),
        ("llir", LLIR, "mul i32", "shl i32", (1, 1)),
        ("ptx", PTX, "add.u32 %r2, %r1, 1;", "add.u32 %r2, %r1, 2;", (1, 1)),
    ],
)
def test_what_a_line_does_counts(compared, suffix, text, old, new, only) -> None:
    assert old in text
    (kernel,) = compared(suffix, text, text.replace(old, new)).kernels
    (level,) = kernel.levels
    assert (kernel.first, level.only_in_a, level.only_in_b) == (suffix, *only)
    assert [line[0] for line in level.lines if line[0] in "+-"] == ["-"] * only[0] + ["+"] * only[1]
    text = render_levels(compared(suffix, text, text.replace(old, new)), SCREEN)
    assert f"rows: {suffix} differs" in text
    assert "#ttg'" not in text  # the name of a dialect is no number
    assert f"{suffix}, with the names of A" in text


REACHING = PTX.replace(
    ".visible .entry rows",
    """.const .align 4 .b8 table[4] = {1, 2, 3, 4};
.const .align 4 .b8 other[4] = {1, 2, 3, 4};
.func (.param .b32 out) inner() { .reg .b32 %r<2>; mov.u32 %r1, 7; st.param.b32 [out], %r1; ret; }
.func (.param .b32 out) outer() { call.uni (out), inner, (); ret; }
.visible .entry rows""",
).replace("ret;\n}\n", "mov.u64 %r3, table;\n{ .param .b32 out; call.uni (out), outer, (); }\nret;\n}\n")


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("table[4] = {1, 2, 3, 4}", "table[4] = {1, 2, 3, 5}", "ptx"),
        ("mov.u32 %r1, 7", "mov.u32 %r1, 8", "ptx"),
        (".target sm_80", ".target sm_90", "ptx"),
        ("other[4] = {1, 2, 3, 4}", "other[4] = {1, 2, 3, 5}", ""),
    ],
)
def test_what_a_kernel_names_counts_and_nothing_else(compared, old, new, first) -> None:
    assert old in REACHING
    (kernel,) = compared("ptx", REACHING, REACHING.replace(old, new)).kernels
    assert kernel.first == first


def test_how_a_kernel_may_be_launched_counts(compared) -> None:
    text = LLIR + '!nvvm.annotations = !{!1}\n!1 = !{ptr @rows, !"maxntidx", i32 128}\n'
    (kernel,) = compared("llir", text, text.replace("128", "256")).kernels
    assert kernel.first == "llir"
    (kernel,) = compared("llir", text, text.replace("!1", "!9")).kernels
    assert kernel.first == ""


def test_kernels_are_paired_by_name_and_the_rest_is_told(compared) -> None:
    more = PTX + PTX.partition("64\n")[2].replace("rows", "columns")
    found = compared("ptx", more, more.replace("columns", "cells"))
    assert [kernel.kernel for kernel in found.kernels] == ["rows"]
    assert (found.only_in_a, found.only_in_b) == (["columns"], ["cells"])
    assert "only in B: cells" in render_levels(found, SCREEN)
    assert render_levels_brief(found) == "rows: the same in ptx"


def test_two_sides_with_one_kernel_each_need_no_name(compared) -> None:
    (kernel,) = compared("ptx", PTX, PTX.replace("rows", "row_sums")).kernels
    assert (kernel.kernel, kernel.first) == ("rows and row_sums", "")


def test_what_cannot_be_is_refused(compared, tmp_path) -> None:
    with pytest.raises(UsageError, match="there is no level"):
        compared("ptx", PTX, PTX, level="tir")
    with pytest.raises(UsageError, match="no kernel 'x' in both"):
        compared("ptx", PTX + PTX.partition("64\n")[2].replace("rows", "columns"), PTX, kernel="x")
    with pytest.raises(ReplayError):
        compared("cubin", "not one", "not one")
    with pytest.raises(ReplayError):
        level_differences(tmp_path / "none.ttir", tmp_path / "none.ttir")


LARGE = 2_000_000
HOSTILE = [
    "",
    "%",
    "#a",
    " loc(",
    " loc(()",
    "#loc(",
    " ",
    "\n",
    ";",
    ';"',
    ", !dbg",
    "define ",
    "; \x1b[31m",
]


@pytest.mark.parametrize("suffix", ["ttir", "llir"])
@pytest.mark.parametrize("piece", HOSTILE)
def test_texts_of_strangers_take_no_long_time_and_cannot_colour(compared, suffix, piece) -> None:
    text = piece * (LARGE // max(len(piece), 1))
    if not text.strip():
        with pytest.raises(ReplayError, match="is empty"):
            compared(suffix, text, "x")
        return
    found = compared(suffix, text, f"{text} \x1b[2J\nx")
    assert "\x1b" not in render_levels(found, SCREEN)
    assert "\x1b" not in render_levels_brief(found)


def test_page_has_both_sides_of_the_first_level_that_differs(compared, tmp_path) -> None:
    found = compared("ttgir", TTGIR, TTGIR.replace("muli", "<script>"))
    document = tmp_path / "difference.json"
    document.write_text(json.dumps({"schema": DIFFERENCE.schema, **to_wire(found)}))
    [section] = sections_of(read_sources([document]))
    assert not section.parts  # one kernel needs no heading of its own
    [listing] = section.listings
    assert "ttgir differs" in section.title
    changed = [(a.text, b.text) for kind, a, b in listing.sides if kind == "changed"]
    assert changed
    assert all("<script>" in b and "muli" in a for a, b in changed)
    page = render_page(read_sources([document]))
    assert "&lt;script&gt;" in page
    assert "arith.<script>" not in page


def test_page_of_equal_sides_says_so(compared) -> None:
    found = compared("ttgir", TTGIR, TTGIR)
    section = levels_section(found)
    assert "the same in ttgir" in section.title
    assert not section.listings
    assert not section.details
