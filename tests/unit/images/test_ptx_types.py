"""Element types and approximate operations, read off PTX."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import ImageError
from replay.images import read_ptx
from replay.images.ptx_body import kernel_body
from replay.images.ptx_types import types_of, variable_types
from replay.outputs.approximate import F32_ULP, allowance, uses

SAMPLES = Path(__file__).parents[3] / "samples"


def ptx(body, parameters=".param .u64 k_param_0, .param .u64 k_param_1"):
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k({parameters})
{{
  .reg .pred %p<4>; .reg .b16 %rs<9>; .reg .f32 %f<9>; .reg .f64 %fd<4>; .reg .b32 %r<9>; .reg .b64 %rd<20>;
  ld.param.u64 %rd1, [k_param_0];
  ld.param.u64 %rd2, [k_param_1];
  cvta.to.global.u64 %rd3, %rd1;
  .loc 1 7 3
  mul.wide.s32 %rd4, %r1, 4;
  add.s64 %rd5, %rd3, %rd4;
  // %rd9 is no comment's business
  {body}
  ret;
}}
""".encode()


def parameter_types(data, kernel):
    body = kernel_body(data, kernel)
    return {} if body is None else types_of(body)


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ("st.global.f32 [%rd5], %f1;", "f32"),
        ("$L_1: @%p1 st.global.v4.f32 [%rd5+16], {%f1, %f2, %f3, %f4};", "f32"),
        ("ld.global.nc.f64 %fd1, [%rd5];", "f64"),
        ("ld.global.b32 %r2, [%rd5]; add.f32 %r3, %r2, %r2;", "f32"),
        ("ld.global.u32 %r2, [%rd5]; add.s32 %r3, %r2, 1;", "i32"),
        ("ld.global.u32 %r2, [%rd5]; {add.f16x2 %r3,%r2,%r2;\n}", "f16"),
        ("ld.global.u16 %rs1, [%rd5]; { cvt.f32.bf16 %f1, %rs1;}", "bf16"),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2; st.global.u16 [%rd5], %rs1;", "e4m3"),
        ("cvt.rn.f16.f32 %rs1, %f1; mov.b32 %r2, {%rs1, %rs1}; st.global.u32 [%rd5], %r2;", "f16"),
        ("ld.global.s8 %rs1, [%rd5]; add.s16 %rs2, %rs1, 1;", "i8"),
        ("atom.global.add.f32 %f1, [%rd5], %f2;", "f32"),
        ("red.global.add.u32 [%rd5], 1;", "u32"),
        ("ld.global.f32 %f1, [%rd5]; st.shared.f32 [%r2], %f1;", "f32"),
        ("ld.global.u32 %r2, [%rd5]; st.shared.u32 [%r3], %r2; ld.shared.u32 %r4, [%r3]; mul.f32 %r5, %r4, %r4;",
         "f32"),
        ("selp.b64 %rd6, %rd5, %rd3, %p1; mad.wide.s32 %rd7, %r1, 4, %rd6; st.global.f32 [%rd7], %f1;", "f32"),
    ],
)  # fmt: skip
def test_type_of_what_a_parameter_points_to(body, type_):
    assert parameter_types(ptx(body), "k") == {0: type_}


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r2, [%rd5]; st.local.u32 [%r3], %r2;",  # copied, never computed with
        "st.global.u32 [%rd5], 0;",
        "st.global.f32 [%rd5], %f1; st.global.f64 [%rd5], %fd1;",  # both
        "ld.global.u64 %rd8, [%rd5]; ld.global.f32 %f1, [%rd8];",  # a pointer
        "st.shared.f32 [%rd5], %f1;",
        "st.global.f32 [%rd9], %f1;",  # an address from elsewhere
    ],
)
def test_doubt_gives_no_type(body):
    assert parameter_types(ptx(body), "k") == {}


def test_stores_decide_where_loads_differ():
    assert parameter_types(ptx("ld.global.f64 %fd1, [%rd5]; st.global.f32 [%rd5], %f1;"), "k") == {0: "f32"}


def test_pointers_inside_structs_by_value():
    parameters = ".param .align 8 .b8 k_param_0[24], .param .u64 k_param_1"
    body = "ld.param.u64 %rd6, [k_param_0+16]; st.global.f32 [%rd6], %f1; st.global.f64 [%rd2], %fd1;"
    assert parameter_types(ptx(body, parameters), "k") == {16: "f32", 24: "f64"}


def test_types_of_the_samples():
    def of(sample, kernel):
        return parameter_types((SAMPLES / sample / f"{sample}.ptx").read_bytes(), kernel)

    assert of("vector_add", "vector_add") == {0: "f32", 8: "f32", 16: "f32"}
    assert of("inplace_scan", "inplace_scan") == {0: "i32"}
    assert of("reduce", "reduce_atomic") == {0: "f32", 8: "f32"}


def variables_of(body, *names):
    return variable_types(kernel_body(ptx(body), "k"), names)


def test_variables_have_the_type_of_what_the_kernel_does_with_them():
    assert variables_of(
        "ld.global.u32 %r1, [count]; add.s32 %r2, %r1, 1; st.global.u32 [count], %r2;", "count"
    ) == {"count": "i32"}
    assert variables_of("atom.global.add.f32 %f1, [sums+8], %f2;", "sums", "count") == {"sums": "f32"}
    body = "mov.u64 %rd6, table; cvta.global.u64 %rd7, %rd6; add.s64 %rd8, %rd7, %rd4; st.f64 [%rd8], %fd1;"
    assert variables_of(body, "table") == {"table": "f64"}
    # what another buffer is made of says nothing, nor what is both
    assert variables_of("st.global.f32 [%rd5], %f1;", "table") == {}
    assert variables_of("st.global.f32 [table], %f1; st.global.f64 [table+8], %fd1;", "table") == {}
    assert variables_of(
        "mov.u64 %rd6, a; selp.u64 %rd7, %rd6, %rd5, %p1; st.global.f32 [%rd7], %f1;", "a"
    ) == {"a": "f32"}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_text_raises_nothing_else(data):
    text = bytearray((SAMPLES / "reduce" / "reduce.ptx").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    try:
        for kernel in read_ptx(bytes(text)).kernels:
            parameter_types(bytes(text), kernel)
    except ImageError:
        pass


def operations(body, threads=1024, captured_emulated=False, emulated=True):
    found = kernel_body(ptx(body), "k")
    return uses(found.instructions, threads, captured_emulated, emulated)


def test_exact_operations_allow_nothing():
    assert (
        allowance(operations("fma.rn.f32 %f1, %f2, %f3, %f1; sqrt.rn.f32 %f1, %f2; add.s32 %r1, %r2, %r3;"))
        is None
    )


def test_each_approximate_operation_counts_once_with_its_documented_bound():
    found = operations("ex2.approx.ftz.f32 %f1, %f2; ex2.approx.ftz.f32 %f3, %f4; rcp.approx.f32 %f1, %f1;")
    assert [use.text for use in found] == ["ex2.approx.f32", "rcp.approx.f32"]
    tolerance = allowance(found)
    # a GPU's 2 and 1 units, and one unit for each on the CPU driver
    assert tolerance.relative == pytest.approx(5 * F32_ULP)
    assert (tolerance.source, tolerance.reasons) == ("op table", ("ex2.approx.f32", "rcp.approx.f32"))


def test_two_gpus_may_each_be_off():
    assert allowance(operations("rcp.approx.f32 %f1, %f1;", emulated=False)).relative == pytest.approx(
        2 * F32_ULP
    )


def test_sine_is_off_by_an_absolute_error():
    assert allowance(operations("sin.approx.f32 %f1, %f1;")).absolute == 2.0**-20.5


def test_atomic_additions_grow_with_the_root_of_the_threads():
    few, many = (
        allowance(operations("red.global.add.f32 [%rd5], %f1;", count)).relative for count in (100, 10_000)
    )
    assert many == pytest.approx(10 * few)


def test_what_ptxas_may_fuse_counts_between_a_gpu_and_the_cpu_driver_only():
    body = "mul.f32 %f1, %f2, %f3; add.f32 %f4, %f1, %f5;"
    assert allowance(operations(body)).reasons == ("products and sums that ptxas may fuse",)
    assert allowance(operations(body, emulated=False)) is None
    assert allowance(operations(body.replace("mul.", "mul.rn."))) is None


PRODUCT = "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};"


@pytest.mark.parametrize(
    ("body", "absolute"),
    [
        (f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {PRODUCT}", 1024 * F32_ULP),
        (f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {PRODUCT}", 2048 * F32_ULP),
        (f"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {PRODUCT}", 32 * 2.0**-10),
        (f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {PRODUCT}", 1024 * F32_ULP),
        (f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {PRODUCT}", 4096 * 2.0**-52),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;",
            1024 * F32_ULP,
        ),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;", 1024 * F32_ULP),
    ],
)
def test_sums_of_matrix_products_have_an_allowance(body, absolute):
    tolerance = allowance(operations(body))
    assert tolerance.absolute == pytest.approx(absolute)
    assert tolerance.scaled
    assert "sums of matrix products" in tolerance.reasons[0]


@pytest.mark.parametrize(
    "body",
    [
        f"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {PRODUCT}",
        "wgmma.fence.sync.aligned;",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4}, [%rd1], 16;",
    ],
)
def test_integers_and_moves_of_matrices_must_agree(body):
    assert allowance(operations(body)) is None
