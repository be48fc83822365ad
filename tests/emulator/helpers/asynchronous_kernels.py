"""Kernels that order asynchronous operations correctly, and the same kernels with one thing forgotten."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from driver_api import Driver
from small_kernels import CLUSTER_DIMENSION, module

WORDS = 1024  # of each buffer
BLOCKS = 4


@dataclass(frozen=True)
class Mistake:
    """One text of the kernel that is replaced by another, or by nothing."""

    old: str
    new: str = ""

    def __str__(self) -> str:
        return self.old.split("\n")[0] + (" -> " + self.new if self.new else "")


@dataclass(frozen=True)
class Case:
    """Kernel k(in, out, more): 4 blocks. Block b finds its words from b * WORDS / 4 on, in %rd0 to %rd2."""

    name: str
    body: str
    mistakes: Sequence[Mistake]
    shared: str = ""
    block: int = 32
    cluster: int = 0
    head: str = field(default="")
    maps: bool = False  # %rd3: tensor maps of `in`, and 128 bytes further of `out`, with boxes of 32 words

    def ptx(self, mistake: Mistake | None = None) -> str:
        body = self.body
        if mistake:
            assert body.count(mistake.old) == 1, f"{self.name}: {mistake.old!r}"
            body = body.replace(mistake.old, mistake.new)
        begin = f"""
        mul.wide.u32 %rd30, %b, {4 * WORDS // BLOCKS};
        add.u64 %rd0, %rd0, %rd30; add.u64 %rd1, %rd1, %rd30; add.u64 %rd2, %rd2, %rd30;
        mul.wide.u32 %rd31, %t, 4; add.u64 %rd10, %rd0, %rd31; add.u64 %rd11, %rd1, %rd31; add.u64 %rd12, %rd2, %rd31;
        {self.head}
        """
        return module(begin + body, shared=self.shared, parameters=4 if self.maps else 3)


def results(driver: Driver, ptx: str, case: Case) -> list[int]:
    """What is in `out` and `more` afterwards; `in` counts from 1."""
    buffers = [driver.alloc(4 * WORDS) for _ in range(3)]
    driver.write(buffers[0], np.arange(1, WORDS + 1, dtype="u4").tobytes())
    attributes = [(CLUSTER_DIMENSION, (case.cluster, 1, 1))] if case.cluster else []
    function = driver.function(driver.module(ptx), "k")
    values = [*buffers, maps_of(driver, buffers[:2])] if case.maps else buffers
    status = driver.launch_ex(function, [BLOCKS], [case.block], values, attributes)
    status = status or driver.cuCtxSynchronize()  # type: ignore[operator]
    if status:
        return [-status]
    return driver.words(buffers[1], WORDS) + driver.words(buffers[2], WORDS)


def maps_of(driver: Driver, buffers: Sequence[int]) -> int:
    """Where tensor maps of words in one dimension lie one after another in device memory."""
    unsigned, of_words = ctypes.c_uint32, 2
    made = bytearray()
    for buffer in buffers:
        room = (ctypes.c_uint8 * 192)()
        at = (ctypes.addressof(room) + 63) // 64 * 64
        extent, no_stride = (ctypes.c_uint64 * 1)(WORDS), (ctypes.c_uint64 * 1)()
        driver.do(
            "cuTensorMapEncodeTiled", at, of_words, 1, buffer, extent, no_stride, (unsigned * 1)(32), (unsigned * 1)(1),
            0, 0, 0, 0,
        )  # fmt: skip
        made += ctypes.string_at(at, 128)
    there = driver.alloc(len(made))
    driver.write(there, bytes(made))
    return there


WAIT = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [{1}], {2}; @!%p9 bra {0};"
ONE_BARRIER = ".shared .align 8 .b64 bar; .shared .align 1024 .b8 tile[4096];"
BEGIN = """
mov.u32 %r30, bar; mov.u32 %r31, tile; mad.lo.u32 %r32, %t, 4, %r31; setp.ne.u32 %p8, %t, 0;
"""


def init(count: int) -> str:
    return f"""
    @%p8 bra READY;
    mbarrier.init.shared::cta.b64 [%r30], {count};
    fence.mbarrier_init.release.cluster;
    READY: bar.sync 0;
    """


CASES = [
    Case(
        "cp.async in groups",
        """
        cp.async.ca.shared.global [%r32], [%rd10], 4;
        cp.async.commit_group; // first
        cp.async.ca.shared.global [%r32+128], [%rd10+128], 4;
        cp.async.commit_group; // second
        cp.async.wait_group 1;
        ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
        cp.async.wait_group 0;
        ld.shared.u32 %r1, [%r32+128]; st.global.u32 [%rd11+128], %r1;
        """,
        [
            Mistake("cp.async.commit_group; // first"),
            Mistake("cp.async.commit_group; // second"),
            Mistake("cp.async.wait_group 1;"),
            Mistake("cp.async.wait_group 1;", "cp.async.wait_group 2;"),
            Mistake("cp.async.wait_group 0;"),
            Mistake("cp.async.wait_group 1;", "st.global.u32 [%rd10], 7; cp.async.wait_group 1;"),
        ],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    Case(
        "cp.async under a guard, for all",
        """
        and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0; st.shared.u32 [%r32], 5;
        @%p1 cp.async.ca.shared.global [%r32], [%rd10], 4;
        @%p1 cp.async.wait_all;
        ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
        """,
        [Mistake("@%p1 cp.async.wait_all;"), Mistake("@%p1 cp.async.wait_all;", "@!%p1 cp.async.wait_all;")],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    *(
        Case(
            f"cp.async that arrives{form}",
            init(32)
            + f"""
            cp.async.ca.shared.global [%r32], [%rd10], 4;
            cp.async.mbarrier.arrive{form}.shared::cta.b64 [%r30];
            {"" if form else "mbarrier.arrive.shared::cta.b64 _, [%r30];"}
            {WAIT.format("W", "%r30", 0)}
            ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
            """,
            [
                Mistake(WAIT.format("W", "%r30", 0)),
                Mistake(
                    f"cp.async.mbarrier.arrive{form}.shared::cta.b64 [%r30];",
                    "mbarrier.arrive.shared::cta.b64 _, [%r30];" if form else "",
                ),
            ],
            shared=ONE_BARRIER,
            head=BEGIN,
        )
        for form in (".noinc", "")
    ),
    Case(
        "cp.async.bulk into shared memory",
        init(1)
        + f"""
        @%p8 bra GO;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r31], [%rd0], 128, [%r30];
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r31+128], [%rd0+128], 128, [%r30];
        GO:
        {WAIT.format("W", "%r30", 0)}
        ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
        ld.shared.u32 %r1, [%r32+128]; st.global.u32 [%rd11+128], %r1;
        """,
        [
            Mistake(WAIT.format("W", "%r30", 0)),
            Mistake("arrive.expect_tx.shared::cta.b64 _, [%r30], 256", "arrive.shared::cta.b64 _, [%r30]"),
            Mistake("GO:", "GO: st.global.u32 [%rd10], 7;"),
            Mistake(WAIT.format("W", "%r30", 0), "mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r30], 0;"),
        ],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    Case(
        "who asks again and again",
        init(1)
        + """
        @%p8 bra GO;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r31], [%rd0], 128, [%r30];
        GO: mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r30], 0;
        @!%p9 bra GO;
        ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
        """,
        [Mistake("@!%p9 bra GO;")],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    Case(
        "cp.async.bulk out of shared memory",
        """
        ld.global.u32 %r1, [%rd10]; st.shared.u32 [%r32], %r1;
        fence.proxy.async.shared::cta; // source
        bar.sync 0;
        @%p8 bra REST;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r31], 128;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        REST: bar.sync 0;
        st.shared.u32 [%r32], 9;
        @%p8 ret;
        cp.async.bulk.wait_group 0;
        ld.global.u32 %r2, [%rd1+4]; st.global.u32 [%rd2], %r2;
        """,
        [
            Mistake("fence.proxy.async.shared::cta; // source"),
            Mistake("cp.async.bulk.commit_group;"),
            Mistake("cp.async.bulk.wait_group.read 0;"),
            Mistake("cp.async.bulk.wait_group 0;"),
            Mistake("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"),
        ],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    Case(
        "cp.reduce.async.bulk",
        """
        ld.global.u32 %r1, [%rd10]; st.shared.u32 [%r32], %r1; st.global.u32 [%rd11], 1000;
        fence.proxy.async;
        bar.sync 0;
        @%p8 ret;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r31], 128;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        ld.global.u32 %r2, [%rd1+4]; st.global.u32 [%rd2], %r2;
        """,
        [
            Mistake("fence.proxy.async;"),
            Mistake("cp.async.bulk.commit_group;"),
            Mistake("cp.async.bulk.wait_group 0;"),
        ],
        shared=ONE_BARRIER,
        head=BEGIN,
    ),
    *(
        Case(
            f"{name} into another block",
            init(1)
            + f"""
            mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; st.shared.u32 [%r32], 100;
            @!%p8 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
            barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
            mapa.shared::cluster.u32 %r4, %r32, %r3; mapa.shared::cluster.u32 %r5, %r30, %r3;
            mad.lo.u32 %r6, %b, 1000, %t;
            {name}.async{middle}.shared::cluster.mbarrier::complete_tx::bytes{after}.u32 [%r4], %r6, [%r5];
            mov.u32 %r6, 3;
            {WAIT.format("W", "%r30", 0)}
            ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
            barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
            """,
            [Mistake(WAIT.format("W", "%r30", 0))],
            shared=ONE_BARRIER,
            cluster=2,
            head=BEGIN,
        )
        for name, middle, after in (("st", ".weak", ""), ("red", ".relaxed.cluster", ".add"))
    ),
]

# C += A * B: A of 64 x 16 and B of 16 x 8 small whole numbers in shared memory, without a swizzle; %rd20, %rd21 name
# them, and A is in %r10 to %r13 as well. C counts threads.
MATRICES = (
    BEGIN
    + """
    shr.u32 %r29, %r31, 4; cvt.u64.u32 %rd20, %r29;
    add.u64 %rd21, %rd20, 0x0000000800080080; add.u64 %rd20, %rd20, 0x0000000800400000;
    rem.u32 %r1, %t, 7; add.u32 %r1, %r1, 1; cvt.rn.f16.u32 %h1, %r1; mov.b32 %r2, {%h1, %h1};
    mov.b32 %r10, %r2; mov.b32 %r11, %r2; mov.b32 %r12, %r2; mov.b32 %r13, %r2;
    shl.b32 %r3, %t, 4; add.u32 %r3, %r3, %r31; st.shared.v4.b32 [%r3], {%r2, %r2, %r2, %r2};
    setp.lt.u32 %p1, %t, 16; @%p1 st.shared.v4.b32 [%r3+2048], {%r2, %r2, %r2, %r2};
    cvt.rn.f32.u32 %f0, %t; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
    setp.eq.u32 %p7, 0, 0;
    """
)
STORE = """
cvt.rni.u32.f32 %r4, {0}; st.global.u32 [%rd11+{2}], %r4; cvt.rni.u32.f32 %r4, {1}; st.global.u32 [%rd12+{2}], %r4;
"""
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
PRODUCTS = [
    Case(
        "wgmma of shared memory",
        f"""
        fence.proxy.async.shared::cta; // matrices
        bar.sync 0;
        wgmma.fence.sync.aligned;
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, %rd20, %rd21, %p7, 1, 1, 0, 0;
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, %rd20, %rd21, %p7, 1, -1, 0, 0;
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, %rd20, %rd21, %p7, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        {STORE.format("%f0", "%f3", 0)}
        """,
        [
            Mistake("fence.proxy.async.shared::cta; // matrices"),
            Mistake("wgmma.fence.sync.aligned;"),
            Mistake("wgmma.commit_group.sync.aligned;"),
            Mistake("wgmma.wait_group.sync.aligned 0;"),
            Mistake("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
            Mistake(
                "wgmma.commit_group.sync.aligned;",
                "wgmma.commit_group.sync.aligned; st.shared.b64 [%r3], 0;",
            ),
        ],
        shared=ONE_BARRIER,
        block=128,
        head=MATRICES,
    ),
    Case(
        "wgmma of registers, in two groups",
        f"""
        fence.proxy.async.shared::cta;
        bar.sync 0;
        wgmma.fence.sync.aligned;
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, %rd21, %p7, 1, 1, 0;
        wgmma.commit_group.sync.aligned; // first
        {PRODUCT} {{%f4, %f5, %f6, %f7}}, {{%r10, %r11, %r12, %r13}}, %rd21, %p7, 1, 1, 0;
        wgmma.commit_group.sync.aligned; // second
        wgmma.wait_group.sync.aligned 1;
        {STORE.format("%f0", "%f3", 0)}
        wgmma.wait_group.sync.aligned 0;
        mov.b32 %r10, 0;
        {STORE.format("%f4", "%f7", 512)}
        """,
        [
            Mistake("wgmma.fence.sync.aligned;"),
            Mistake("wgmma.commit_group.sync.aligned; // first"),
            Mistake("wgmma.commit_group.sync.aligned; // second"),
            Mistake("wgmma.wait_group.sync.aligned 1;"),
            Mistake("wgmma.wait_group.sync.aligned 0;"),
            Mistake(
                "wgmma.wait_group.sync.aligned 0;\n        mov.b32 %r10, 0;",
                "mov.b32 %r10, 0; wgmma.wait_group.sync.aligned 0;",
            ),
            Mistake("fence.proxy.async.shared::cta;", "fence.proxy.async.global;"),
        ],
        shared=ONE_BARRIER,
        block=128,
        head=MATRICES,
    ),
    Case(
        "wgmma of what has changed",
        f"""
        fence.proxy.async.shared::cta;
        bar.sync 0;
        wgmma.fence.sync.aligned; // first
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, %rd21, %p7, 1, 1, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        mov.b32 %r10, 0; add.f32 %f3, %f3, %f3;
        wgmma.fence.sync.aligned; // second
        {PRODUCT} {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, %rd21, %p7, 1, 1, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        {STORE.format("%f0", "%f3", 0)}
        """,
        [Mistake("wgmma.fence.sync.aligned; // first"), Mistake("wgmma.fence.sync.aligned; // second")],
        shared=ONE_BARRIER,
        block=128,
        head=MATRICES,
    ),
]
CASES += PRODUCTS
