"""`.pragma "used_bytes_mask"`: compilers widen loads over bytes that nobody uses and that may lie outside of memory."""

from __future__ import annotations

import driver_api
import numpy as np
import pytest
from small_kernels import module, run, words

ILLEGAL_ADDRESS = 700
LOAD = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+16];"


def allocation(cuda: driver_api.Driver, count: int) -> int:
    address = cuda.alloc(count)
    cuda.write(address, np.arange(1, count + 1, dtype="u1").tobytes())
    return address


@pytest.mark.parametrize(
    ("pragma", "error"),
    [
        ('.pragma "used_bytes_mask 3855";', 0),  # elements 0 and 2
        ('.pragma "used_bytes_mask 0x0F0F";', 0),
        ('.pragma "nounroll", "used_bytes_mask 3855";', 0),
        ("", ILLEGAL_ADDRESS),
        ('.pragma "used_bytes_mask 65535";', ILLEGAL_ADDRESS),
        ('.pragma "used_bytes_mask 0";', ILLEGAL_ADDRESS),
        ('.pragma "used_bytes_mask many";', ILLEGAL_ADDRESS),
        ('.pragma "used_bytes_mask 3855"; mov.u32 %r9, 0;', ILLEGAL_ADDRESS),  # says it of the mov
    ],
)
def test_bytes_after_the_last_used_one_may_be_outside(
    cuda: driver_api.Driver, pragma: str, error: int
) -> None:
    ptx = module(f"{pragma} {LOAD} st.global.v2.u32 [%rd1], {{%r1, %r3}};")
    out = words(cuda, [0, 0])
    assert run(cuda, ptx, [allocation(cuda, 28), out], block=1) == error
    if error == 0:
        assert cuda.words(out, 2) == [0x14131211, 0x1C1B1A19]


@pytest.mark.parametrize("block", [1, 2, 32])
@pytest.mark.parametrize("used", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 16])
def test_the_used_bytes_are_loaded(cuda: driver_api.Driver, used: int, block: int) -> None:
    """The last lane's bytes end with the allocation, up to the next piece that one load takes."""
    tail = used % 4
    end = used + (tail == 3)
    count = 16 * (block - 1) + end
    ptx = module(
        f"""
        mul.wide.u32 %rd5, %t, 16;
        add.u64 %rd4, %rd0, %rd5;
        add.u64 %rd5, %rd1, %rd5;
        mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
        .pragma "used_bytes_mask {(1 << used) - 1}";
        ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd4];
        st.global.v4.u32 [%rd5], {{%r1, %r2, %r3, %r4}};
        """
    )
    out = words(cuda, [0] * 4 * block)
    memory = allocation(cuda, count)
    assert run(cuda, ptx, [memory, out], block=block) == 0
    expected = np.zeros(16 * block, "u1")
    expected[:count] = np.arange(1, count + 1, dtype="u1")
    found = np.array(cuda.words(out, 4 * block), "u4").view("u1").reshape(block, 16)
    assert found[:, :used].tolist() == expected.reshape(block, 16)[:, :used].tolist()


def test_an_address_may_be_in_the_list_that_is_loaded(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, words;
        st.shared.v4.u32 [%r1], {11, 12, 13, 14};
        .pragma "used_bytes_mask 4095";
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r1];
        st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r3;
        """,
        shared=".shared .align 16 .b8 words[16];",
    )
    out = words(cuda, [0] * 3)
    assert run(cuda, ptx, [0, out], block=1) == 0
    assert cuda.words(out, 3) == [11, 12, 13]


@pytest.mark.parametrize("taken", [0, 1])
def test_a_guard_holds_for_all_of_the_load(cuda: driver_api.Driver, taken: int) -> None:
    ptx = module(
        f"""
        mov.u32 %r1, 5; mov.u32 %r3, 5;
        setp.eq.u32 %p1, %t, {1 - taken};
        .pragma "used_bytes_mask 3855";
        @%p1 {LOAD}
        st.global.v2.u32 [%rd1], {{%r1, %r3}};
        """
    )
    out = words(cuda, [0, 0])
    assert run(cuda, ptx, [allocation(cuda, 28), out], block=1) == 0
    assert cuda.words(out, 2) == ([0x14131211, 0x1C1B1A19] if taken else [5, 5])
