"""What is wrong with asynchronous instructions is named with kernel, line, block and thread, and nothing hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
import pytest
from asynchronous_kernels import MATRICES, ONE_BARRIER, PRODUCT
from small_kernels import complaint, module, run, words

if TYPE_CHECKING:
    from conftest import Fresh

START = "mov.u32 %r1, bar; mov.u32 %r2, tile; mov.b64 %rd3, 0;"
BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
ILLEGAL, MISALIGNED, INSTRUCTION, FAILED = 700, 716, 715, 719
WGMMA = f"{PRODUCT} {{%f0, %f1, %f2, %f3}}, %rd20, %rd21, %p7, 1, 1, 0, 0;"
WAIT = "wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("cp.async.ca.shared.global [%r2+2], [%rd0], 4;", MISALIGNED, "4 bytes at"),
        ("cp.async.ca.shared.global [%r2], [%rd0+8], 16;", MISALIGNED, "16 bytes at"),
        ("cp.async.ca.shared.global [%r2], [%rd3], 4;", ILLEGAL, "illegal read"),
        ("cp.async.ca.shared.global [%r2+1048576], [%rd0], 4;", ILLEGAL, "illegal write"),
        (f"{BULK} [%r2+8], [%rd0], 16, [%r1];", MISALIGNED, "16 bytes at"),
        (f"{BULK} [%r2], [%rd0+4], 16, [%r1];", MISALIGNED, "16 bytes at"),
        (f"{BULK} [%r2], [%rd0], 65536, [%r1];", ILLEGAL, "illegal read of 65536 bytes"),
        (f"{BULK} [%r2+4096], [%rd0], 64, [%r1];", ILLEGAL, "illegal write"),
        ("mbarrier.init.shared.b64 [%r1+4], 1;", MISALIGNED, "8 bytes at"),
        ("mbarrier.init.shared.b64 [%r2+1048576], 1;", ILLEGAL, "illegal write"),
        ("mbarrier.init.shared.b64 [%r1], 1048576;", INSTRUCTION, "1 to 2^20 - 1"),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 1048576;",
            INSTRUCTION,
            "the limit is 2^20 - 1",
        ),
        ("st.shared::cluster.u32 [%r2+1048576], 1;", ILLEGAL, "illegal write"),
        ("mapa.shared::cluster.u32 %r3, %r2, 3;", INSTRUCTION, "mapa to block 3 of a cluster of 1"),
        ("cp.async.bulk.wait_group 0; trap;", INSTRUCTION, "trap"),
        (
            "mov.u32 %r3, 12; st.bulk.shared::cta [%r2], %r3, 0;",
            INSTRUCTION,
            "st.bulk of 12 bytes: the number must",
        ),
        ("mov.b64 %rd4, 16777224; st.bulk.shared::cta [%r2], %rd4, 0;", INSTRUCTION, "at most 16777216"),
        ("st.bulk.shared::cta [%r2], 1048576, 0;", ILLEGAL, "illegal write of 1048576 bytes"),
        ("st.bulk [%rd0], 64, 0;", ILLEGAL, "st.bulk outside of the block's shared memory"),
    ],
)
def test_addresses_and_counts(fresh: Fresh, deferred: str, body: str, status: int, said: str) -> None:
    ptx = module(f"{START}\nsetp.ne.u32 %p1, %t, 3; @%p1 ret;\n{body}", shared=ONE_BARRIER, parameters=1)
    told = complaint(fresh, ptx, status, arguments="d.alloc(64)", DEFERRED=deferred)
    assert said in told
    assert "in kernel k, PTX line" in told
    assert "block (0,0,0), thread (3,0,0)" in told


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize(
    ("body", "block", "status", "said"),
    [
        (
            "setp.gt.u32 %p1, %t, 100; @%p1 exit; " + WGMMA,
            128,
            INSTRUCTION,
            "wgmma by a part of a warp: 27 of its 32 lanes have exited",
        ),
        (WGMMA, 112, INSTRUCTION, "wgmma by a part of a warp: 16 of its 32 lanes have no thread"),
        (WGMMA, 96, INSTRUCTION, "wgmma by fewer than the four warps of a warpgroup"),
        (
            f"setp.eq.u32 %p1, %t, 9; @%p1 bra OTHER; {WGMMA} bra END; OTHER: {WGMMA} END:",
            128,
            FAILED,
            "lanes of warp 0 wait for the lanes 0x",
        ),
        (
            f"mov.b64 %rd20, 0x0000000800400F00; {WGMMA} wgmma.commit_group.sync.aligned; {WAIT}",
            128,
            ILLEGAL,
            "bytes into shared memory, where the block has",
        ),
    ],
)
def test_parts_of_warpgroups_and_descriptors(
    fresh: Fresh, deferred: str, body: str, block: int, status: int, said: str
) -> None:
    told = complaint(
        fresh,
        module(MATRICES + body, shared=ONE_BARRIER, parameters=0),
        status,
        block=block,
        DEFERRED=deferred,
    )
    assert said in told
    assert "in kernel k, PTX line" in told
    assert "block (0,0,0), thread (" in told


def test_a_warp_that_does_not_multiply_is_waited_for_in_vain(fresh: Fresh) -> None:
    """Only where products are deferred: there the four warps of a group are one operation."""
    body = f"""
    shr.u32 %r1, %t, 5; setp.eq.u32 %p1, %r1, 2; @%p1 bra END;
    wgmma.fence.sync.aligned; {WGMMA} wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    END:
    """
    ptx = module(MATRICES + body, shared=ONE_BARRIER, parameters=0)
    told = complaint(fresh, ptx, FAILED, block=128, DEFERRED="1")
    assert "32 lanes of warp 0 wait for warp 2 of its warpgroup, which has committed 0 groups" in told
    assert "block (0,0,0), thread (0,0,0)" in told


@pytest.mark.parametrize("registers", ["16", "36", "264", "%r1"])
def test_setmaxnreg_takes_multiples_of_eight(fresh: Fresh, registers: str) -> None:
    told = complaint(fresh, module(f"setmaxnreg.dec.sync.aligned.u32 {registers};", parameters=0), 801)
    assert (
        "setmaxnreg.dec.sync.aligned.u32 of a number of registers that is no multiple of 8 from 24 to 256"
        in told
    )


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_bytes_that_never_come_are_named(fresh: Fresh, deferred: str) -> None:
    body = f"""
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 96;
    {BULK} [%r2], [%rd0], 64, [%r1];
    L: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra L;
    """
    told = complaint(
        fresh,
        module(START + body, shared=ONE_BARRIER, parameters=1),
        FAILED,
        block=1,
        arguments="d.alloc(64)",
        DEFERRED=deferred,
    )
    assert "0 arrivals and 32 bytes are missing" in told
    assert "in kernel k, PTX line" in told


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_who_asks_for_ever_is_ended_by_the_watchdog(fresh: Fresh, deferred: str) -> None:
    body = """
    mbarrier.init.shared::cta.b64 [%r1], 1;
    L: mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra L;
    """
    ptx = module(START + body, shared=ONE_BARRIER, parameters=0)
    told = complaint(fresh, ptx, 702, block=1, DEFERRED=deferred, TIMEOUT="300")
    assert "ran longer than 300 ms" in told
    assert "in kernel k, PTX line" in told


def test_every_form_of_a_proxy_fence_is_taken(cuda: driver_api.Driver) -> None:
    fences = [
        "fence.proxy.alias;",
        *(f"fence.proxy.async{space};" for space in ("", ".global", ".shared::cta", ".shared::cluster")),
        "fence.proxy.tensormap::generic.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.sys [%rd0], 128;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.release.sync_restrict::shared::cta.cluster;",
        "fence.mbarrier_init.release.cluster;",
        "membar.proxy.alias;",
        "griddepcontrol.launch_dependents; griddepcontrol.wait;",
    ]  # fmt: skip
    out = words(cuda, [0])
    assert (
        run(cuda, module("\n".join(fences) + "st.global.u32 [%rd0], 5;", parameters=1), [out], block=1) == 0
    )
    assert cuda.words(out, 1) == [5]


def test_every_form_of_an_mbarrier_across_a_cluster(cuda: driver_api.Driver) -> None:
    """Block 1 arrives in all ways at block 0's mbarrier, which waits in all ways."""
    body = """
    mov.u32 %r1, bar; mapa.shared::cluster.u32 %r5, %r1, 0; cvt.u64.u32 %rd4, %r1; cvta.shared.u64 %rd4, %rd4;
    mapa.u64 %rd5, %rd4, 0;
    mov.u32 %r6, %cluster_ctarank; setp.eq.u32 %p1, %r6, 0;
    @%p1 mbarrier.init.b64 [%rd4], 6;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 bra WAIT;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
    mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r5], 1;
    mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r5], 24;
    mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r5];
    mbarrier.arrive_drop.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%r5], 8;
    mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r5], 16;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r5], 48;
    mbarrier.arrive.b64 _, [%rd5];
    bra END;
    WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r1], 0, 1000; @!%p2 bra WAIT;
    mbarrier.test_wait.parity.relaxed.cluster.b64 %p2, [%rd4], 0; selp.u32 %r7, 1, 0, %p2;
    mbarrier.arrive.shared::cta.b64 %rd6, [%r1], 3;
    mbarrier.pending_count.b64 %r8, %rd6;
    mbarrier.test_wait.acquire.cta.shared::cta.b64 %p2, [%r1], %rd6; selp.u32 %r9, 2, 0, %p2;
    mbarrier.arrive.release.cta.b64 %rd7, [%rd4];
    mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %rd6; selp.u32 %r10, 4, 0, %p2;
    add.u32 %r7, %r7, %r9; add.u32 %r7, %r7, %r10; mad.lo.u32 %r7, %r8, 10, %r7;
    st.global.u32 [%rd0], %r7;
    END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """
    out = words(cuda, [0])
    text = module(body, shared=".shared .align 8 .b64 bar;", parameters=1)
    assert run(cuda, text, [out], block=1, grid=2, cluster=2) == 0
    assert cuda.words(out, 1) == [40 + 1 + 4]  # two of six arrivals were dropped for good
