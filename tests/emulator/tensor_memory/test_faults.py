"""What programs do wrong with tensor memory: named with kernel, line, block and thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small_kernels import complaint, module

if TYPE_CHECKING:
    from conftest import Fresh

ALLOC = "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], {};"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r3, [{}];"
PRODUCT = "mov.u32 %r4, {}; tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd8, %rd8, %r4, 0;"
PRODUCT_OF_BYTES = PRODUCT.replace("kind::f16", "kind::i8")
F16_128x8 = 8 << 24 | 1 << 17 | 1 << 4
S32_128x8 = 8 << 24 | 1 << 17 | 2 << 4


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (LOAD.format(0), 700, "lane 0, columns 0 to 0, which are not allocated"),
        (
            ALLOC.format(32) + "ld.shared.u32 %r2, [%r1]; add.u32 %r2, %r2, 32;" + LOAD.format("%r2"),
            700,
            "columns 32 to 32, which are not allocated",
        ),
        (LOAD.format(600), 700, "columns 600 to 600, where there are 128 lanes of 512 columns"),
        (
            LOAD.format(32 << 16),
            700,
            "tcgen05.ld of lanes 32 to 63 by warp 0, which reaches lanes 0 to 31",
        ),
        (
            ALLOC.format(64),
            715,
            "the block ends with tensor memory that was never deallocated: 64 columns from",
        ),
        (
            ALLOC.format(48),
            715,
            "tcgen05.alloc of 48 columns: the number must be a power of 2 from 32 to 512",
        ),
        (ALLOC.format(32) * 2 + FREE.format(0, 64), 715, "tcgen05.dealloc of 64 columns from column 0 on"),
        (
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + ALLOC.format(32),
            715,
            "tcgen05.alloc after tcgen05.relinquish_alloc_permit",
        ),
        (
            ALLOC.format(512) + ALLOC.format(32),
            719,
            "32 columns of tensor memory, of which the block has 0 left",
        ),
        (
            "setp.lt.u32 %p2, %t, 16; @%p2 ret;" + LOAD.format(0),
            715,
            "tcgen05.ld by a part of a warp: 16 of its 32 lanes have exited",
        ),
        ("mov.u32 %r2, %t;" + LOAD.format("%r2"), 715, "tcgen05.ld by threads that name different addresses"),
        (
            "setp.eq.u32 %p2, %t, 1; selp.u32 %r2, 1, 0, %p2;" + LOAD.format("%r2"),
            715,
            "tcgen05.ld by threads that name different addresses",
        ),
        *(
            (f"setp.lt.u32 %p2, %t, 16; @%p2 ret; {body}", 715, f"{name} by a part of a warp: 16 of its 32")
            for name, body in (
                ("tcgen05.st", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], %r3;"),
                ("tcgen05.alloc", ALLOC.format(32)),
                ("tcgen05.dealloc", FREE.format(0, 32)),
                (
                    "tcgen05.relinquish_alloc_permit",
                    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
                ),
            )
        ),
        (
            f"setp.lt.u32 %p2, %t, 16; @%p2 bra OTHER; {LOAD.format(0)} bra END; OTHER: {LOAD.format(0)} END:",
            719,
            "lanes of warp 0 wait for the lanes 0x",
        ),
        (
            ALLOC.format(32) + "mbarrier.init.shared::cta.b64 [%r1], 1;"
            "L: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0; @!%p3 bra L;",
            719,
            "the mbarrier at 0x0 in shared memory, where 1 arrivals and 0 bytes are missing",
        ),
        (PRODUCT.format(0), 715, "an instruction descriptor"),
        (PRODUCT.format(F16_128x8 | 1 << 28), 715, "M 384 and N 8"),
        (
            PRODUCT.format(F16_128x8 | 2 << 7 | 2 << 10),
            715,
            "with types that this kind of tcgen05.mma does not",
        ),
        (
            PRODUCT_OF_BYTES.format(S32_128x8 | 2 << 7),
            715,
            "with types that this kind of tcgen05.mma does not",
        ),
        *(
            (
                ALLOC.format(32)
                + "ld.shared.u32 %r2, [%r1]; mov.u32 %r5, tile; mbarrier.init.shared::cta.b64 [%r5], 32;"
                + reaches_25_to_32
                + "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];"
                "wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra wait;",
                700,
                "columns 25 to 32, which are not allocated",
            )
            for reaches_25_to_32 in (
                PRODUCT.format(F16_128x8).replace("%rd8", "[%r2+25]", 1),
                "tcgen05.cp.cta_group::1.4x256b [%r2+25], %rd8;",
                "add.u32 %r2, %r2, 25; tcgen05.shift.cta_group::1.down [%r2];",
            )
        ),
        (
            "mov.u64 %rd8, 0x400000003fff;" + PRODUCT.format(F16_128x8),
            700,
            "a matrix descriptor that reaches 262144 bytes into shared memory",
        ),
        (
            "mov.u64 %rd8, 0x6000400000000000;" + PRODUCT.format(F16_128x8),
            715,
            "a matrix descriptor with bits that are not defined",
        ),
        (
            "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32;",
            715,
            "cta_group::2 by a block that has no other to form a pair with",
        ),
        (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];",
            715,
            "an mbarrier that is not initialised",
        ),
    ],
)
def test_what_is_wrong_is_named(fresh: Fresh, body: str, status: int, said: str, deferred: str) -> None:
    ptx = module(
        "mov.u32 %r1, place; setp.lt.u32 %p1, %t, 32; mov.u64 %rd8, 0x400000000000;\n" + body,
        shared=".shared .align 1024 .b8 tile[1024]; .shared .align 8 .b32 place[2];",
        parameters=0,
    )
    told = complaint(fresh, ptx, status, DEFERRED=deferred)
    assert said in told
    assert "in kernel k, PTX line 1" in told
    assert "block (0,0,0), thread (" in told


def test_columns_given_back_under_a_product_that_is_late_are_named(fresh: Fresh) -> None:
    body = f"""
    {ALLOC.format(32)} ld.shared.u32 %r2, [%r1]; setp.eq.u32 %p2, %t, 0; mov.u32 %r4, {F16_128x8};
    @%p2 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd8, %rd8, %r4, 0;
    {FREE.format("%r2", 32)}
    """
    ptx = module(
        "mov.u32 %r1, place; setp.lt.u32 %p1, %t, 32; mov.u64 %rd8, 0x400000000000;\n" + body,
        shared=".shared .align 1024 .b8 tile[4096]; .shared .align 8 .b32 place[2];",
        parameters=0,
    )
    told = complaint(fresh, ptx, 700, DEFERRED="1")
    assert "columns 0 to 7, which are not allocated" in told
    assert "in kernel k, PTX line 1" in told
    assert "block (0,0,0), thread (0,0,0)" in told
