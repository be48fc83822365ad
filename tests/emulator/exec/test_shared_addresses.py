"""Accesses of a basic block through one row of addresses: only the first finds out where the lanes are."""

from __future__ import annotations

import driver_api
import pytest
from small_kernels import module, run, words


@pytest.mark.parametrize("space", ["global", "shared"])
def test_an_access_takes_no_addresses_of_an_earlier_turn_from_one_that_its_guard_left_out(
    cuda: driver_api.Driver, space: str
) -> None:
    """The guarded load is the first through %rd4 in each turn of the loop; it runs in the first turn alone."""
    ptx = module(
        f"""
        mov.u64 %rd4, {"%rd0" if space == "global" else "words"};
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd4, %rd4, %rd5;
        mov.u32 %r1, 0;
        mov.u32 %r9, 0;
        add.u32 %r8, %t, 100;
        st.{space}.u32 [%rd4], %r8;
        add.u32 %r8, %t, 200;
        st.{space}.u32 [%rd4+128], %r8;
        bar.sync 0;
        L: setp.eq.u32 %p1, %r1, 0;
        @%p1 ld.{space}.u32 %r2, [%rd4];
        ld.{space}.u32 %r3, [%rd4];
        add.u32 %r9, %r9, %r3;
        add.u64 %rd4, %rd4, 128;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p2, %r1, 2;
        @%p2 bra L;
        add.u64 %rd5, %rd1, %rd5;
        st.global.u32 [%rd5], %r9;
        """,
        shared=".shared .align 4 .b8 words[256];",
    )
    memory, out = words(cuda, [0] * 64), words(cuda, [0] * 32)
    assert run(cuda, ptx, [memory, out]) == 0
    assert cuda.words(out, 32) == [300 + 2 * lane for lane in range(32)]


# The first access is inside, the second through the same addresses is not, or may not be.
@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ("ld.global.u32 %r1, [%rd4];", "ld.global.u32 %r2, [%rd4+128];", 0),
        ("ld.global.u32 %r1, [%rd4];", "ld.global.u32 %r2, [%rd4+132];", 700),
        ("ld.global.u32 %r1, [%rd4];", "ld.global.u32 %r2, [%rd4+-4];", 700),
        ("ld.global.u32 %r1, [%rd4];", "st.global.u32 [%rd4+132], %r1;", 700),
        ("ld.global.u32 %r1, [%rd4];", "ld.global.u32 %r2, [%rd4+2];", 716),
        ("ld.u32 %r1, [%rd4];", "st.u32 [%rd4+132], %r1;", 700),
        ("ld.shared.u32 %r1, [%rd6];", "ld.shared.u32 %r2, [%rd6+128];", 0),
        ("ld.shared.u32 %r1, [%rd6];", "ld.shared.u32 %r2, [%rd6+132];", 700),
        ("st.shared.u32 [%rd6], %r1;", "ld.shared.u32 %r2, [%rd6+-4];", 700),
        ("ld.u32 %r1, [%rd7];", "ld.u32 %r2, [%rd7+4];", 0),
        ("ld.u32 %r1, [%rd7];", "st.u32 [%rd7+4], %r1;", 0),
        ("ld.u32 %r1, [%rd7];", "st.u32 [%rd7+1024], %r1;", 700),
        ("ld.const.u32 %r1, [%rd8];", "ld.const.u32 %r2, [%rd8+1024];", 700),
    ],
)
def test_each_access_through_shared_addresses_is_checked(
    cuda: driver_api.Driver, first: str, second: str, error: int
) -> None:
    ptx = module(
        f"""
        .shared .align 4 .b8 s[256];
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd4, %rd0, %rd5;
        mov.u64 %rd6, s;
        add.u64 %rd6, %rd6, %rd5;
        mov.u64 %rd8, table;
        add.u64 %rd8, %rd8, %rd5;
        cvta.const.u64 %rd7, %rd8;
        mov.u32 %r1, 1;
        mov.u32 %r7, 0;
        mov.u64 %rd9, %rd4;
        L: {first}
        {second}
        add.u32 %r7, %r7, 1;
        setp.lt.u32 %p2, %r7, 3;
        @%p2 bra L;
        """,
    ).replace(".visible .entry", ".const .align 4 .b8 table[256];\n.visible .entry")
    assert run(cuda, ptx, [words(cuda, [0] * 64), 0]) == error


@pytest.mark.parametrize("space", ["shared", "local"])
def test_addresses_of_32_bits_in_a_window_wrap(cuda: driver_api.Driver, space: str) -> None:
    """As nvcc makes of temp[1 - tid]: the row is negative in some lanes, the offset brings it back."""
    ptx = module(
        f"""
        .{space} .align 4 .b8 s[256];
        mov.u32 %r1, s;
        shl.b32 %r2, %t, 2;
        add.u32 %r3, %r1, %r2;
        st.{space}.u32 [%r3], %t;
        bar.sync 0;
        sub.u32 %r4, %r1, %r2;
        ld.{space}.u32 %r5, [%r4+124];
        atom.{space}.add.u32 %r6, [%r4+124], 1000;
        bar.sync 0;
        ld.{space}.u32 %r7, [%r3];
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd5, %rd0, %rd5;
        st.global.u32 [%rd5], %r5;
        st.global.u32 [%rd5+128], %r7;
        """,
        parameters=1,
    )
    if space == "local":  # each lane has its own: it finds what it wrote itself, or nothing
        ptx = "\n".join(line for line in ptx.splitlines() if "atom" not in line)
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [out]) == 0
    if space == "shared":
        assert cuda.words(out, 64) == [31 - lane for lane in range(32)] + [1000 + lane for lane in range(32)]
    else:
        assert cuda.words(out, 64) == [0] * 32 + list(range(32))
