"""Kernels with a race in global memory between threads of one block, each beside a twin that has none: see
race_kernels.Pair; the frame is that of global_race_kernels.

Threads of different warps take part, but for those with one_warp.
"""

from __future__ import annotations

from race_kernels import Pair

OTHER = "xor.b32 %r8, %t, 32; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd2, %d;"  # of the other warp
NEIGHBOUR = "xor.b32 %r8, %t, 1; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd2, %d;"
WRITE = "st.global.u32 [%o], %t;  // first"
READ = "ld.global.u32 %r2, [%rd2];"
_WW, _WR = ("write_after_write",), ("write_after_read",)

PAIRS = [
    Pair(
        "exchange",
        f"""
  {OTHER}
  {WRITE}
  +++ bar.sync 0;
  {READ}  // then
""",
    ),
    Pair(
        "exchange_in_warp",
        f"""
  {NEIGHBOUR}
  {WRITE}
  +++ bar.warp.sync 0xffffffff;
  {READ}  // then
""",
        one_warp=True,
    ),
    Pair(
        "fence_is_no_barrier",
        f"""
  {OTHER}
  {WRITE}
  --- membar.gl;
  +++ bar.sync 0;
  {READ}  // then
""",
    ),
    Pair(
        "barrier_of_half",
        f"""
  {OTHER}
  {WRITE}
  setp.lt.u32 %p1, %t, 32;
  --- @%p1 bar.sync 1, 32;
  +++ bar.sync 1, 64;
  {READ}  // then
""",
    ),
    Pair(
        "read_then_written",
        f"""
  {OTHER}
  {READ}  // first
  +++ bar.sync 0;
  st.global.u32 [%o], %r2;  // then
""",
        _WR,
    ),
    Pair(
        "in_place_stencil",
        """
  add.u32 %r8, %t, 1; and.b32 %r8, %r8, 63; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd2, %d;
  ld.global.u32 %r1, [%o];
  ld.global.u32 %r2, [%rd2];  // first
  add.u32 %r1, %r1, %r2;
  +++ bar.sync 0;
  st.global.u32 [%o], %r1;  // then
""",
        _WR,
        one_warp=True,
    ),
    Pair(
        "neighbour_first",
        """
  add.u32 %r8, %t, 32; and.b32 %r8, %r8, 63; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd2, %d;
  ld.global.u32 %r2, [%rd2];  // first
  ld.global.u32 %r1, [%o];
  add.u32 %r1, %r1, %r2;
  +++ bar.sync 0;
  st.global.u32 [%o], %r1;  // then
""",
        _WR,
    ),
    Pair(
        "one_word",
        """
  --- st.global.u32 [%d], %t;  // first then
  +++ @%z st.global.u32 [%d], %t;
""",
        _WW,
        one_warp=True,
    ),
    Pair(
        "two_warps_one_word",
        """
  and.b32 %r1, %t, 31; setp.eq.u32 %p1, %r1, 0;
  --- @%p1 st.global.u32 [%d], %t;  // first then
  +++ @%p1 atom.global.exch.b32 %r2, [%d], %t;
""",
        _WW,
    ),
    Pair(
        "histogram_of_block",
        """
  and.b32 %r1, %t, 32; mul.wide.u32 %rd2, %r1, 0; add.u64 %rd2, %rd2, %d; and.b32 %r3, %t, 31;
  setp.eq.u32 %p1, %r3, 0;
  --- @%p1 ld.global.u32 %r2, [%rd2];  // then
  --- add.u32 %r2, %r2, 1;
  --- @%p1 st.global.u32 [%rd2], %r2;  // first
  +++ @%p1 red.cta.global.add.u32 [%rd2], 1;
""",
    ),
    Pair(
        "counter_read_at_once",
        """
  setp.eq.u32 %p1, %t, 32;
  --- @%z st.global.u32 [%d], 7;  // first
  +++ @%z st.volatile.global.u32 [%d], 7;
  --- @%p1 ld.global.u32 %r1, [%d];  // then
  +++ @%p1 ld.volatile.global.u32 %r1, [%d];
""",
    ),
    Pair(
        "flag_without_fence",
        """
  setp.eq.u32 %p1, %t, 32;
  @%z st.global.u32 [%d+4], 7;  // first
  --- @%z st.volatile.global.u32 [%d], 1;
  +++ @%z st.release.cta.global.u32 [%d], 1;
  @!%p1 bra END;
AGAIN:
  ld.acquire.cta.global.u32 %r1, [%d];
  setp.eq.u32 %p2, %r1, 0;
  @%p2 bra AGAIN;
  ld.global.u32 %r2, [%d+4];  // then
END:
""",
    ),
    Pair(
        "halves_of_a_word",
        """
  add.u64 %rd2, %o, 2; cvt.u16.u32 %h1, %t; xor.b32 %r8, %t, 32; mul.wide.u32 %rd3, %r8, 4; add.u64 %rd3, %rd3, %d;
  st.global.u16 [%rd2], %h1;  // first
  --- ld.global.u32 %r2, [%rd3];  // then
  +++ ld.global.u16 %h2, [%rd3];
""",
    ),
    Pair(
        "vectors_overlap",
        """
  setp.eq.u32 %p1, %t, 32; add.u64 %rd2, %d, 1024;
  @%z st.global.v4.u32 [%rd2], {%t, %t, %t, %t};  // first
  --- @%p1 st.global.v2.u32 [%rd2+8], {%t, %t};  // then
  +++ @%p1 st.global.v2.u32 [%rd2+16], {%t, %t};
""",
        _WW,
    ),
    Pair(
        "barrier_too_early",
        f"""
  {OTHER}
  --- bar.sync 0;
  {WRITE}
  +++ bar.sync 0;
  {READ}  // then
""",
    ),
    Pair(
        "second_round",
        f"""
  {OTHER}
  mov.u32 %r3, 0;
AGAIN:
  st.global.u32 [%o], %r3;  // then
  bar.sync 0;
  {READ}  // first
  +++ bar.sync 0;
  add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3;
  @%p1 bra AGAIN;
""",
        _WR,
    ),
    Pair(
        "generic_address",
        f"""
  {OTHER}
  cvta.global.u64 %rd3, %o; cvta.global.u64 %rd4, %rd2;
  st.u32 [%rd3], %t;  // first
  +++ barrier.sync 0;
  ld.u32 %r2, [%rd4];  // then
""",
    ),
    Pair(  # the last of the lanes that count by one instruction reads what those before it have written
        "last_lane_that_counts",
        """
  st.global.u32 [%o], %t;  // first
  +++ membar.gl;
  atom.global.add.u32 %r1, [%d+1024], 1;
  setp.eq.u32 %p1, %r1, 63;
  @%p1 ld.global.u32 %r2, [%o+-4];  // then
""",
        one_warp=True,
    ),
]
