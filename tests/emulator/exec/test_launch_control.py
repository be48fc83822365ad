"""clusterlaunchcontrol: clusters that have not begun are taken out of the launch, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
import pytest
from small_kernels import complaint, module, run

if TYPE_CHECKING:
    from conftest import Fresh


def worker(cluster: int, query: str) -> str:
    """p0: how often each block was worked on; p1: how many blocks began. Each goes on with what it can take."""
    everywhere = ".multicast::cluster::all" if cluster > 1 else ""
    return module(
        f"""
        .reg .b128 %answer; .reg .b32 %at, %first, %phase;
        mov.u32 %r1, bar; mov.u32 %r2, answer; mov.u32 %phase, 0; mov.u32 %at, %b;
        mov.u32 %r9, %cluster_ctarank;
        red.global.add.u32 [%rd1], 1;
        mbarrier.init.shared::cta.b64 [%r1], 1;
        barrier.cluster.arrive; barrier.cluster.wait;
        again: mul.wide.u32 %rd9, %at, 4; add.u64 %rd10, %rd0, %rd9; red.global.add.u32 [%rd10], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 %rd11, [%r1], 16;
        setp.eq.u32 %p2, %r9, 0;
        @%p2 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{everywhere}.b128
            [%r2], [%r1];
        wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %phase; @!%p1 bra wait;
        xor.b32 %phase, %phase, 1;
        ld.shared.b128 %answer, [%r2];
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %answer;
        @!%p3 bra done;
        {query}
        add.u32 %at, %first, %r9;
        barrier.cluster.arrive; barrier.cluster.wait;
        bra again;
        done: ret;
        """,
        shared=".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;",
        cluster=f".reqnctapercluster {cluster}" if cluster > 1 else "",
    )


@pytest.mark.parametrize(
    "query",
    [
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %first, %answer;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%first, _, _, _}, %answer;",
    ],
    ids=["x", "v4"],
)
@pytest.mark.parametrize("cluster", [1, 2])
def test_each_block_is_worked_on_once(cuda: driver_api.Driver, cluster: int, query: str) -> None:
    out, began = cuda.alloc(4 * 12), cuda.alloc(4)
    cuda.write(out, bytes(48))
    cuda.write(began, bytes(4))
    assert run(cuda, worker(cluster, query), [out, began], grid=12, block=1) == 0
    assert cuda.words(out, 12) == [1] * 12
    assert cuda.words(began, 1) == [cluster]  # the first cluster begins, and takes all others


def test_the_answer_has_all_coordinates(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        .reg .b128 %answer;
        mov.u32 %r1, bar; mov.u32 %r2, answer;
        mbarrier.init.shared::cta.b64 [%r1], 1;
        mov.u32 %r3, 0;
        again: mbarrier.arrive.expect_tx.shared::cta.b64 %rd11, [%r1], 16;
        clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%rd12], [%rd13];
        wait: mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd11; @!%p1 bra wait;
        ld.shared.b128 %answer, [%r2];
        clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %answer;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r5, %answer;
        clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r6, %answer;
        st.global.v2.u32 [%rd0], {%r4, %r5}; st.global.u32 [%rd0 + 8], %r6; add.u64 %rd0, %rd0, 12;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 11; @%p2 bra again;
        """.replace(
            "again:",
            "cvt.u64.u32 %rd12, %r2; cvta.shared.u64 %rd12, %rd12; cvt.u64.u32 %rd13, %r1;"
            "cvta.shared.u64 %rd13, %rd13; again:",
        ),
        shared=".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;",
        parameters=1,
    )
    out = cuda.alloc(12 * 11)
    function = cuda.function(cuda.module(ptx), "k")
    assert cuda.launch_ex(function, [2, 3, 2], [1], [out], []) == 0
    assert cuda.cuCtxSynchronize() == 0  # type: ignore[operator]
    found = cuda.words(out, 33)
    expected = [(x, y, z) for z in range(2) for y in range(3) for x in range(2)][1:]
    assert list(zip(found[::3], found[1::3], found[2::3], strict=True)) == expected


def test_an_answer_outside_shared_memory_is_named(fresh: Fresh) -> None:
    ptx = module(
        """
        mov.u32 %r1, bar; mbarrier.init.shared::cta.b64 [%r1], 1;
        clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1 + 64], [%r1];
        """,
        shared=".shared .align 16 .b64 bar;",
        parameters=0,
    )
    told = complaint(fresh, ptx, 700, block=1)
    assert "clusterlaunchcontrol.try_cancel with an address that is not in the block's shared memory" in told
