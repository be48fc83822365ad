"""Kernels with a race in global memory between blocks, each beside a twin that has none: see race_kernels.Pair.

In a body, `%t` is the thread, `%c` the block of 4, `%z` whether the thread is the first of its block, `%g` the address
of zeros, `%d` of the block's 64 words in them, and `%o` of the thread's own word there.
"""

from __future__ import annotations

from race_kernels import Pair

GRID, THREADS, BYTES = 4, 64, 1 << 16
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
_NEXT = "add.u32 %r8, %c, 1; and.b32 %r8, %r8, 3; mul.wide.u32 %rd2, %r8, 256; add.u64 %rd2, %rd2, %g;"
_LATER = "and.b32 %r9, %c, 3; setp.eq.u32 %p6, %r9, 3;"  # the block that runs last
_WRITE_ALL = "st.global.u32 [%o], %t;  // first"
_READ_ALL = "ld.global.u32 %r7, [%g+4096]; ld.global.u32 %r7, [%g+4352];  // then"
_SUM = """ld.global.u32 %r7, [%g+4096];  // then
  ld.global.u32 %r7, [%g+4228];  // then"""


def last_block(before: str = "", atomic: str = "atom.global.add.u32") -> str:
    """Every block writes its words; the last that counts itself reads those of the first."""
    return f"""
  {_WRITE_ALL}
  {before}
  @!%z bra END;
  {atomic} %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""


def _message(send: str, receive: str = "ld.acquire.gpu.global.u32 %r2, [%g];") -> str:
    """Block 0 writes a word and tells block 1 by a flag."""
    return f"""
  @!%z bra END;
  setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; mov.u32 %r1, 1;
  @%p1 bra SENDER;
  @!%p2 bra END;
RECEIVER:
  {receive}
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra RECEIVER;
  ld.global.u32 %r3, [%g+4096];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %r1;  // first
  {send}
END:
"""


def _grid_barrier(before: str, count: str, after: str) -> str:
    """Every block writes its words, waits for all others, and reads those of the next."""
    return f"""
  {_WRITE_ALL}
  {before}
  @!%z bra JOIN;
  {count}
WAIT:
  ld.volatile.global.u32 %r1, [%g];
  setp.lt.u32 %p1, %r1, 4;
  @%p1 bra WAIT;
  membar.gl;
JOIN:
  {after}
  {_NEXT}
  mul.wide.u32 %rd3, %t, 4; add.u64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd2+4096];  // then
"""


def _handed_on(tell: str, fence: str = "+++ membar.cta;") -> str:
    """Thread 33 of each block writes and counts its block; of the last one it tells thread 0, which reads."""
    return f"""
  .shared .align 4 .b32 flag;
  mov.u32 %r1, 0; @%z st.shared.u32 [flag], %r1;
  bar.sync 0;
  mov.u32 %r1, 1; setp.eq.u32 %p2, %t, 33; {_LATER}
  @%p2 bra SENDER;
  @!%z bra END;
  @!%p6 bra END;
RECEIVER:
  ld.acquire.cta.shared.u32 %r2, [flag];
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra RECEIVER;
  ld.global.u32 %r3, [%g+4228];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %t;  // first
  membar.gl;
  atom.global.add.u32 %r3, [%g], 1;
  {fence}
  @!%p6 bra END;
  {tell}
END:
"""


def _lock(take: str, give: str) -> str:
    return f"""
  @!%z bra END;
AGAIN:
  {take}
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ld.global.u32 %r2, [%g+64];  // then
  add.u32 %r2, %r2, 1;
  st.global.u32 [%g+64], %r2;  // first
  {give}
END:
"""


_CAS = "atom.global.cas.b32 %r1, [%g], 0, 1;"
_WW, _WR = ("write_after_write",), ("write_after_read",)
_ALL = ("read_after_write", "write_after_write", "write_after_read")

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
  {_NEXT}
  {_WRITE_ALL}
  --- ld.global.u32 %r2, [%rd2+4096];  // then
  +++ ld.global.u32 %r2, [%d];
""".replace("+++ ld.global.u32 %r2, [%d]", "+++ ld.global.u32 %r2, [%o]")),
    Pair("stencil_in_place", f"""
  {_NEXT}
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
    Pair("last_block", last_block("+++ membar.gl;\n  bar.sync 0;")),
    Pair("last_block_after_the_barrier", last_block("bar.sync 0;\n  +++ membar.gl;")),
    Pair("last_block_fence_of_block", last_block("--- membar.cta;\n  +++ membar.gl;\n  bar.sync 0;")),
    Pair("last_block_fence_sc", last_block("--- fence.sc.cta;\n  +++ fence.sc.gpu;\n  bar.sync 0;")),
    Pair("last_block_barrier", last_block("+++ bar.sync 0;\n  membar.gl;")),
    Pair("last_block_fence_too_early", f"""
  --- membar.gl;
  {_WRITE_ALL}
  +++ membar.gl;
  bar.sync 0;
  @!%z bra END;
  atom.global.add.u32 %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""),
    Pair("last_block_releasing", f"""
  {_WRITE_ALL}
  bar.sync 0;
  @!%z bra END;
  --- atom.relaxed.gpu.global.add.u32 %r1, [%g], 1;
  +++ atom.acq_rel.gpu.global.add.u32 %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""),
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
    Pair("release", _message("""--- st.relaxed.gpu.global.u32 [%g], %r1;
  +++ st.release.gpu.global.u32 [%g], %r1;""")),
    Pair("release_of_block", _message("""--- st.release.cta.global.u32 [%g], %r1;
  +++ st.release.gpu.global.u32 [%g], %r1;""")),
    Pair("acquire_of_block", _message("st.release.gpu.global.u32 [%g], %r1;", """
  --- ld.acquire.cta.global.u32 %r2, [%g];
  +++ ld.acquire.gpu.global.u32 %r2, [%g];""")),
    Pair("volatile_flag", _message("+++ membar.gl;\n  st.volatile.global.u32 [%g], %r1;",
                                   "ld.volatile.global.u32 %r2, [%g]; membar.gl;")),
    Pair("exchanged_flag", _message("+++ fence.acq_rel.gpu;\n  atom.global.exch.b32 %r5, [%g], %r1;",
                                    "atom.global.or.b32 %r2, [%g], 0; fence.acq_rel.gpu;")),
    Pair("fence_after_the_flag", _message("""--- st.volatile.global.u32 [%g], %r1;
  membar.gl;
  +++ st.volatile.global.u32 [%g], %r1;""")),
    Pair("weak_flag", _message("""membar.gl;
  --- st.global.u32 [%g], %r1;  // first
  +++ st.relaxed.gpu.global.u32 [%g], %r1;""", """
  ld.acquire.gpu.global.u32 %r2, [%g];  // then""")),
    Pair("weak_poll", _message("membar.gl;\n  st.relaxed.gpu.global.u32 [%g], %r1;  // first", """
  --- ld.global.u32 %r2, [%g];  // then
  +++ ld.relaxed.gpu.global.u32 %r2, [%g];""")),
    Pair("system_fence", _message("--- membar.cta;\n  +++ membar.sys;\n  st.volatile.global.u32 [%g], %r1;")),
    Pair("message_of_a_warp", """
  setp.ge.u32 %p4, %t, 32;
  @%p4 bra END;
  setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; mov.u32 %r1, 1;
  @%p1 bra SENDER;
  @!%p2 bra END;
  @!%z bra READ;
RECEIVER:
  ld.acquire.gpu.global.u32 %r2, [%g];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra RECEIVER;
READ:
  bar.warp.sync -1;
  ld.global.u32 %r3, [%o+-256];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %r1;  // first
  +++ bar.warp.sync -1;
  @%z st.release.gpu.global.u32 [%g], %r1;
END:
"""),
    Pair("lock", _lock(_CAS, "+++ membar.gl;\n  atom.global.exch.b32 %r1, [%g], 0;")),
    Pair("lock_given_by_volatile", _lock(_CAS, "+++ membar.gl;\n  mov.u32 %r3, 0; st.volatile.global.u32 [%g], %r3;")),
    Pair("lock_of_block", _lock("""--- atom.acquire.cta.global.cas.b32 %r1, [%g], 0, 1;
  +++ atom.acquire.gpu.global.cas.b32 %r1, [%g], 0, 1;""", "atom.release.gpu.global.exch.b32 %r1, [%g], 0;")),
    Pair("lock_released", _lock("atom.acquire.gpu.global.cas.b32 %r1, [%g], 0, 1;",
                                """--- atom.relaxed.gpu.global.exch.b32 %r1, [%g], 0;
  +++ atom.release.gpu.global.exch.b32 %r1, [%g], 0;""")),
    Pair("look_back", """
  @!%z bra END;
  mul.wide.u32 %rd2, %c, 4; add.u64 %rd2, %rd2, %g; mov.u32 %r1, 1;
  setp.eq.u32 %p1, %c, 0;
  @%p1 bra TELL;
BEFORE:
  ld.volatile.global.u32 %r2, [%rd2+-4];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra BEFORE;
  membar.gl;
  ld.global.u32 %r3, [%d+-256];  // then
TELL:
  add.u32 %r3, %r3, 1;
  st.global.u32 [%d], %r3;  // first
  +++ membar.gl;
  st.volatile.global.u32 [%rd2], %r1;
END:
"""),
    Pair("look_back_packed", """
  @!%z bra END;
  mov.u64 %rd5, 0x100000001; setp.eq.u32 %p1, %c, 0;
  @%p1 bra TELL;
BEFORE:
  ld.relaxed.gpu.global.u64 %rd4, [%d+-256];  // then
  setp.eq.u64 %p2, %rd4, 0;
  @%p2 bra BEFORE;
TELL:
  --- st.global.u64 [%d], %rd5;  // first
  +++ st.relaxed.gpu.global.u64 [%d], %rd5;
END:
"""),
    Pair("chain_of_blocks", """
  @!%z bra END;
  mov.u32 %r1, 1; setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; setp.eq.u32 %p3, %c, 2;
  @%p1 bra ONE;
  @%p2 bra TWO;
  @!%p3 bra END;
THREE:
  ld.acquire.gpu.global.u32 %r2, [%g+4];
  setp.eq.u32 %p4, %r2, 0;
  @%p4 bra THREE;
  ld.global.u32 %r3, [%g+4096];  // then
  bra END;
ONE:
  st.global.u32 [%d], %r1;  // first
  st.release.gpu.global.u32 [%g], %r1;
  bra END;
TWO:
  ld.acquire.gpu.global.u32 %r2, [%g];
  setp.eq.u32 %p4, %r2, 0;
  @%p4 bra TWO;
  --- st.relaxed.gpu.global.u32 [%g+4], %r1;
  +++ st.release.gpu.global.u32 [%g+4], %r1;
END:
"""),
    Pair("handed_on_by_a_flag_of_the_block", _handed_on("st.volatile.shared.u32 [flag], %r1;")),
    Pair("handed_on_by_a_release_of_the_block", _handed_on("""
  --- st.relaxed.cta.shared.u32 [flag], %r1;
  +++ st.release.cta.shared.u32 [flag], %r1;""", fence="")),
    Pair("grid_barrier", _grid_barrier("bar.sync 0;", "+++ membar.gl;\n  red.global.add.u32 [%g], 1;", "bar.sync 0;")),
    Pair("grid_barrier_of_all_threads", _grid_barrier("+++ bar.sync 0;", "membar.gl; red.global.add.u32 [%g], 1;",
                                                      "bar.sync 0;")),
    Pair("grid_barrier_not_waited_for", _grid_barrier("membar.gl; bar.sync 0;", "red.global.add.u32 [%g], 1;",
                                                      "+++ bar.sync 0;")),
    Pair("grid_barrier_releasing", _grid_barrier("bar.sync 0;", """--- red.release.cta.global.add.u32 [%g], 1;
  +++ red.release.gpu.global.add.u32 [%g], 1;""", "bar.sync 0;"), _ALL),
    Pair("grid_barrier_missing", f"""
  {_NEXT}
  {_WRITE_ALL}
  bar.sync 0;
  @!%z bra JOIN;
  +++ membar.gl;
  +++ red.global.add.u32 [%g], 1;
WAIT:
  +++ ld.volatile.global.u32 %r1, [%g]; setp.lt.u32 %p1, %r1, 4;
  +++ @%p1 bra WAIT;
JOIN:
  bar.sync 0;
  ld.global.u32 %r2, [%rd2+4096];  // then
"""),
    Pair("barrier_of_too_few", f"""
  {_WRITE_ALL}
  bar.sync 0;
  @!%z bra JOIN;
  membar.gl;
  red.global.add.u32 [%g], 1;
WAIT:
  ld.volatile.global.u32 %r1, [%g];
  --- setp.lt.u32 %p1, %r1, 1;
  +++ setp.lt.u32 %p1, %r1, 4;
  @%p1 bra WAIT;
JOIN:
  bar.sync 0;
  {_NEXT}
  ld.global.u32 %r2, [%rd2+4096];  // then
"""),
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
  {_NEXT}
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
