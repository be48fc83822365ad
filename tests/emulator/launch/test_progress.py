"""Threads that wait for threads: each kernel hangs, fails or answers wrongly when forward progress is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
import numpy as np
import pytest
from small_kernels import complaint, module, run, words

if TYPE_CHECKING:
    from conftest import Fresh


def test_lanes_of_a_warp_pass_a_lock_on_though_the_owner_waits_to_meet_the_others(
    cuda: driver_api.Driver,
) -> None:
    ptx = module(
        """
        L: atom.global.cas.b32 %r1, [%rd0], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra L;
        ld.volatile.global.u32 %r2, [%rd0+4];
        mad.lo.u32 %r2, %r2, 3, 1;
        st.volatile.global.u32 [%rd0+4], %r2;
        membar.gl;
        atom.global.exch.b32 %r3, [%rd0], 0;
        """,
        parameters=1,
    )
    out = words(cuda, [0, 0])
    assert run(cuda, ptx, [out], grid=2, block=96) == 0
    value = 0
    for _ in range(192):
        value = (3 * value + 1) & 0xFFFFFFFF
    assert cuda.words(out, 2) == [0, value]


def test_lanes_meet_after_an_if_wherever_their_turn_ends(cuda: driver_api.Driver) -> None:
    """No __syncwarp: a GPU's lanes meet after the if too, and programs such as OpenMM's neighbour lists rely on it."""
    ptx = module(
        """
        mov.u32 %r1, 0;
        mov.u32 %r2, 0;
        L: and.b32 %r3, %r1, 31;
        setp.ne.u32 %p1, %r3, %t;
        @%p1 bra MEET;
        atom.global.add.u32 %r4, [%rd0], 1;
        mul.lo.u32 %r4, %r4, 3;
        st.volatile.shared.u32 [turn], %r4;
        MEET: ld.volatile.shared.u32 %r5, [turn];
        mul.lo.u32 %r6, %r1, 3;
        setp.ne.u32 %p2, %r5, %r6;
        @%p2 add.u32 %r2, %r2, 1;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p3, %r1, 4000;
        @%p3 bra L;
        atom.global.add.u32 %r4, [%rd0+4], %r2;
        """,
        shared=".shared .align 4 .u32 turn;",
        parameters=1,
    )
    out = words(cuda, [0, 0])
    assert run(cuda, ptx, [out], block=32) == 0
    assert cuda.words(out, 2) == [4000, 0]


def test_a_lock_is_passed_on_though_those_who_want_it_part_in_each_turn(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r5, %t;
        L: add.u32 %r5, %r5, 1;
        and.b32 %r6, %r5, 1;
        setp.eq.u32 %p2, %r6, 0;
        mov.u32 %r1, 1;
        @%p2 bra NEXT;
        atom.global.cas.b32 %r1, [%rd0], 0, 1;
        NEXT: setp.ne.u32 %p1, %r1, 0;
        @%p1 bra L;
        ld.volatile.global.u32 %r2, [%rd0+4];
        add.u32 %r2, %r2, 1;
        st.volatile.global.u32 [%rd0+4], %r2;
        membar.gl;
        atom.global.exch.b32 %r3, [%rd0], 0;
        """,
        parameters=1,
    )
    out = words(cuda, [0, 0])
    assert run(cuda, ptx, [out], grid=2, block=96) == 0
    assert cuda.words(out, 2) == [0, 192]


def test_a_ticket_lock_serves_lanes_in_order(cuda: driver_api.Driver) -> None:
    """The lane that is served may be any: all others spin in the same loop."""
    ptx = module(
        """
        xor.b32 %r1, %t, 21;
        L: ld.volatile.shared.u32 %r2, [turn];
        setp.ne.u32 %p1, %r1, %r2;
        @%p1 bra L;
        ld.volatile.global.u32 %r3, [%rd0];
        mad.lo.u32 %r3, %r3, 5, %t;
        st.volatile.global.u32 [%rd0], %r3;
        add.u32 %r2, %r2, 1;
        st.volatile.shared.u32 [turn], %r2;
        """,
        shared=".shared .align 4 .u32 turn;",
        parameters=1,
    )
    out = words(cuda, [0])
    assert run(cuda, ptx, [out], block=64) == 0
    value = 0
    for turn in range(64):
        value = (5 * value + (turn ^ 21)) & 0xFFFFFFFF
    assert cuda.words(out, 1) == [value]


def test_a_warp_spins_on_a_flag_that_a_later_warp_sets(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        setp.ge.u32 %p1, %t, 64;
        @%p1 bra SET;
        L: ld.acquire.cta.shared.u32 %r1, [flag];
        setp.ne.u32 %p2, %r1, 2;
        @%p2 bra L;
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd5, %rd0, %rd5;
        st.global.u32 [%rd5], 9;
        ret;
        SET: atom.shared.add.u32 %r1, [flag], 0;
        and.b32 %r2, %t, 31;
        setp.eq.u32 %p3, %r2, 0;
        @%p3 red.release.cta.shared.add.u32 [flag], 1;
        """,
        shared=".shared .align 4 .u32 flag;",
        parameters=1,
    )
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [out], block=128) == 0
    assert cuda.words(out, 64) == [9] * 64


def test_blocks_look_back_at_the_sums_of_those_before_them(cuda: driver_api.Driver) -> None:
    """Each block takes its place from a counter that runs backwards, so most wait for blocks that begin later."""
    blocks = 60
    ptx = module(
        f"""
        setp.ne.u32 %p1, %t, 0;
        @%p1 ret;
        sub.u32 %r1, {blocks - 1}, %b;
        mul.wide.u32 %rd5, %r1, 4;
        add.u64 %rd6, %rd0, %rd5;
        mov.u32 %r2, 0;
        setp.eq.u32 %p2, %r1, 0;
        @%p2 bra FIRST;
        L: ld.acquire.gpu.global.u32 %r2, [%rd6+-4];
        setp.eq.u32 %p3, %r2, 0;
        @%p3 bra L;
        FIRST: add.u32 %r2, %r2, %r1;
        add.u32 %r2, %r2, 1;
        st.release.gpu.global.u32 [%rd6], %r2;
        """,
        parameters=1,
    )
    out = words(cuda, [0] * blocks)
    assert run(cuda, ptx, [out], grid=blocks, block=64) == 0
    assert cuda.words(out, blocks) == list(np.cumsum(np.arange(1, blocks + 1)))


def test_barriers_with_ids_and_counts_hand_work_from_warp_to_warp(cuda: driver_api.Driver) -> None:
    """The producer arrives at `full` and waits at `empty`; the consumer the other way round."""
    ptx = module(
        """
        and.b32 %r1, %t, 31;
        mov.u32 %r2, 0;
        mov.u32 %r3, 0;
        mov.u32 %r4, slot;
        mad.lo.u32 %r4, %r1, 4, %r4;
        setp.ge.u32 %p1, %t, 32;
        @%p1 bra CONSUME;
        P: barrier.cta.sync.aligned 3, 64;
        mad.lo.u32 %r5, %r2, 10, %r1;
        st.shared.u32 [%r4], %r5;
        bar.arrive 5, 64;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 9;
        @%p2 bra P;
        ret;
        CONSUME: bar.arrive 3, 64;
        bar.sync 5, 64;
        ld.shared.u32 %r5, [%r4];
        mad.lo.u32 %r3, %r3, 3, %r5;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 9;
        @%p2 bra CONSUME;
        mul.wide.u32 %rd5, %r1, 4;
        add.u64 %rd5, %rd0, %rd5;
        st.global.u32 [%rd5], %r3;
        """,
        shared=".shared .align 4 .b8 slot[128];",
        parameters=1,
    )
    out = words(cuda, [0] * 32)
    assert run(cuda, ptx, [out], block=64) == 0
    expected = np.zeros(32, "u4")
    for r in range(9):
        expected = expected * 3 + r * 10 + np.arange(32, dtype="u4")
    assert cuda.words(out, 32) == list(expected)


def test_a_barrier_reduces_over_the_warps_that_its_count_names(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        shr.u32 %r1, %t, 6;
        add.u32 %r1, %r1, 1;
        rem.u32 %r2, %t, 3;
        setp.eq.u32 %p1, %r2, 0;
        setp.lt.u32 %p2, %t, 64;
        bar.red.popc.u32 %r3, %r1, 64, %p1;
        bar.red.and.pred %p3, %r1, 64, %p2;
        barrier.cta.red.or.aligned.pred %p4, %r1, 64, !%p2;
        selp.u32 %r4, 100, 0, %p3;
        selp.u32 %r5, 1000, 0, %p4;
        add.u32 %r3, %r3, %r4;
        add.u32 %r3, %r3, %r5;
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd5, %rd0, %rd5;
        st.global.u32 [%rd5], %r3;
        """,
        parameters=1,
    )
    out = words(cuda, [0] * 128)
    assert run(cuda, ptx, [out], block=128) == 0
    ones = [sum(t % 3 == 0 for t in range(first, first + 64)) for first in (0, 64)]
    assert cuda.words(out, 128) == [ones[0] + 100] * 64 + [ones[1] + 1000] * 64


def test_lanes_meet_at_syncwarp_and_shuffles_in_different_arms(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r10, slot;
        mad.lo.u32 %r11, %t, 4, %r10;
        xor.b32 %r12, %t, 16;
        mad.lo.u32 %r12, %r12, 4, %r10;
        setp.lt.u32 %p1, %t, 16;
        @%p1 bra LOW;
        mad.lo.u32 %r1, %t, 7, 1;
        st.shared.u32 [%r11], %r1;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %r2, [%r12];
        shfl.sync.bfly.b32 %r3, %r2, 1, 31, 0xffff0000;
        bra MEET;
        LOW: mad.lo.u32 %r1, %t, 5, 2;
        st.shared.u32 [%r11], %r1;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %r2, [%r12];
        redux.sync.max.u32 %r3, %r2, 0xffff;
        MEET: vote.sync.ballot.b32 %r4, %p1, 0xffffffff;
        match.any.sync.b32 %r5, %r4, 0xffffffff;
        popc.b32 %r5, %r5;
        add.u32 %r3, %r3, %r5;
        add.u32 %r3, %r3, %r4;
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd5, %rd0, %rd5;
        st.global.u32 [%rd5], %r3;
        """,
        shared=".shared .align 4 .b8 slot[128];",
        parameters=1,
    )
    out = words(cuda, [0] * 32)
    assert run(cuda, ptx, [out]) == 0
    low = [31 * 7 + 1] * 16
    high = [((t ^ 16) ^ 1) * 5 + 2 for t in range(16, 32)]
    assert cuda.words(out, 32) == [x + 32 + 0xFFFF for x in low + high]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 1, 64; A: bar.sync 2, 64;",
            "deadlock: 32 lanes of warp 0 wait at barrier 2, where 32 of 64 threads have arrived",
        ),
        (
            "setp.lt.u32 %p1, %t, 8; @%p1 bra A; bar.sync 1, 96; A: bar.warp.sync 0xffffffff; bar.sync 1, 96;",
            "deadlock: ",
        ),
    ],
)
def test_a_deadlock_is_reported_with_kernel_line_block_and_thread(
    fresh: Fresh, body: str, message: str
) -> None:
    ptx = module(body, parameters=0)
    said = complaint(fresh, ptx, 719, block=64)
    assert message in said
    line = 1 + ptx[: ptx.index("setp.lt")].count("\n")
    assert f"in kernel k, PTX line {line}, block (0,0,0), thread (" in said


def test_a_kernel_without_an_end_is_ended_with_the_place_where_it_spins(fresh: Fresh) -> None:
    ptx = module(
        """
        setp.ne.u32 %p1, %b, 1;
        @%p1 ret;
        L: ld.volatile.global.u32 %r1, [%rd0];
        setp.eq.u32 %p2, %r1, 0;
        @%p2 bra L;
        """,
        parameters=1,
    )
    said = complaint(fresh, ptx, 702, grid=3, block=64, arguments="d.alloc(64)", TIMEOUT="200")
    assert "ran longer than 200 ms" in said
    first = 1 + ptx[: ptx.index("L: ld")].count("\n")
    assert any(f"PTX line {line}, block (1,0,0)" in said for line in range(first, first + 3))


FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x) {
  .reg .b32 %x; ld.param.b32 %x, [x]; add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }
.func (.param .b32 r) square(.param .b32 x) {
  .reg .b32 %x; ld.param.b32 %x, [x]; mul.lo.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }
.func (.param .b32 r) depth(.param .b32 x) {
  .reg .b32 %x, %y, %z; .reg .pred %p;
  ld.param.b32 %x, [x];
  setp.eq.u32 %p, %x, 0;
  mov.u32 %y, 0;
  @%p bra E;
  sub.u32 %z, %x, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %z; call.uni (b), depth, (a); ld.param.b32 %y, [b]; }
  add.u32 %y, %y, %x;
  E: st.param.b32 [r], %y; ret; }
.func (.param .b32 r) sum(.param .b32 n, .param .align 8 .b8 rest[]) {
  .reg .b32 %n, %y, %z; ld.param.b32 %n, [n]; ld.param.b32 %y, [rest]; ld.param.b32 %z, [rest+4];
  add.u32 %y, %y, %z; add.u32 %y, %y, %n; st.param.b32 [r], %y; ret; }
.func (.param .align 16 .b8 r[48]) rows(.param .align 16 .b8 x[48]) {
  .reg .b64 %a, %b, %c, %d; .reg .b64 %e<2>;
  ld.param.v2.b64 {%a, %b}, [x]; ld.param.v2.b64 {%c, %d}, [x+16]; ld.param.v2.b64 {%e0, %e1}, [x+32];
  st.param.v2.b64 [r], {%e1, %e0}; st.param.v2.b64 [r+16], {%d, %c}; st.param.v2.b64 [r+32], {%b, %a}; ret; }
"""


def test_calls_by_pointer_by_recursion_with_many_arguments_and_blocks_of_bytes(
    cuda: driver_api.Driver,
) -> None:
    ptx = module(
        """
        .reg .b64 %fn;
        and.b32 %r1, %t, 1;
        setp.eq.u32 %p1, %r1, 0;
        mov.u64 %rd5, twice; mov.u64 %rd6, square;
        selp.b64 %fn, %rd5, %rd6, %p1;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %t;
          proto: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (b), %fn, (a), proto; ld.param.b32 %r2, [b]; }
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %t;
          call (b), depth, (a); ld.param.b32 %r3, [b]; }
        { .param .b32 n; .param .align 8 .b8 more[8]; .param .b32 b;
          st.param.b32 [n], 7; st.param.b32 [more], %t; st.param.b32 [more+4], 1000;
          call (b), sum, (n, more); ld.param.b32 %r4, [b]; }
        cvt.u64.u32 %rd10, %t;
        { .param .align 16 .b8 a[48]; .param .align 16 .b8 b[48];
          st.param.v2.b64 [a], {%rd10, 1}; st.param.v2.b64 [a+16], {2, 3}; st.param.v2.b64 [a+32], {4, 5};
          call (b), rows, (a); ld.param.v2.b64 {%rd11, %rd12}, [b+32]; ld.param.b64 %rd13, [b+16]; }
        cvt.u32.u64 %r5, %rd12;
        cvt.u32.u64 %r6, %rd13;
        mad.lo.u32 %r5, %r6, 100, %r5;
        mul.wide.u32 %rd14, %t, 16;
        add.u64 %rd14, %rd0, %rd14;
        st.global.v4.u32 [%rd14], {%r2, %r3, %r4, %r5};
        """,
        parameters=1,
    ).replace(".visible .entry", FUNCTIONS + ".visible .entry")
    out = words(cuda, [0] * 256)
    assert run(cuda, ptx, [out], block=64) == 0
    got = np.array(cuda.words(out, 256)).reshape(64, 4)
    for t in range(64):
        assert list(got[t]) == [t * t if t % 2 else 2 * t, t * (t + 1) // 2, 1007 + t, 300 + t]


def test_many_brief_blocks_are_ended_too(fresh: Fresh) -> None:
    ptx = module("st.global.u32 [%rd0], %r1;", parameters=1)
    said = complaint(fresh, ptx, 702, grid=2147483647, block=1, arguments="d.alloc(64)", TIMEOUT="100")
    assert "ran longer than 100 ms" in said


@pytest.mark.parametrize("wait", ["bar.sync 0;", "barrier.cluster.arrive; barrier.cluster.wait;"])
def test_a_loop_around_a_barrier_is_ended(fresh: Fresh, wait: str) -> None:
    ptx = module(f"L: {wait} add.u32 %r1, %r1, 1; st.global.u32 [%rd0], %r1; bra L;", parameters=1)
    complaint(fresh, ptx, 702, block=64, arguments="d.alloc(64)", TIMEOUT="100")


def test_a_block_whose_warps_ask_and_meet_lets_a_later_block_answer(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        setp.ne.u32 %p1, %b, 0;
        @%p1 bra ANSWER;
        L: ld.volatile.global.u32 %r1, [%rd0];
        bar.sync 0;
        setp.eq.u32 %p2, %r1, 0;
        @%p2 bra L;
        ret;
        ANSWER: st.volatile.global.u32 [%rd0], 7;
        """,
        parameters=1,
    )
    flag = cuda.alloc(64)
    assert cuda.launch(cuda.function(cuda.module(ptx), "k"), [2], [64], [flag]) == 0
    assert cuda.words(flag, 1) == [7]
