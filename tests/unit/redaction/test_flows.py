"""Which loads decide an address or a branch, and what becomes of words that they read."""

from __future__ import annotations

import zlib

import pytest

from replay.redaction.taint.flows import flow_of
from replay.redaction.taint.words import Touches, words_of
from replay.run.touched import meet, runs_of


def text(body: str, more: str = "") -> str:
    return f""".version 8.0
.target sm_80
.address_size 64
{more}
.visible .entry k(.param .u64 k_param_0)
{{
  .reg .pred %p<4>; .reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
{body}
  ret;
}}
"""


FIRST = 8  # line of the body


def deciding(body: str, more: str = "") -> list[int]:
    """Lines of the body, from 0, whose loads decide."""
    flow = flow_of(text(body, more))
    first = FIRST + more.count("\n")
    return sorted(
        line - first for kind, line in flow.feeding(flow.deciding) if kind == "load" and isinstance(line, int)
    )


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("ld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%rd1], %f2;", []),
        ("ld.global.u32 %r1, [%rd1];\nmul.wide.u32 %rd2, %r1, 4;\nld.global.f32 %f1, [%rd2];", [0]),
        ("ld.global.f32 %f1, [%rd1];\nsetp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 bra L;\nL:", [0]),
        ("ld.global.f32 %f1, [%rd1];\nsetp.gt.f32 %p1, %f1, 0f00000000;\nselp.f32 %f2, %f1, %f1, %p1;", []),
        ("ld.global.f32 %f1, [%rd1];\nsetp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 st.global.f32 [%rd1], %f2;", [0]),
        ("ld.global.f32 %f1, [%rd1];\nsetp.gt.f32 %p1|%p2, %f1, 0f00000000;\n@%p2 bra L;\nL:", [0]),
        ("ld.global.u32 %r1, [%rd1];\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nbar.sync 0, %r2;", [0]),
        ("ld.global.u32 %r1, [%rd1]; // one\n/* two\nlines */ ld.global.u32 %r2, [%rd1];\nbar.sync %r2;", [2]),
        ("atom.global.add.u32 %r1, [%rd1], 1;\nsetp.eq.u32 %p1, %r1, 7;\n@%p1 bra L;\nL:", [0]),
        ("ld.global.u64 %rd2, [%rd1];\nwmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd2], %r9;", [0]),
        ("ld.global.u32 %r1, [%rd1];\nwmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2}, [%rd2], %r1;", [0]),
        ("ld.global.u32 %r1, [%rd1];\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};", [0]),
        ("ld.global.u32 %r1, [%rd1];\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r3];\nbar.sync %r2;", [1]),
        ("ld.global.u32 %r1, [%rd1];\nadd.cc.u32 %r2, %r1, 1;\naddc.u32 %r3, 0, 0;\nbar.sync %r3;", [0]),
    ],
)  # fmt: skip
def test_loads_that_decide(body: str, lines: list[int]) -> None:
    assert deciding(body) == lines


FUNCTION = """.func (.param .b32 out) pick(.param .b32 in)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [in];
  st.param.b32 [out], %r1;
  ret;
}"""
CALL = """ld.global.u32 %r1, [%rd1];
{ .param .b32 param0; .param .b32 retval0;
st.param.b32 [param0], %r1;
call.uni (retval0), pick, (param0);
ld.param.b32 %r2, [retval0]; }
bar.sync 0, %r2;"""


def test_values_are_followed_through_functions() -> None:
    assert 0 in deciding(CALL, FUNCTION)
    assert 0 not in deciding(CALL.replace("bar.sync 0, %r2", "add.u32 %r3, %r2, 1"), FUNCTION)


@pytest.mark.parametrize(
    "instruction",
    [
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}]",
        "call (%r1), %rd1, (%r2), proto",
        "call far, (%r2)",
    ],
)
def test_what_cannot_be_followed_is_told(instruction: str) -> None:
    flow = flow_of(text(f"{instruction};"))
    assert "line 8" in flow.unfollowed("k")


def touched(ptx: str, *sites: list[object]) -> Touches:
    found = Touches()
    check = zlib.crc32(ptx.encode())
    found._take(
        {"schema": "replay.emulator.touched/1", "kernel": "k", "texts": [check], "sites": list(sites)}
    )
    return found


def test_indices_that_another_kernel_or_copy_made_stay_exact() -> None:
    """The first line loads what the second stores; a copy takes it to where the last ones use it as an index."""
    ptx = text(
        "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1], %r1;\n"
        "ld.global.u32 %r2, [%rd1];\nmul.wide.u32 %rd2, %r2, 4;\nld.global.f32 %f1, [%rd2];"
    )
    found = touched(
        ptx, [0, 8, False, "global", [100, 104]], [0, 9, True, "global", [200, 204]],
        [0, 10, False, "global", [300, 304]], [0, 12, False, "global", [400, 500]],
    )  # fmt: skip
    assert words_of(found, [ptx]).exact.tolist() == [[300, 304]]
    found._take({"schema": "replay.emulator.touched/1", "copied": [296, 16, 16, 196, 16, 16, 16, 1, 1]})
    words = words_of(found, [ptx])
    assert words.exact.tolist() == [[100, 104], [196, 212], [300, 304]]
    assert words.typed["f32"].tolist() == [[400, 500]]
    assert words.unknown.tolist() == [[100, 104], [300, 304]]
    assert words.decides(90, 101) == "k, PTX line 8"
    assert words.decides(302, 303) == "k, PTX line 10"
    assert words.decides(400, 500) == ""


def test_types_go_through_shared_memory() -> None:
    ptx = text(
        "ld.global.b32 %r1, [%rd1];\nst.shared.b32 [%r3], %r1;\nld.shared.f32 %f1, [%r3];\nadd.f32 %f1, %f1, %f1;"
    )
    found = touched(
        ptx,
        [0, 8, False, "global", [0, 4]],
        [0, 9, True, "shared", [0, 128]],
        [0, 10, False, "shared", [64, 128]],
    )
    assert words_of(found, [ptx]).typed["f32"].tolist() == [[0, 4]]


PRODUCT = """cp.async.cg.shared.global [%r3], [%rd1], 16;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r4, %r5}, [%r3];
mma.sync.aligned.m16n8k16.row.col.f32.FROM.FROM.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r4,%r5}, {%r6,%r7}, {%f1,%f2,%f3,%f4};
st.global.v2.f32 [%rd2], {%f1, %f2};"""


@pytest.mark.parametrize(
    ("written", "type_"), [("f16", "f16"), ("bf16", "bf16"), ("tf32", "f32"), ("e4m3", "e4m3")]
)
def test_factors_of_matrix_products_have_their_type(written: str, type_: str) -> None:
    ptx = text(PRODUCT.replace("FROM", written))
    found = touched(
        ptx,
        [0, 8, False, "global", [0, 512]],
        [0, 8, True, "shared", [0, 512]],
        [0, 9, False, "shared", [0, 512]],
        [0, 11, True, "global", [4096, 4104]],
    )
    words = words_of(found, [ptx])
    assert words.typed[type_].tolist() == [[0, 512]]
    assert (words.reason, len(words.exact), len(words.unknown)) == ("", 0, 0)


def test_what_wmma_multiplies_has_its_type() -> None:
    load = "wmma.load.NAME.sync.aligned.row.m16n16k16.global.TYPE {%r1, %r2}, [%rd1], %r9;"
    ptx = text(load.replace("NAME", "b").replace("TYPE", "bf16"))
    assert words_of(touched(ptx, [0, 8, False, "global", [0, 64]]), [ptx]).typed["bf16"].tolist() == [[0, 64]]


def test_registers_of_two_blocks_with_one_name_have_no_certain_type() -> None:
    ptx = text("{ .reg .f64 %x<2>; }\n{ .reg .f32 %x<2>; ld.global.b32 %x1, [%rd1]; }")
    assert words_of(touched(ptx, [0, 9, False, "global", [0, 4]]), [ptx]).typed == {}


def test_without_its_text_all_of_a_kernel_is_exact() -> None:
    ptx = text("ld.global.f32 %f1, [%rd1];")
    found = touched(ptx, [0, 8, False, "global", [0, 4]])
    assert "is not in the snapshot" in words_of(found, []).reason


def test_runs_are_joined_and_compared() -> None:
    runs = runs_of([[5, 9, 0, 3], [[2, 4], [8, 12]]])
    assert runs.tolist() == [[0, 4], [5, 12]]
    assert meet(runs, runs_of([[4, 5, 11, 30]]))
    assert not meet(runs, runs_of([[4, 5, 12, 30]]))
