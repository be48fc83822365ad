"""Kernels with a race in global memory between blocks, each beside a twin that has none: see race_kernels.Pair. Those
that have to do with messages, locks and barriers of a grid are in block_order_kernels.

In a body, `%t` is the thread, `%c` the block of 4, `%z` whether the thread is the first of its block, `%g` the address
of zeros, `%d` of the block's 64 words in them, and `%o` of the thread's own word there.
"""

from __future__ import annotations

from race_kernels import Pair

GRID, THREADS = 4, 64
FRAME = """.visible .entry {name}(.param .u64 data)
{{
  .reg .pred %p<8>, %z; .reg .b16 %h<4>; .reg .b32 %r<32>, %t, %c; .reg .b64 %rd<16>, %g, %d, %o; .reg .b128 %q<2>;
  ld.param.u64 %g, [data]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; setp.eq.u32 %z, %t, 0;
  mul.wide.u32 %d, %c, 256; add.u64 %d, %d, %g; add.u64 %d, %d, 4096;
  mul.wide.u32 %o, %t, 4; add.u64 %o, %o, %d;
{body}
  ret;
}}
"""
NEXT = "add.u32 %r8, %c, 1; and.b32 %r8, %r8, 3; mul.wide.u32 %rd2, %r8, 256; add.u64 %rd2, %rd2, %g;"
WRITE_ALL = "st.global.u32 [%o], %t;  // first"
_WW, _WR = ("write_after_write",), ("write_after_read",)

PAIRS = [
    Pair("histogram", """
  --- ld.global.u32 %r1, [%g];  // first
  --- add.u32 %r1, %r1, 1;
  --- st.global.u32 [%g], %r1;  // then
  +++ red.global.add.u32 [%g], 1;
"""),
    Pair("maximum", """
  --- ld.global.u32 %r1, [%g];  // first
  --- max.u32 %r1, %r1, %c;
  --- st.global.u32 [%g], %r1;  // then
  +++ atom.global.max.u32 %r1, [%g], %c;
"""),
    Pair("one_result", """
  mad.lo.u32 %r1, %c, 64, %t;
  --- @%z st.global.u32 [%g], %r1;  // first then
  +++ @%z st.global.u32 [%d], %r1;
""", _WW),
    Pair("next_block", f"""
  {NEXT}
  {WRITE_ALL}
  --- ld.global.u32 %r2, [%rd2+4096];  // then
  +++ ld.global.u32 %r2, [%d];
""".replace("+++ ld.global.u32 %r2, [%d]", "+++ ld.global.u32 %r2, [%o]")),
    Pair("stencil_in_place", f"""
  {NEXT}
  ld.global.u32 %r2, [%rd2+4096];  // first
  ld.global.u32 %r3, [%o];
  add.u32 %r2, %r2, %r3;
  --- st.global.u32 [%o], %r2;  // then
  +++ st.global.u32 [%o+8192], %r2;
""", _WR),
    Pair("wrong_stride", """
  --- mul.wide.u32 %rd2, %c, 252;
  +++ mul.wide.u32 %rd2, %c, 256;
  mul.wide.u32 %rd3, %t, 4; add.u64 %rd2, %rd2, %rd3; add.u64 %rd2, %rd2, %g; add.u32 %r1, %t, %c;
  add.u32 %r1, %r1, %c;
  st.global.u32 [%rd2], %r1;  // first then
""", _WW),
    Pair("counter_of_block", """
  @!%z bra END;
  --- atom.cta.global.add.u32 %r1, [%g], 1;  // first then
  +++ atom.gpu.global.add.u32 %r1, [%g], 1;
END:
""", _WW),
    Pair("reduction_of_block", """
  --- red.relaxed.cta.global.add.u32 [%g], %t;  // first then
  +++ red.relaxed.sys.global.add.u32 [%g], %t;
""", _WW),
    Pair("mixed_scopes", """
  setp.eq.u32 %p1, %c, 0;
  --- @%p1 red.cta.global.add.u32 [%g], %t;  // first
  +++ @%p1 red.gpu.global.add.u32 [%g], %t;
  @!%p1 red.gpu.global.add.u32 [%g], %t;  // then
""", _WW),
    Pair("claimed_once", """
  @!%z bra END;
  --- ld.relaxed.gpu.global.u32 %r1, [%g]; st.relaxed.gpu.global.u32 [%g+4], %c;
  +++ atom.global.cas.b32 %r1, [%g], 0, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;
  st.global.u32 [%g+64], %c;  // first then
END:
""", _WW),
    Pair("queue", """
  @!%z bra END;
  --- ld.relaxed.gpu.global.u32 %r1, [%g]; st.relaxed.gpu.global.u32 [%g+4], %r1;
  +++ atom.global.add.u32 %r1, [%g], 1;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %g;
  st.global.u32 [%rd2+64], %c;  // first then
END:
""", _WW),
    Pair("bytes", """
  --- shr.u32 %r1, %c, 1; add.u32 %r2, %c, 5;
  +++ mov.u32 %r1, %c; mov.u32 %r2, 5;
  cvt.u64.u32 %rd2, %r1; add.u64 %rd2, %rd2, %g;
  @%z st.global.u8 [%rd2], %r2;  // first then
""", _WW),
    Pair("vectors", """
  --- mul.wide.u32 %rd2, %c, 8; and.b64 %rd2, %rd2, -16;
  +++ mul.wide.u32 %rd2, %c, 16;
  add.u64 %rd2, %rd2, %g;
  @%z st.global.v4.u32 [%rd2], {%c, %c, %c, %c};  // first then
""", _WW),
    Pair("different_values", """
  mov.u32 %r1, 7;
  --- mov.u32 %r1, %c;
  @%z st.global.u32 [%g], %r1;  // first then
""", _WW),
    Pair("generic", f"""
  {NEXT}
  cvta.global.u64 %rd4, %o; cvta.global.u64 %rd5, %rd2;
  st.u32 [%rd4], %t;  // first
  --- ld.u32 %r2, [%rd5+4096];  // then
  +++ ld.u32 %r2, [%rd4];
"""),
    Pair("counted_and_read", """
  red.global.add.u32 [%g], 1;  // first
  --- ld.global.u32 %r1, [%g];  // then
  +++ ld.relaxed.gpu.global.u32 %r1, [%g];
"""),
    Pair("guess_for_cas", """
  @!%z bra END;
  ld.global.u32 %r1, [%g];  // then
AGAIN:
  mov.u32 %r3, %r1;
  add.u32 %r2, %r3, 1;
  --- st.global.u32 [%g], %r2;  // first
  +++ atom.global.cas.b32 %r1, [%g], %r3, %r2;
  setp.ne.u32 %p1, %r1, %r3;
  @%p1 bra AGAIN;
END:
"""),
    Pair("wide_atomic", """
  @!%z bra END;
  mov.u64 %rd1, 7; mov.b128 %q0, {%rd1, %rd1};
  atom.global.exch.b128 %q1, [%g], %q0;  // first
  --- ld.global.u32 %r1, [%g];  // then
  +++ ld.relaxed.gpu.global.u32 %r1, [%g];
END:
"""),
]  # fmt: skip
