"""Where asynchronous operations are deferred, a product that nobody waits for is not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small_kernels import module

if TYPE_CHECKING:
    from conftest import Fresh

F16_128x8 = 8 << 24 | 1 << 17 | 1 << 4
WAIT = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0; @!%p3 bra wait;"


@pytest.mark.parametrize(
    ("wait", "settings", "expected"),
    [
        ("", {}, 16.0),
        (WAIT, {}, 16.0),
        ("", {"DEFERRED": "1"}, 7.0),
        (WAIT, {"DEFERRED": "1"}, 16.0),
        (WAIT, {"DEFERRED": "1", "DEFERRED_SEED": "5"}, 16.0),
    ],
)
def test_a_missing_wait_shows(fresh: Fresh, wait: str, settings: dict[str, str], expected: float) -> None:
    """A and B are all ones, 128 x 16 and 16 x 8; D was 7."""
    ptx = module(
        f"""
        mov.u32 %r1, bar; mov.u32 %r2, tile; mov.u32 %r3, place; setp.eq.u32 %p1, %t, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
        ld.shared.u32 %r4, [%r3]; mov.f32 %f1, 0f40E00000;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], %f1; tcgen05.wait::st.sync.aligned;
        mov.u32 %r5, %t;
        fill: mad.lo.u32 %r6, %r5, 4, %r2; st.shared.u32 [%r6], 0x3c003c00;
        add.u32 %r5, %r5, 32; setp.lt.u32 %p2, %r5, 2048; @%p2 bra fill;
        fence.proxy.async; bar.warp.sync -1;
        shr.u32 %r7, %r2, 4; cvt.u64.u32 %rd8, %r7; or.b64 %rd8, %rd8, 0x400800080000;
        mov.u32 %r8, {F16_128x8};
        @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd8, %rd8, %r8, 0;
        @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
        {wait}
        tcgen05.fence::after_thread_sync;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 %f2, [%r4]; tcgen05.wait::ld.sync.aligned;
        @%p1 st.global.f32 [%rd0], %f2;
        late: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0; @!%p3 bra late;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
        """,
        shared=".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar; .shared .b32 place;",
        parameters=1,
    )
    done = fresh(
        f"""
        import struct
        out = d.alloc(4)
        f = d.function(d.module({ptx!r}), "k")
        print(d.launch(f, [1], [32], [out]), d.cuCtxSynchronize())
        print(*struct.unpack("f", d.read(out, 4)))
        """,
        **settings,
    )
    assert done.stdout.splitlines() == ["0 0", str(expected)], done.stderr


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_a_late_load_that_nobody_reads_changes_no_other_register(fresh: Fresh, deferred: str) -> None:
    ptx = module(
        """
        mov.u32 %r3, place;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
        ld.shared.u32 %r4, [%r3]; mov.u32 %r5, 0x77777777;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], %r5; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 %r6, [%r4];
        add.u32 %r10, %t, 1; add.u32 %r11, %t, 2; add.u32 %r12, %t, 3; add.u32 %r13, %t, 4;
        tcgen05.wait::ld.sync.aligned;
        add.u32 %r10, %r10, %r11; add.u32 %r12, %r12, %r13; add.u32 %r10, %r10, %r12;
        mul.wide.u32 %rd1, %t, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r10;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
        """,
        shared=".shared .b32 place;",
        parameters=1,
    )
    done = fresh(
        f"""
        out = d.alloc(128)
        print(d.launch(d.function(d.module({ptx!r}), "k"), [1], [32], [out]), d.cuCtxSynchronize())
        print(d.words(out, 32) == [4 * t + 10 for t in range(32)])
        """,
        DEFERRED=deferred,
    )
    assert done.stdout.splitlines() == ["0 0", "True"], done.stderr
