"""Asynchronous copies and mbarrier objects, in PTX written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
import numpy as np
import pytest
from small_kernels import complaint, module, run, words

if TYPE_CHECKING:
    from conftest import Fresh


# Each thread copies 16 bytes; the source size, where there is one, leaves zeros after it.
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("", [1, 2, 3, 4]),
        (", 16", [1, 2, 3, 4]),
        (", 8", [1, 2, 0, 0]),
        (", %r5", [1, 2, 3, 0]),
        (", 0", [0, 0, 0, 0]),
        (", %p1", [0, 0, 0, 0]),
        (", %p2", [1, 2, 3, 4]),
    ],
)
def test_cp_async_copies_and_fills_with_zeros(
    cuda: driver_api.Driver, last: str, expected: list[int]
) -> None:
    ptx = module(
        f"""
        mov.u32 %r5, 12;
        setp.eq.u32 %p1, 0, 0;
        setp.ne.u32 %p2, 0, 0;
        mul.wide.u32 %rd5, %t, 16;
        add.u64 %rd6, %rd0, %rd5;
        add.u64 %rd7, %rd1, %rd5;
        mov.u32 %r1, buffer;
        mad.lo.u32 %r2, %t, 16, %r1;
        cp.async.cg.shared.global.L2::128B [%r2], [%rd6], 16{last};
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r2];
        st.global.v4.u32 [%rd7], {{%r10, %r11, %r12, %r13}};
        """,
        shared=".shared .align 16 .b8 buffer[512];",
    )
    out = words(cuda, [9] * 128)
    assert run(cuda, ptx, [words(cuda, [1, 2, 3, 4] * 32), out]) == 0
    assert cuda.words(out, 128) == expected * 32


def test_cp_async_under_a_guard_with_a_cache_hint_and_an_mbarrier(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, buffer;
        mov.u32 %r9, bar;
        setp.eq.u32 %p1, %t, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r9], 64;
        bar.sync 0;
        createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd6, %rd0, %rd5;
        add.u64 %rd7, %rd1, %rd5;
        mad.lo.u32 %r2, %t, 4, %r1;
        st.shared.u32 [%r2], 7;
        and.b32 %r3, %t, 1;
        setp.eq.u32 %p2, %r3, 0;
        @%p2 cp.async.ca.shared.global.L2::cache_hint [%r2], [%rd6], 4, %rd9;
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r9];
        cp.async.mbarrier.arrive.shared.b64 [%r9];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], 0;
        @!%p3 bra WAIT;
        ld.shared.u32 %r4, [%r2];
        st.global.u32 [%rd7], %r4;
        """,
        shared=".shared .align 16 .b8 buffer[256]; .shared .align 8 .b64 bar;",
    )
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [words(cuda, range(100, 164)), out], block=64) == 0
    assert cuda.words(out, 64) == [100 + i if i % 2 == 0 else 7 for i in range(64)]


# A producer warp fills two buffers in turn, a consumer warp empties them: full and empty mbarriers, parity by round.
PIPELINE = module(
    """
    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r3, buffer;
    setp.ne.u32 %p1, %t, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 32;
    mbarrier.init.shared::cta.b64 [%r1+8], 32;
    mbarrier.init.shared::cta.b64 [%r2], 32;
    mbarrier.init.shared::cta.b64 [%r2+8], 32;
    fence.mbarrier_init.release.cluster;
    READY: bar.sync 0;
    and.b32 %r4, %t, 31;
    mov.u32 %r5, 0;
    mov.u32 %r20, 0;
    setp.ge.u32 %p2, %t, 32;
    ROUND:
    and.b32 %r6, %r5, 1;
    shr.u32 %r7, %r5, 1;
    and.b32 %r7, %r7, 1;
    shl.b32 %r8, %r6, 3;
    add.u32 %r9, %r1, %r8;
    add.u32 %r10, %r2, %r8;
    shl.b32 %r11, %r6, 7;
    mad.lo.u32 %r11, %r4, 4, %r11;
    add.u32 %r11, %r11, %r3;
    @%p2 bra CONSUME;
    xor.b32 %r12, %r7, 1;
    P: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], %r12;
    @!%p3 bra P;
    mad.lo.u32 %r13, %r5, 100, %r4;
    st.shared.u32 [%r11], %r13;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%r9];
    bra NEXT;
    CONSUME:
    C: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [%r9], %r7, 1000;
    @!%p3 bra C;
    ld.shared.u32 %r14, [%r11];
    mad.lo.u32 %r20, %r20, 3, %r14;
    mbarrier.arrive.shared::cta.b64 %rd9, [%r10];
    NEXT:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p4, %r5, 20;
    @%p4 bra ROUND;
    @!%p2 ret;
    mul.wide.u32 %rd5, %r4, 4;
    add.u64 %rd6, %rd0, %rd5;
    st.global.u32 [%rd6], %r20;
    """,
    shared=".shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2]; .shared .align 4 .b8 buffer[256];",
    parameters=1,
)


def test_a_producer_warp_feeds_a_consumer_warp_through_mbarriers(cuda: driver_api.Driver) -> None:
    out = words(cuda, [0] * 32)
    assert run(cuda, PIPELINE, [out], block=64) == 0
    expected = np.zeros(32, "u4")
    for r in range(20):
        expected = (expected * 3 + r * 100 + np.arange(32)).astype("u4")
    assert (np.array(cuda.words(out, 32)) == expected).all()


def test_the_state_of_an_mbarrier(cuda: driver_api.Driver) -> None:
    """Counts that are missing, drops, bytes: one thread alone plays all parts."""
    ptx = module(
        """
        mov.u32 %r1, bar;
        mbarrier.init.shared::cta.b64 [%r1], 4;
        mbarrier.arrive.shared.b64 %rd5, [%r1], 2;
        mbarrier.pending_count.b64 %r2, %rd5;
        st.global.u32 [%rd0], %r2;
        mbarrier.arrive_drop.shared::cta.b64 %rd6, [%r1];
        mbarrier.pending_count.b64 %r2, %rd6;
        st.global.u32 [%rd0+4], %r2;
        mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd5;
        selp.u32 %r3, 1, 0, %p1;
        st.global.u32 [%rd0+8], %r3;
        mbarrier.arrive.expect_tx.shared::cta.b64 %rd7, [%r1], 48;
        mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;
        selp.u32 %r3, 1, 0, %p1;
        st.global.u32 [%rd0+12], %r3;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 48;
        mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;
        selp.u32 %r3, 1, 0, %p1;
        st.global.u32 [%rd0+16], %r3;
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;
        mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd8, [%r1], 3;
        mbarrier.pending_count.b64 %r2, %rd8;
        st.global.u32 [%rd0+20], %r2;
        mbarrier.complete_tx.shared::cta.b64 [%r1], 16;
        mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd8;
        selp.u32 %r3, 1, 0, %p1;
        st.global.u32 [%rd0+24], %r3;
        mbarrier.inval.shared::cta.b64 [%r1];
        """,
        shared=".shared .align 8 .b64 bar;",
        parameters=1,
    )
    out = words(cuda, [9] * 7)
    assert run(cuda, ptx, [out], block=1) == 0
    assert cuda.words(out, 7) == [4, 2, 0, 0, 1, 3, 1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mbarrier.arrive.shared.b64 %rd5, [%r1];", "not initialised"),
        ("mbarrier.init.shared.b64 [%r1], 0;", "count of 0"),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.shared.b64 %rd5, [%r1], 2;",
            "2 arrivals where 1",
        ),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 24, [%r1];",
            "multiple of 16",
        ),
    ],
)
def test_misuse_of_an_mbarrier_is_an_error(fresh: Fresh, body: str, message: str) -> None:
    ptx = module("mov.u32 %r1, bar;\n" + body, shared=".shared .align 16 .b64 bar[2];", parameters=1)
    said = complaint(fresh, ptx, 715, block=1, arguments="d.alloc(64)")
    assert message in said
    assert "kernel k, PTX line" in said


def test_an_mbarrier_nobody_completes_is_a_deadlock(fresh: Fresh) -> None:
    ptx = module(
        """
        mov.u32 %r1, bar;
        setp.ne.u32 %p1, %t, 0;
        @%p1 bra W;
        mbarrier.init.shared.b64 [%r1], 33;
        W: bar.sync 0;
        mbarrier.arrive.shared.b64 %rd5, [%r1];
        L: mbarrier.try_wait.shared.b64 %p1, [%r1], %rd5;
        @!%p1 bra L;
        """,
        shared=".shared .align 8 .b64 bar;",
        parameters=0,
    )
    said = complaint(fresh, ptx, 719)
    assert "deadlock: 32 lanes of warp 0 wait for the mbarrier at 0x0" in said
    assert "1 arrivals and 0 bytes are missing" in said
    assert "kernel k, PTX line" in said
    assert "block (0,0,0)" in said


def test_a_wait_that_gives_up_goes_on(cuda: driver_api.Driver) -> None:
    """try_wait answers false after a while: a program may do something else then."""
    ptx = module(
        """
        mov.u32 %r1, bar;
        mbarrier.init.shared.b64 [%r1], 1;
        mov.u32 %r2, 0;
        L: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
        @%p1 bra DONE;
        add.u32 %r2, %r2, 1;
        setp.eq.u32 %p2, %r2, 5;
        @%p2 mbarrier.arrive.shared.b64 %rd5, [%r1];
        bra L;
        DONE: st.global.u32 [%rd0], %r2;
        """,
        shared=".shared .align 8 .b64 bar;",
        parameters=1,
    )
    out = words(cuda, [0])
    assert run(cuda, ptx, [out], block=1) == 0
    assert cuda.words(out, 1) == [5]


def test_bulk_copies_go_both_ways(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, bar;
        mov.u32 %r2, buffer;
        setp.ne.u32 %p1, %t, 0;
        @%p1 bra W;
        mbarrier.init.shared::cta.b64 [%r1], 1;
        fence.proxy.async.shared::cta;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 128, [%r1];
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint
            [%r2+128], [%rd0+128], 128, [%r1], %rd0;
        W: bar.sync 0;
        L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
        @!%p2 bra L;
        mad.lo.u32 %r3, %t, 8, %r2;
        ld.shared.v2.u32 {%r4, %r5}, [%r3];
        add.u32 %r4, %r4, 1000;
        st.shared.u32 [%r3], %r4;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @%p1 ret;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 256;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        cp.async.bulk.wait_group 0;
        """,
        shared=".shared .align 8 .b64 bar; .shared .align 128 .b8 buffer[256];",
    )
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [words(cuda, range(64)), out]) == 0
    expected = [i + (1000 if i % 2 == 0 else 0) for i in range(64)]
    assert cuda.words(out, 64) == [2 * x if i < 4 else x for i, x in enumerate(expected)]


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("operation", ["add.noftz", "min", "max"])
def test_halves_are_reduced_in_bulk(fresh: Fresh, operation: str, kind: str, deferred: str) -> None:
    least = 2.0**-24 if kind == "f16" else 2.0**-133
    old = [1.5, -2.0, 0.0, 3.0, 3 * least, 2.0, -1.0, 0.25]
    new = [2.5, -1.0, -4.0, 3.0, 5 * least, 0.5, -3.0, 0.25]

    def codes(values: list[float]) -> list[int]:
        if kind == "f16":
            return np.array(values, np.float16).view(np.uint16).tolist()
        return (np.array(values, np.float32).view(np.uint32) >> 16).tolist()

    ptx = module(
        f"""
        mov.u32 %r2, buffer; setp.ne.u32 %p1, %t, 0; @%p1 ret;
        ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd0]; st.shared.v4.u32 [%r2], {{%r4, %r5, %r6, %r7}};
        fence.proxy.async.shared::cta;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%rd1], [%r2], 16;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        """,
        shared=".shared .align 128 .b8 buffer[16];",
    )
    done = fresh(
        f"""
        into, out = d.alloc(16), d.alloc(16)
        d.write(into, struct.pack("8H", *{codes(new)})); d.write(out, struct.pack("8H", *{codes(old)}))
        print(d.launch(d.function(d.module({ptx!r}), "k"), [1], [32], [into, out]), d.cuCtxSynchronize())
        print(*struct.unpack("8H", d.read(out, 16)))
        """,
        DEFERRED=deferred,
    )
    combine = {"add.noftz": lambda a, b: a + b, "min": min, "max": max}[operation]
    expected = codes([combine(*pair) for pair in zip(old, new, strict=True)])
    assert done.stdout.splitlines() == ["0 0", " ".join(map(str, expected))], done.stderr


@pytest.mark.parametrize("size", ["40", "%r3", "%rd3"])
@pytest.mark.parametrize("space", ["shared::cta", "generic"])
def test_shared_memory_is_cleared(cuda: driver_api.Driver, space: str, size: str) -> None:
    name, place = (".weak.shared::cta", "%r1") if space == "shared::cta" else ("", "%rd4")
    ptx = module(
        f"""
        mov.u32 %r2, buffer; mov.u32 %r3, 40; mov.u64 %rd3, 40; add.u32 %r1, %r2, 8;
        cvt.u64.u32 %rd4, %r1; cvta.shared.u64 %rd4, %rd4;
        mad.lo.u32 %r4, %t, 4, %r2; add.u32 %r5, %t, 1; st.shared.u32 [%r4], %r5; bar.sync 0;
        setp.eq.u32 %p1, %t, 3; @%p1 st.bulk{name} [{place}], {size}, 0; bar.sync 0;
        ld.shared.u32 %r5, [%r4]; mul.wide.u32 %rd5, %t, 4; add.u64 %rd5, %rd0, %rd5; st.global.u32 [%rd5], %r5;
        """,
        shared=".shared .align 16 .b8 buffer[128];",
        parameters=1,
    )
    out = words(cuda, [0] * 32)
    assert run(cuda, ptx, [out]) == 0
    assert cuda.words(out, 32) == [0 if 2 <= i < 12 else i + 1 for i in range(32)]


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd0, {%r2}], [%r1];",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {%r0,%r1,%r2,%r3}, %rd0, %rd0, %p1;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0,%f1}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2}, {%r4}, {%f0,%f1,%f2,%f3};",
        "wmma.load.a.sync.aligned.row.m16n16k32.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%rd0];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r1];",
        "tcgen05.mma.cta_group::1.kind::f16.block_scale.scale_vec::1X [%r1], %rd0, %rd1, %r2, [%r1], [%r1], %p1;",
    ],
)
def test_what_is_missing_is_refused_by_name_and_line_for_its_kernel_alone(
    fresh: Fresh, instruction: str
) -> None:
    ptx = module(instruction, parameters=1)
    line = 1 + ptx[: ptx.index(instruction)].count("\n")
    ptx += "\n.visible .entry other() { ret; }"
    done = fresh(
        f"""
        m = d.module({ptx!r})
        print(d.launch(d.function(m, "k"), [1], [32], [0]))
        print(d.launch(d.function(m, "other"), [1], [32], []) or d.cuCtxSynchronize())
        """
    )
    assert done.stdout.split() == ["801", "0"]
    assert f"line {line}: {instruction.split()[0].rstrip(';')}" in done.stderr
