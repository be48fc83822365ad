"""Clusters: blocks that reach each other's shared memory, in PTX written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
from small_kernels import module, run, words

if TYPE_CHECKING:
    from conftest import Fresh


# Each block of a cluster writes its rank into the next block's memory, waits for the cluster, and reads its own.
NEIGHBOURS = module(
    """
    mov.u32 %r1, slot;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, %cluster_nctarank;
    add.u32 %r4, %r2, 1;
    rem.u32 %r4, %r4, %r3;
    mapa.shared::cluster.u32 %r5, %r1, %r4;
    mad.lo.u32 %r6, %t, 4, %r5;
    mad.lo.u32 %r7, %r2, 100, %t;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    st.shared::cluster.u32 [%r6], %r7;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mad.lo.u32 %r8, %t, 4, %r1;
    ld.shared.u32 %r9, [%r8];
    cvta.shared.u64 %rd4, %rd5;
    getctarank.shared::cluster.u32 %r10, %r5;
    mad.lo.u32 %r9, %r10, 10000, %r9;
    mov.u32 %r11, %ntid.x;
    mad.lo.u32 %r12, %b, %r11, %t;
    mul.wide.u32 %rd6, %r12, 4;
    add.u64 %rd7, %rd0, %rd6;
    st.global.u32 [%rd7], %r9;
    """,
    shared=".shared .align 4 .b8 slot[256];",
    parameters=1,
)


def test_blocks_of_a_cluster_reach_each_others_shared_memory(cuda: driver_api.Driver) -> None:
    out = words(cuda, [0] * (8 * 64))
    assert run(cuda, NEIGHBOURS, [out], grid=8, block=64, cluster=4) == 0
    expected = [(b % 4 + 1) % 4 * 10000 + (b % 4 + 3) % 4 * 100 + t for b in range(8) for t in range(64)]
    assert cuda.words(out, 512) == expected


def test_a_cluster_of_generic_addresses_and_atomics(cuda: driver_api.Driver) -> None:
    """All blocks count in the first one's memory, through a generic address, and it copies the sum out."""
    ptx = module(
        """
        mov.u32 %r1, counter;
        cvt.u64.u32 %rd3, %r1;
        cvta.shared.u64 %rd3, %rd3;
        mapa.u64 %rd4, %rd3, 0;
        setp.ne.u32 %p1, %t, 0;
        mov.u32 %r2, %cluster_ctarank;
        barrier.cluster.arrive.relaxed.aligned;
        barrier.cluster.wait.aligned;
        atom.add.u32 %r3, [%rd4], 1;
        mapa.shared::cluster.u32 %r5, %r1, 0;
        red.shared::cluster.add.u32 [%r5], 2;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.shared::cluster.u32 %r4, [%r5];
        getctarank.u64 %r6, %rd4;
        add.u32 %r4, %r4, %r6;
        mul.wide.u32 %rd6, %b, 4;
        add.u64 %rd7, %rd0, %rd6;
        st.global.u32 [%rd7], %r4;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        """,
        shared=".shared .align 4 .u32 counter;",
        parameters=1,
        cluster=".reqnctapercluster 2, 1, 1",
    )
    out = words(cuda, [0] * 6)
    assert run(cuda, ptx, [out], grid=6, block=96) == 0
    assert cuda.words(out, 6) == [2 * 96 * 3] * 6


def test_a_multicast_reaches_every_block_of_the_mask(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, bar;
        mov.u32 %r2, buffer;
        mov.u32 %r9, %cluster_ctarank;
        mov.b16 %h1, 5;
        setp.ne.u32 %p1, %t, 0;
        @%p1 bra A;
        mbarrier.init.shared::cta.b64 [%r1], 1;
        fence.mbarrier_init.release.cluster;
        A: barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        @%p1 bra W;
        setp.eq.u32 %p3, %r9, 1;
        @%p3 mbarrier.arrive.shared::cta.b64 %rd9, [%r1];
        @!%p3 mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%r1], 128;
        setp.ne.u32 %p2, %r9, 0;
        @%p2 bra W;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [%r2], [%rd0], 128, [%r1], %h1;
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
        @!%p2 bra W;
        mad.lo.u32 %r3, %t, 4, %r2;
        ld.shared.u32 %r4, [%r3];
        mad.lo.u32 %r5, %b, 32, %t;
        mul.wide.u32 %rd6, %r5, 4;
        add.u64 %rd7, %rd1, %rd6;
        st.global.u32 [%rd7], %r4;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        """,
        shared=".shared .align 8 .b64 bar; .shared .align 128 .b8 buffer[128];",
    )
    out = words(cuda, [9] * 96)
    assert run(cuda, ptx, [words(cuda, range(1, 33)), out], grid=3, cluster=3) == 0
    assert cuda.words(out, 96) == [*range(1, 33), *[0] * 32, *range(1, 33)]


def test_asynchronous_stores_into_a_neighbour_complete_its_mbarrier(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, bar;
        mov.u32 %r2, buffer;
        mov.u32 %r9, %cluster_ctarank;
        xor.b32 %r10, %r9, 1;
        setp.ne.u32 %p1, %t, 0;
        @%p1 bra A;
        mbarrier.init.shared::cta.b64 [%r1], 1;
        A: barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 384;
        mapa.shared::cluster.u32 %r3, %r1, %r10;
        mad.lo.u32 %r4, %t, 8, %r2;
        mapa.shared::cluster.u32 %r5, %r4, %r10;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r5], {%r9, %t}, [%r3];
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], 10, [%r3];
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
        @!%p2 bra W;
        ld.shared.v2.u32 {%r6, %r7}, [%r4];
        mad.lo.u32 %r6, %r6, 1000, %r7;
        mad.lo.u32 %r5, %b, 32, %t;
        mul.wide.u32 %rd6, %r5, 4;
        add.u64 %rd7, %rd0, %rd6;
        st.global.u32 [%rd7], %r6;
        """,
        shared=".shared .align 8 .b64 bar; .shared .align 128 .b8 buffer[256];",
        parameters=1,
    )
    out = words(cuda, [9] * 64)
    assert run(cuda, ptx, [out], grid=2, cluster=2) == 0
    assert cuda.words(out, 64) == [(10 + 1 - b) * 1000 + t for b in range(2) for t in range(32)]


def test_asynchronous_stores_into_global_memory_write_as_many_bytes_as_their_type_has(
    cuda: driver_api.Driver,
) -> None:
    ptx = module(
        """
        mul.wide.u32 %rd6, %t, 16;
        add.u64 %rd7, %rd0, %rd6;
        add.u32 %r1, %t, 0x11223300;
        cvt.u16.u32 %h1, %r1;
        cvt.u64.u32 %rd8, %r1;
        st.async.mmio.release.sys.global.b16 [%rd7+2], %h1;
        st.async.release.gpu.u32 [%rd7+4], %r1;
        st.async.mmio.release.sys.b64 [%rd7+8], %rd8;
        red.async.mmio.release.sys.global.add.u32 [%rd7+12], 7;
        """,
        parameters=1,
    )
    out = words(cuda, [0xFFFFFFFF] * 128)
    assert run(cuda, ptx, [out]) == 0
    assert cuda.words(out, 128) == [
        word for t in range(32) for word in (0x3300FFFF | t << 16, 0x11223300 + t, 0x11223300 + t, 7)
    ]


def test_a_block_that_leaves_its_cluster_waiting_is_a_deadlock_unless_it_exits(fresh: Fresh) -> None:
    ptx = module(
        """
        setp.eq.u32 %p1, %b, 0;
        @%p1 bra A;
        bar.sync 1, 64;
        A: barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        """,
        parameters=0,
        cluster=".reqnctapercluster 2, 1, 1",
    )
    exits = ptx.replace("bar.sync 1, 64;", "exit;")
    done = fresh(
        f"""
        for ptx in ({exits!r}, {ptx!r}):
            f = d.function(d.module(ptx), "k")
            print(d.launch(f, [2], [32], []) or d.cuCtxSynchronize())
        """
    )
    assert done.stdout.split() == ["0", "719"]
    assert "at the barrier of the cluster, where 32 of 64 threads have arrived" in done.stderr
