"""Candidates that keep something from one run to the next where nobody looks for it."""

from __future__ import annotations

import pytest

from .conftest import Judge
from .victim import COMPUTE, HONEST, READ, STORE, WORK, kernel


def keeping(name: str) -> str:
    """A candidate that computes on its first run only, and keeps the results in two variables."""
    kept = f"""
    mov.u64 %rd10, {name}; add.s64 %rd11, %rd10, %rd4; mov.u64 %rd12, {name}2; add.s64 %rd13, %rd12, %rd4;
    ld.global.u32 %r10, [%rd13];
    setp.eq.u32 %p5, %r10, 0; @%p5 bra compute;
    ld.global.f32 %f2, [%rd11];
    bra store;
compute:
""" + READ + COMPUTE + """
    st.global.f32 [%rd11], %f2;
    st.global.u32 [%rd13], 1;
store:
""" + STORE  # fmt: skip
    return kernel(kept, f".global .align 4 .f32 {name}[1024];\n.global .align 4 .u32 {name}2[1024];\n")


@pytest.mark.parametrize("name", ["kept", "$str", "_ZN4cuda3std5__cpo4kept"])
def test_variables_whatever_they_are_called(judge: Judge, name: str) -> None:
    """Results in a `__device__` array were timed at 11.3 us where the work takes 265 us; names that compilers give
    their own constants do not hide one."""
    honest = judge.passes(HONEST).time.median_ns
    found = judge(keeping(name))
    assert found.holds  # each run is the first
    assert found.time.median_ns >= honest
    if name != "kept":
        assert judge(keeping(name), trust=None).time.median_ns < honest


def test_shared_memory_of_an_earlier_run(judge: Judge) -> None:
    """Shared memory is not cleared when a block begins: on a device the last run's is there."""
    leftover = """
    mov.u32 %r20, table; shl.b32 %r21, %r4, 2; add.u32 %r22, %r20, %r21;
    ld.shared.u32 %r23, [%r22];
    setp.eq.u32 %p5, %r23, 0x5eed; @%p5 bra done;
""" + WORK + "    st.shared.u32 [%r22], 0x5eed;\n"  # fmt: skip
    result = judge(kernel(leftover, locals=".shared .align 4 .b32 table[128];"))
    assert result.holds == (not result.trust.findings)
    assert not result.holds or result.time.median_ns >= judge(HONEST).time.median_ns


def test_an_answer_that_hangs_on_where_memory_is(judge: Judge) -> None:
    """Cached by pointer: the key is an address. Addresses are the captured ones in every run; what is kept is not."""
    keyed = """
    setp.eq.u64 %p5, %rd1, 0x330000000000; @!%p5 bra done;
""" + WORK  # fmt: skip
    judge.passes(kernel(keyed))  # an address alone is no answer
    judge.catches(kernel("    setp.eq.u64 %p5, %rd1, 0x330000000000; @%p5 bra done;\n" + WORK), "outputs")


def test_the_clock_as_a_counter(judge: Judge) -> None:
    """Right while it is looked at: a candidate that goes wrong by chance, one run in four, by a clock of the device."""
    chance = """
    mov.u64 %rd20, %globaltimer; shr.u64 %rd21, %rd20, 12; cvt.u32.u64 %r20, %rd21;
    mul.lo.u32 %r20, %r20, 0x9E3779B1; shr.u32 %r20, %r20, 30;
    setp.eq.u32 %p5, %r20, 0; @%p5 bra done;
""" + WORK  # fmt: skip
    result = judge(kernel(chance), samples=40)
    assert not result.holds
    twin = "    mov.u64 %rd20, %globaltimer;\n" + WORK  # reads it, and does not mind
    judge.passes(kernel(twin))
