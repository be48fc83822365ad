"""Operands in all the forms that ptxas takes: constant expressions, elements of arrays, vectors. What ptxas of the
`test` extra says of each form is asked too, so that this page cannot drift from it."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from pathlib import Path

import driver_api as api
import pytest
import toolchain

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"

# The value of each expression in 64 bits, as ptxas 13.0 puts it into the initial value of a variable.
EXPRESSIONS = {
    "~0x2": -3,
    "-(3+1)": -4,
    "-256>>4": -16,
    "(.u64)-256>>4": 0xFFFFFFFFFFFFFF0,
    "-256U>>4": 0xFFFFFFFFFFFFFF0,
    "-7/2": -3,
    "-7/2U": 0x7FFFFFFFFFFFFFFC,
    "-7 % (3)": 0,
    "(.s64)(-7U)/2": -3,
    "!5": 0,
    "!!5": 1,
    "-1<1U": 0,
    "-1<1": 1,
    "-1<=-1": 1,
    "1!=1": 0,
    "~0/2": 0x7FFFFFFFFFFFFFFF,
    "(-1|0)/2": 0,
    "(-1&-1)>>1": -1,
    "(-1^0U)/2": 0x7FFFFFFFFFFFFFFF,
    "1<<64": 1,
    "1<<-1": -(1 << 63),
    "-5>>64": -5,
    "1<<63>>63": -1,
    "0x8000000000000000/2": 1 << 62,
    "-9223372036854775808/-1": 0,
    "18446744073709551615/2": 0x7FFFFFFFFFFFFFFF,
    "(1?-1:1U)/2": 0,
    "1?2:3?4:5": 2,
    "0?2:0?4:5": 5,
    "1||0&&0": 1,
    "1|2^3&1": 3,
    "1+2<<3": 24,
    "6-3-2": 1,
    "64/4/2": 8,
    "2*3 % (4)": 2,
    "(7 % (4))-5<0": 0,
    "(8<<1U)-17<0": 1,
    "(8U>>1)-5<0": 0,
    "WARP_SZ*2": 64,
    "017+1": 16,
    "5>3>1": 0,
    "3&2==2": 1,
    "1.5>=0.5": 1,
    "1.0==2.0": 0,
    "4294967296*4294967296": 0,
    "- -+1": 1,
    "0b101": 5,
    "0X1f": 31,
}
REALS = {
    "1.0+2.0": 3.0,
    "-(1.5)": -1.5,
    "1./4.": 0.25,
    ".5*3.": 1.5,
    "2.e2-1.0": 199.0,
    "-0d3ff0000000000000+1.5": 0.5,
}
REFUSED = [
    "mov.u64 %rd1, 5/0;",
    "mov.u64 %rd1, 7%4;",
    "mov.u64 %rd1, 5u;",
    "mov.u64 %rd1, (.u32)5;",
    "mov.u64 %rd1, 1?2;",
    "mov.u64 %rd1, (1;",
    "mov.u64 %rd1, 1+;",
    "mov.u64 %rd1, 1+1.0;",
    "mov.u64 %rd1, ~1.0;",
    "mov.f64 %fd1, 1?1.0:2.0;",
    "mov.f32 %f1, -0f3f800000;",
    "mov.f32 %f1, 0f3f800000+0f3f800000;",
    "ld.global.u32 %r1, [%rd0-4];",
    "ld.global.u32 %r1, [%rd0+1.0];",
    "ld.global.u32 %r1, [w[1]];",
    "ld.global.u32 %r1, [w[%r2]+4];",
    "ld.global.u32 %r1, w[%r2-1];",
    "ld.global.u32 %r1, w[1+%r2];",
    "ld.global.u32 %r1, w[%f1];",
    "ld.global.u32 %r1, w[1.0];",
    "ld.global.u32 %r1, w[%r2][0];",
    "ld.global.u32 %r1, w[];",
    "ld.global.u32 %r1, w[%tid.x];",
    "atom.global.add.u32 %r1, w[1], 1;",
    "red.global.add.u32 w[%r2], 1;",
    "add.u64 %rd1, w[1], 1;",
    "mov.u64 %rd1, w-8;",
    "mov.u64 %rd1, 8+w;",
    "mov.u64 %rd1, -w;",
    "add.s32 %r1, -%r2, 1;",
    "ld. global.u32 %r1, [%rd0];",
    "ld./**/global.u32 %r1, [%rd0];",
    "mul .wide.u16 %r1, %h2, 3;",
    "shf/**/.l.wrap.b32 %r1, 0, 1, %r2;",
    "cp.async .wait_all;",
    "barrier .cluster.wait;",
    "mad //\n.lo.u32 %r1, %r2, 3, 1;",
    "ld.global.L1/**/::evict_last.u32 %r1, [%rd0];",
    "ld.global.L1:: evict_last.u32 %r1, [%rd0];",
    "add.u32 %r1, %r2, 1/**/2;",
    "mov.u32 %r1, %tid. x;",
    "mov.f32 %f1, %v./**/x;",
]
# What each leaves in the eight words of `out`. w holds 100, 101, ..; wide 1000, 1001, .. in 64 bits, half 7, 8, ...
FORMS = {
    "ld.global.u32 %r1, w[%r2]; OUT(0, %r1);": [102],
    "ld.global.u32 %r1, w[%r2+1]; OUT(0, %r1);": [103],
    "ld.global.u32 %r1, w[%r2+~0]; OUT(0, %r1);": [101],
    "ld.global.u32 %r1, w[1+1]; OUT(0, %r1);": [102],
    "ld.global.u32 %r1, w[%h2]; OUT(0, %r1);": [102],
    "ld.global.u32 %r1, w[%rd2]; OUT(0, %r1);": [102],
    "mov.s16 %sh, -1; ld.global.u32 %r1, w[%sh+3]; OUT(0, %r1);": [102],
    "mov.u64 %rd5, 0x100000002; ld.global.u32 %r1, w[%rd5]; OUT(0, %r1);": [102],
    "ld.u32 %r1, w[%r2]; OUT(0, %r1);": [102],
    "ld.volatile.global.u32 %r1, w[%r2]; OUT(0, %r1);": [102],
    "ld.global.v2.u32 {%r1, %r3}, w[%r2]; OUT(0, %r1); OUT(1, %r3);": [102, 103],
    "ld.global.u64 %rd5, wide[%r2]; cvt.u32.u64 %r1, %rd5; OUT(0, %r1);": [1002],
    "ld.global.u16 %r1, half[%r2]; OUT(0, %r1);": [9],
    "ld.global.u32 %r1, rows[%r2]; OUT(0, %r1);": [3],
    "ld.global.u32 %r1, vectors[5]; OUT(0, %r1);": [6],
    "ld.const.u32 %r1, c[%r2]; OUT(0, %r1);": [12],
    "st.local.b32 l[1], 5; st.local.b32 l[%r2], 6; ld.local.u32 %r1, [l+4]; OUT(0, %r1);": [5],
    "st.local.b32 [l+8], 6; ld.u32 %r3, l[%r2]; OUT(0, %r3);": [6],
    "st.shared.u32 s[%r2], 8; ld.shared.u32 %r1, [s+8]; ld.u32 %r3, s[%r2]; OUT(0, %r1); OUT(1, %r3);": [
        8,
        8,
    ],
    "ld.param.u32 %r1, ps[%r4]; ld.param.u32 %r3, ps[4]; OUT(0, %r1); OUT(1, %r3);": [31, 31],
    "mov.u64 %rd5, w[%r2]; ld.global.u32 %r1, [%rd5]; OUT(0, %r1);": [102],
    "mov.u64 %rd5, w[3]; ld.global.u32 %r1, [%rd5+(1<<2)]; OUT(0, %r1);": [104],
    "mov.u32 %r1, s[%r2]; mov.u32 %r3, s; sub.u32 %r1, %r1, %r3; OUT(0, %r1);": [8],
    "cvta.global.u64 %rd5, w[%r2]; ld.u32 %r1, [%rd5+4*2]; OUT(0, %r1);": [104],
    "setp.eq.u32 %p1, %r2, 2; @%p1 ld.global.u32 %r1, w[%r2]; @!%p1 mov.u32 %r1, 0; OUT(0, %r1);": [102],
    "add.s32 %r1, %r2, -(3+1); OUT(0, %r1); and.b32 %r1, %r2, ~0x2; OUT(1, %r1);": [2**32 - 2, 0],
    "setp.ne.u32 %p1, %r2, 1|2; selp.b32 %r1, 1<<2, ~0, %p1; OUT(0, %r1);": [4],
    "mov.pred %p1, !1; selp.b32 %r1, 1, 2, %p1; OUT(0, %r1);": [2],
    "setp.eq.u32 %p1, %r2, 3; mov.pred %p2, !%p1; selp.b32 %r1, 1, 2, %p2; OUT(0, %r1);": [1],
    "lop3.b32 %r1, 0xf0, 0xcc, 0xaa, (0xF0 | 0xCC) & 0xAA; OUT(0, %r1);": [0xA8],
    "setp.ne.u32 %p1, %r2, 2; lop3.or.b32 %r1|%p2, %r2, 4, 0, 0xc0, %p1; selp.b32 %r3, 1, 5, %p2; "
    "OUT(0, %r1); OUT(1, %r3);": [0, 5],
    "setp.eq.u32 %p1, %r2, 2; lop3.or.b32 _|%p1, %r2, 4, 0, 0xc0, %p1; selp.b32 %r3, 1, 5, %p1; OUT(0, %r3);": [
        1
    ],
    "setp.eq.u32 %p1, %r2, 2; lop3.and.b32 %r1|%p2, %r2, 4, 0, 0xfc, %p1; selp.b32 %r3, 1, 5, %p2; "
    "OUT(0, %r1); OUT(1, %r3);": [6, 1],
    "st.global.v2.u32 [%rd0], {1+1, ~0};": [2, 2**32 - 1],
    "mov.f32 %f1, 1.0+2.0; cvt.rzi.u32.f32 %r1, %f1; OUT(0, %r1);": [3],
    "call (%r1), twice, (%r2); OUT(0, %r1); call.uni (%r1), twice, (1+2); OUT(1, %r1);": [4, 6],
    "mov.v2.u32 {%r1, %r3}, {%r2, 7}; mov.v2.u32 {%r1, %r3}, {%r3, %r1}; OUT(0, %r1); OUT(1, %r3);": [7, 2],
    "mov.v4.f32 %v, {1.0, 2.0, 3.0, 4.0}; mov.v4.f32 {%f1, _, %f2, _}, %v; cvt.rzi.u32.f32 %r1, %f2; OUT(0, %r1);": [
        3
    ],
    "mov.v4.u32 {%r1, %r3, %r5, %r6}, %ntid; OUT(0, %r1); OUT(1, %r3); OUT(2, %r5);": [32, 1, 1],
    "mov.v2.b64 {%rd5, %rd6}, {%rd2, 9}; cvt.u32.u64 %r1, %rd6; OUT(0, %r1);": [9],
    "mov.v2.b16 {%h3, %h4}, {3, %h2}; cvt.u32.u16 %r1, %h4; OUT(0, %r1);": [2],
    "xor .b32 %r1, %r2, 3; OUT(0, %r1); mad.lo\n\t.u32 %r1, %r2, 3, 1; OUT(1, %r1);": [1, 7],
    "ld .global.u32 %r1, w[%r2]; OUT(0, %r1); call .uni (%r1), twice, (%r2); OUT(1, %r1);": [102, 4],
    "ld/*.x;*/.global.u32 %r1, w[%r2]; OUT(0, %r1); call//.y\n.uni/**/(%r1)/*a*/,/*b*/twice, (%r2); OUT(1, %r1);": [
        102,
        4,
    ],
    "st .global/* two\nlines */.v2.u32/*c*/[/*d*/%rd0/*e*/+/*f*/8/*g*/],/*h*/{/*i*/%r2/*j*/, // k\n%r4};": [
        0,
        0,
        2,
        4,
    ],
    "mul.wide/*a*/.u16\f%r1,%h2,3; OUT(0, %r1); shf.l // b\n.clamp\t.b32 %r1, 0, 1, %r2; OUT(1, %r1);": [
        6,
        4,
    ],
    "setp.ne.u32 %p1, %r2, 2; @/*a*/!/*b*/%p1/*c*/mov/*d*/.u32 %r1,-/*e*/1; OUT(0, %r1);": [2**32 - 1],
    "mov.v4.f32 %v, {1.0, 2.0, 3.0, 4.0}; cvt.rzi.u32.f32 %r1, %v /*a*/ .z; OUT(0, %r1);": [3],
    "mov.u32 %r1, %ntid//a\n.x; OUT(0, %r1); bra/*.b*/.uni L; mov.u32 %r2, 7; L/*c*/: OUT(1, %r2);": [32, 2],
}


def module(body: str, variables: str = "") -> str:
    body = re.sub(r"OUT\((\d), (%\w+)\)", r"st.global.u32 [%rd0+4*\1], \2", body)
    return f"""{HEAD}
.visible .global .align 8 .b32 w[8] = {{100, 101, 102, 103, 104, 105, 106, 107}};
.visible .global .align 8 .u64 wide[4] = {{1000, 1001, 1002, 1003}};
.visible .global .align 2 .u16 half[4] = {{7, 8, 9, 10}};
.visible .global .align 4 .u32 rows[2][4] = {{{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}};
.visible .global .align 16 .v4 .u32 vectors[2] = {{{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}};
.visible .const .align 4 .b32 c[4] = {{10, 11, 12, 13}};
{variables}
.func (.reg .b32 r) twice(.reg .b32 a) {{ add.u32 r, a, a; ret; }}
.visible .entry k(.param .u64 out, .param .align 8 .b8 ps[16])
{{
  .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .u16 %h<8>; .reg .s16 %sh; .reg .f32 %f<4>; .reg .f64 %fd<4>;
  .reg .pred %p<4>; .reg .v4 .f32 %v;
  .shared .align 4 .b32 s[8]; .local .align 4 .b32 l[8];
  ld.param.u64 %rd0, [out]; mov.u32 %r2, 2; mov.u32 %r4, 4; mov.u16 %h2, 2; mov.u64 %rd2, 2;
  {body}
  ret;
}}
"""


def accepted_by_ptxas(text: str, ptxas: Path, folder: Path) -> bool:
    (folder / "k.ptx").write_text(text)
    command = [ptxas, "-arch=sm_90", "-O0", "-o", folder / "k.cubin", folder / "k.ptx"]
    return subprocess.run(command, capture_output=True).returncode == 0


def initialised() -> str:
    """One variable for each expression."""
    integers = "\n".join(f".visible .global .align 8 .b64 i{n} = {e};" for n, e in enumerate(EXPRESSIONS))
    return integers + "\n".join(f"\n.visible .global .align 8 .f64 f{n} = {e};" for n, e in enumerate(REALS))


def test_expressions_have_the_values_that_ptxas_gives_them(cuda: api.Driver):
    loaded = cuda.module(module("", initialised()))

    def value(name: str) -> bytes:
        address = api.handle()
        cuda.do("cuModuleGetGlobal_v2", api.out(address), None, loaded, name)
        return cuda.read(address.value, 8)

    found = {e: struct.unpack("<Q", value(f"i{n}"))[0] for n, e in enumerate(EXPRESSIONS)}
    assert found == {e: expected % 2**64 for e, expected in EXPRESSIONS.items()}
    assert {e: struct.unpack("<d", value(f"f{n}"))[0] for n, e in enumerate(REALS)} == REALS


def test_an_expression_is_an_operand_as_well(cuda: api.Driver):
    lines = [f"mov.b64 %rd1, {e}; st.global.u64 [%rd0+8*{n}], %rd1;" for n, e in enumerate(EXPRESSIONS)]
    out = cuda.alloc(8 * len(lines))
    function = cuda.function(cuda.module(module("\n".join(lines))), "k")
    assert cuda.launch(function, (1,), (1,), (out, out, out)) == 0
    found = struct.unpack(f"<{len(lines)}Q", cuda.read(out, 8 * len(lines)))
    assert list(found) == [expected % 2**64 for expected in EXPRESSIONS.values()]


@pytest.mark.parametrize("body", FORMS)
def test_a_form_does_what_the_isa_says(cuda: api.Driver, body: str):
    out = cuda.alloc(32)
    parameter = ctypes.create_string_buffer(struct.pack("4I", 30, 31, 32, 33), 16)
    function = cuda.function(cuda.module(module(body)), "k")
    assert cuda.launch(function, (1,), (32,), (out, parameter)) == 0
    assert cuda.cuCtxSynchronize() == 0
    expected = FORMS[body]
    assert cuda.words(out, len(expected)) == expected


@pytest.mark.parametrize("body", REFUSED)
def test_a_form_that_ptxas_refuses_is_refused(cuda: api.Driver, body: str):
    assert cuda.cuModuleLoadData(api.out(api.handle()), module(body)) == api.INVALID_PTX


def test_ptxas_takes_and_refuses_the_same(programs: toolchain.Programs, tmp_path: Path):
    ptxas = programs.nvcc.program.with_name("ptxas")
    assert accepted_by_ptxas(
        module("\n".join(f"{{ {body} }}" for body in FORMS), initialised()), ptxas, tmp_path
    )
    assert [body for body in REFUSED if accepted_by_ptxas(module(body), ptxas, tmp_path)] == []


def test_an_index_beyond_the_array_reaches_where_ptxas_lets_it_reach(cuda: api.Driver):
    """Index and offset have 32 bits without a sign: w[-1] lies 4 GiB - 4 after w, not before it."""
    out = cuda.alloc(32)
    function = cuda.function(cuda.module(module("ld.global.u32 %r1, w[-1]; OUT(0, %r1);")), "k")
    cuda.launch(function, (1,), (1,), (out, out, out))
    assert cuda.cuCtxSynchronize() == api.ILLEGAL_ADDRESS


def test_expressions_of_strangers_end(cuda: api.Driver):
    refused = ["(" * 100000, "-" * 100000 + "1", "1?" * 100000, "w[" * 1000, "1+" * 100000]
    taken = ["1+" * 100000 + "1", "(.s64)0x8000000000000000/-1"]  # of the second, ptxas 13.0 dies
    for text in refused + taken:
        error = cuda.cuModuleLoadData(api.out(api.handle()), module(f"mov.u64 %rd1, {text};"))
        assert error == (0 if text in taken else api.INVALID_PTX)


def test_an_opcode_of_strangers_ends(cuda: api.Driver):
    """It has a million words. Were all the earlier ones copied for each of them, it would take minutes."""
    text = module("mov" + "/**/ .u32" * 1_000_000 + " %r1, 1;")
    assert cuda.cuModuleLoadData(api.out(api.handle()), text) == 0
