"""Kernels that order copies of tensors and operations of tensor memory correctly, and the same kernels with one thing
forgotten."""

from __future__ import annotations

from asynchronous_kernels import BEGIN, ONE_BARRIER, WAIT, Case, Mistake, init

SHARED = ONE_BARRIER + " .shared .b32 place;"
DONE = WAIT.format("W", "%r30", 0)
COMMIT = "@!%p8 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r30];"
FENCE = "fence.proxy.async.shared::cta;"
STORED, LOADED = "tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r28], {{{0}}};"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{{0}}}, [%r28];"
OUT = f"{LOAD.format('%r2')} {LOADED} st.global.u32 [%rd11], %r2;"
# What nobody has waited for would reach columns that are given back.
LATE = WAIT.format("L", "%r30", 0)
LOAD_FORM = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
COPY_MAP = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r28, 32;"
# A column of tensor memory from %r28 on; %rd20 names a matrix in shared memory whose rows have 32 bytes, unswizzled.
HEAD = (
    BEGIN
    + """
    mov.u32 %r29, place; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r29], 32; ld.shared.u32 %r28, [%r29];
    shr.u32 %r1, %r31, 4; cvt.u64.u32 %rd20, %r1; or.b64 %rd20, %rd20, 0x400800080000;
    """
)
# The matrix is full of the numbers 1 to 4 of f16, by block.
FILL = """
cvt.rn.f16.u32 %h1, %b; add.f16 %h1, %h1, 0x3c00; mov.b32 %r2, {%h1, %h1}; mov.u32 %r3, %t;
FILL: mad.lo.u32 %r4, %r3, 4, %r31; st.shared.u32 [%r4], %r2;
add.u32 %r3, %r3, 32; setp.lt.u32 %p1, %r3, 1024; @%p1 bra FILL;
"""
F16_128x8 = 8 << 24 | 1 << 17 | 1 << 4
PRODUCT = f"mov.u32 %r5, {F16_128x8}; @!%p8 tcgen05.mma.cta_group::1.kind::f16 [%r28], %rd20, %rd20, %r5, 1;"

TENSOR_CASES = [
    Case(
        "cp.async.bulk.tensor into shared memory",
        f"""
        {init(1)} shl.b32 %r20, %b, 8;
        @%p8 bra GO;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
        {LOAD_FORM} [%r31], [%rd3, {{%r20}}], [%r30];
        GO:
        {DONE}
        ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1;
        """,
        [
            Mistake(DONE),
            Mistake("arrive.expect_tx.shared::cta.b64 _, [%r30], 128", "arrive.shared::cta.b64 _, [%r30]"),
            Mistake("GO:", "GO: st.global.u32 [%rd10], 7;"),
        ],
        shared=ONE_BARRIER,
        head=BEGIN,
        maps=True,
    ),
    *(
        Case(
            f"a tensor map that is changed {where}",
            f"""
            {init(1)} shl.b32 %r20, %b, 8; sub.u64 %rd6, %rd0, %rd30; add.u64 %rd6, %rd6, 128;
            add.u64 %rd7, %rd3, %rd31; ld.global.u32 %r1, [%rd7]; st.global.u32 [%rd12], %r1;
            st.shared.u32 [%r32+2048], %r1; bar.sync 0;
            add.u32 %r21, %r31, 2048;
            {change}
            @%p8 bra GO;
            fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r30], 128;
            {LOAD_FORM} [%r31], [%rd2, {{%r20}}], [%r30];
            GO:
            {DONE}
            ld.shared.u32 %r1, [%r32]; st.global.u32 [%rd11], %r1; st.global.u32 [%rd12], 0;
            """,
            [Mistake("fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;")],
            shared=ONE_BARRIER,
            head=BEGIN,
            maps=True,
        )
        for where, change in (
            (
                "in global memory",
                """@!%p8 tensormap.replace.tile.global_address.global.b1024.b64 [%rd2], %rd6;
                fence.proxy.tensormap::generic.release.gpu;""",
            ),
            (
                "in shared memory",
                f"""@!%p8 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r21], %rd6; bar.warp.sync -1;
                {COPY_MAP} [%rd2], [%r21], 128;""",
            ),
        )
    ),
    *(
        Case(
            f"{name}.async.bulk.tensor out of shared memory",
            f"""
            ld.global.u32 %r1, [%rd10]; st.shared.u32 [%r32], %r1;
            shl.b32 %r20, %b, 8; add.u64 %rd4, %rd3, 128;
            {FENCE} // source
            bar.sync 0;
            @%p8 bra REST;
            {name}.async.bulk.tensor.1d.global.shared::cta{operation}.tile.bulk_group [%rd4, {{%r20}}], [%r31];
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group.read 0;
            REST: bar.sync 0;
            st.shared.u32 [%r32], 9; {FENCE}
            @%p8 ret;
            cp.async.bulk.wait_group 0;
            ld.global.u32 %r2, [%rd1+4]; st.global.u32 [%rd2], %r2;
            """,
            [
                Mistake(f"{FENCE} // source"),
                Mistake("cp.async.bulk.commit_group;"),
                Mistake("cp.async.bulk.wait_group.read 0;"),
                Mistake("cp.async.bulk.wait_group 0;"),
                Mistake("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"),
            ],
            shared=ONE_BARRIER,
            head=BEGIN,
            maps=True,
        )
        for name, operation in (("cp", ""), ("cp.reduce", ".add"))
    ),
    Case(
        "tcgen05.st and .ld",
        f"""
        ld.global.u32 %r1, [%rd10];
        {STORE.format("%r1")} mov.u32 %r1, 77;
        {STORED} // first
        mov.u32 %r2, 5;
        {LOAD.format("%r2")}
        {LOADED} // first
        st.global.u32 [%rd11], %r2;
        {LOAD.format("%r2")}
        {LOADED} // before it changes
        {STORE.format("%r1")} {STORED}
        {LOADED}
        st.global.u32 [%rd12], %r2;
        {FREE}
        """,
        [
            Mistake(f"{STORED} // first"),
            Mistake(f"{STORED} // first", LOADED),
            Mistake(f"{LOADED} // first"),
            Mistake(f"{LOADED} // first", STORED),
            Mistake(f"{LOADED} // before it changes"),
        ],
        shared=SHARED,
        head=HEAD,
    ),
    Case(
        "tcgen05.ld of pairs and reduced",
        f"""
        ld.global.u32 %r1, [%rd10]; add.u32 %r3, %r1, 100000;
        tcgen05.st.sync.aligned.32x32b.x2.b32 [%r28], {{%r1, %r3}}; {STORED}
        tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {{%r4, %r5}}, %r6, [%r28];
        tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {{%r7}}, [%r28];
        {LOADED}
        st.global.u32 [%rd11], %r6; st.global.u32 [%rd12], %r7;
        {FREE}
        """,
        [Mistake(LOADED)],
        shared=SHARED,
        head=HEAD,
    ),
    Case(
        "tcgen05.cp",
        f"""
        {init(1)}
        {FILL} mov.u32 %r2, 9; st.shared.u32 [%r32+2048], %r2; bar.sync 0;
        {FENCE} // source
        bar.sync 0;
        @!%p8 tcgen05.cp.cta_group::1.128x128b [%r28], %rd20;
        {COMMIT}
        {DONE}
        st.shared.u32 [%r32], 3;
        {OUT}
        {LATE} {FREE}
        """,
        [
            Mistake(f"{FENCE} // source"),
            Mistake(DONE),
            Mistake(f"{DONE}\n        st.shared.u32 [%r32], 3;", f"st.shared.u32 [%r32], 3; {FENCE} {DONE}"),
        ],
        shared=SHARED,
        head=HEAD,
    ),
    Case(
        "tcgen05.mma",
        f"""
        {init(1)}
        {FILL} bar.sync 0;
        mov.u32 %r1, 0x40e00000; {STORE.format("%r1")}
        {STORED} // sum
        {FENCE} // matrices
        bar.sync 0;
        {PRODUCT}
        {COMMIT}
        {DONE}
        {OUT}
        {LATE} {FREE}
        """,
        [
            Mistake(f"{STORED} // sum"),
            Mistake(f"{FENCE} // matrices"),
            Mistake(f"{FENCE} // matrices", "fence.proxy.async.global;"),
            Mistake(DONE),
            Mistake(f"{DONE}", f"st.shared.v4.u32 [%r31], {{0, 0, 0, 0}}; {DONE}"),
        ],
        shared=SHARED,
        head=HEAD,
    ),
]
