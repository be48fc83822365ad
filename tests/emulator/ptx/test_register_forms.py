"""Vector registers, and parameters of functions in registers: what older PTX and written PTX have."""

from __future__ import annotations

import struct

import driver_api
from small_kernels import run, words

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(functions: str, body: str, registers: str = "") -> str:
    """A kernel `k` of one pointer: %b is the thread's number, %o its place in memory, 16 bytes each."""
    return (
        HEAD
        + functions
        + """
.visible .entry k(.param .u64 p)
{
  .reg .b32 %b; .reg .b64 %o, %w; .reg .pred %q;
"""
        + registers
        + """
  mov.u32 %b, %tid.x;
  ld.param.u64 %o, [p];
  mul.wide.u32 %w, %b, 16;
  add.u64 %o, %o, %w;
"""
        + body
        + "\n  ret;\n}\n"
    )


def outputs(cuda: driver_api.Driver, ptx: str, start: list[int], threads: int = 40) -> list[int]:
    out = words(cuda, start)
    assert run(cuda, ptx, [out], block=threads) == 0
    return list(cuda.words(out, len(start)))


def test_vector_registers_are_loaded_stored_and_taken_apart(cuda: driver_api.Driver) -> None:
    ptx = kernel(
        "",
        """
  ld.global.v4.u32 v, [%o];
  add.u32 v.x, v.x, v.w;
  mov.u32 v.b, v.g;
  mov.u32 pair1.x, v.y;
  mov.u32 pair1.y, %b;
  mov.b64 %w, pair1;
  mov.b64 {v.y, v.a}, %w;
  st.global.v4.u32 [%o], v;
""",
        "  .reg .v4 .u32 v; .reg .v2 .b32 pair<3>;",
    )
    start = [7 * i + 3 for i in range(4 * 40)]
    got = outputs(cuda, ptx, start)
    for t in range(40):
        x, y, _, w = start[4 * t : 4 * t + 4]
        assert got[4 * t : 4 * t + 4] == [x + w, y, y, t]


FUNCTIONS = """
.func (.reg .u32 sum, .reg .u32 difference) both (.reg .u32 a, .reg .u32 b)
{
  .reg .pred p;
  add.u32 sum, a, b;
  setp.lt.u32 p, a, b;
  @p bra less;
  sub.u32 difference, a, b;
  ret;
less:
  sub.u32 difference, b, a;
  add.u32 a, a, 1000;
}
.func (.param .u32 r) doubled (.param .u32 a)
{
  .reg .u32 x;
  ld.param.u32 x, [a];
  shl.b32 x, x, 1;
  st.param.u32 [r], x;
  ret;
}
.func (.reg .u32 r) factorial (.reg .u32 n)
{
  .reg .pred p; .reg .u32 m;
  mov.u32 r, 1;
  setp.le.u32 p, n, 1;
  @p ret;
  sub.u32 m, n, 1;
  call (r), factorial, (m);
  mul.lo.u32 r, r, n;
  ret;
}
.func (.reg .f64 r) half (.reg .f64 x)
{
  mul.f64 r, x, 0d3FE0000000000000;
  ret;
}
"""


def test_a_register_and_a_range_may_have_one_name(cuda: driver_api.Driver) -> None:
    """`a<2>` declares a0 and a1. Triton writes both in one scope; ptxas takes it."""
    ptx = kernel(
        "",
        "  mov.u32 a, 5; mov.u32 a0, 7; mad.lo.u32 a1, a0, 10, a; st.global.v2.u32 [%o], {a, a1};",
        "  .reg .b32 a; .reg .b32 a<2>;",
    )
    assert outputs(cuda, ptx, [0] * 4, threads=1) == [5, 75, 0, 0]


def test_functions_take_and_give_registers(cuda: driver_api.Driver) -> None:
    ptx = kernel(
        FUNCTIONS,
        """
  call (s, d), both, (%b, 17);
  call (t), doubled, (s);
  and.b32 u, %b, 7;
  setp.lt.u32 %q, %b, 20;
  @%q call (u), factorial, (u);
  call (_, s), both, (1, %b);
  st.global.v4.u32 [%o], {d, t, u, s};
""",
        "  .reg .u32 s, d, t, u;",
    )
    got = outputs(cuda, ptx, [0] * (4 * 40))
    for b in range(40):
        factorial = [1, 1, 2, 6, 24, 120, 720, 5040][b & 7] if b < 20 else b & 7
        assert got[4 * b : 4 * b + 4] == [abs(b - 17), 2 * (b + 17), factorial, abs(1 - b)]


def test_a_function_pointer_is_called_with_registers(cuda: driver_api.Driver) -> None:
    ptx = kernel(
        FUNCTIONS,
        """
  mov.u64 %w, doubled;
prototype: .callprototype (.param .u32 r) _ (.param .u32 a);
  call (s), %w, (%b), prototype;
  cvt.rn.f64.u32 x, s;
  call (x), half, (x);
  call (y), half, (0d4010000000000000);
  add.f64 x, x, y;
  st.global.u32 [%o], s;
  st.global.f64 [%o+8], x;
""",
        "  .reg .u32 s; .reg .f64 x, y;",
    )
    got = outputs(cuda, ptx, [0] * (4 * 40))
    for b in range(40):
        assert got[4 * b] == 2 * b
        assert struct.unpack("d", struct.pack("2I", *got[4 * b + 2 : 4 * b + 4]))[0] == b + 2
