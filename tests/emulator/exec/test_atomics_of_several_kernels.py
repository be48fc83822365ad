"""Atomic operations of a kernel that runs alone are plain ones; of two that run at once no update may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import driver_api
import pytest
from small_kernels import module, run, words

if TYPE_CHECKING:
    from conftest import Fresh

# Each thread adds 1 and raises a maximum %rd1 times, all of them at the same few words.
COUNTING = module(
    """
    and.b32 %r1, %t, 3;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd0, %rd3;
    cvt.u32.u64 %r2, %rd1;
    L: red.global.add.u32 [%rd4], 1;
    atom.global.add.u32 %r3, [%rd0+64], 1;
    max.u32 %r4, %r4, %r3;
    sub.u32 %r2, %r2, 1;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra L;
    red.global.max.u32 [%rd0+128], %r4;
    """
)


def test_kernels_that_run_at_once_lose_no_update(fresh: Fresh) -> None:
    """One begins while the other is in the midst of its operations, again and again."""
    done = fresh(
        f"""
        import threading
        f = d.function(d.module({COUNTING!r}), "k")
        place, rounds, turns = d.alloc(256), 40, 300
        d.do("cuMemsetD8_v2", place, 0, 256)
        def work():
            d.do("cuCtxSetCurrent", d.context)
            stream = d.make("cuStreamCreate", 1)
            for _ in range(rounds):
                assert d.launch(f, [2], [64], [place, turns], stream=stream) == 0
                assert d.cuStreamSynchronize(stream) == 0
        threads = [threading.Thread(target=work) for _ in range(3)]
        [one.start() for one in threads]
        [one.join() for one in threads]
        print(*d.words(place, 4), d.words(place + 64, 1)[0], d.words(place + 128, 1)[0])
        """
    )
    total = 3 * 40 * 2 * 64 * 300
    assert [int(word) for word in done.stdout.split()] == [total // 4] * 4 + [total, total - 1]


OPERATIONS = {
    "add.u32": lambda old, b: (old + b) & 0xFFFFFFFF,
    "min.u32": min,
    "max.s32": max,
    "and.b32": lambda old, b: old & b,
    "xor.b32": lambda old, b: old ^ b,
    "exch.b32": lambda old, b: b,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
}


@pytest.mark.parametrize("space", ["global", "shared", "generic", "sys"])
@pytest.mark.parametrize("places", [1, 32, 5])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_lanes_take_their_turn(cuda: driver_api.Driver, space: str, places: int, operation: str) -> None:
    """All lanes at one place, each at its own, or several at one; with a result that is read and one that is not."""
    state = {"shared": ".shared", "generic": "", "sys": ".global.sys", "global": ".global"}[space]
    base = "mov.u64 %rd5, room;" if space == "shared" else "mov.u64 %rd5, %rd0;"
    copy = f"ld.global.u32 %r6, [%rd6]; st{state}.u32 [%rd4], %r6;" if space == "shared" else ""
    ptx = module(
        f"""
        .shared .align 4 .b8 room[128];
        {base}
        mul.wide.u32 %rd3, %t, 4;
        add.u64 %rd6, %rd0, %rd3;
        add.u64 %rd4, %rd5, %rd3;
        {copy}
        bar.sync 0;
        rem.u32 %r1, %t, {places};
        mul.wide.u32 %rd7, %r1, 4;
        add.u64 %rd8, %rd5, %rd7;
        mul.lo.u32 %r2, %t, 3;
        add.u32 %r2, %r2, 2;
        atom{state}.{operation} %r3, [%rd8], %r2;
        add.u32 %r4, %r2, 1;
        atom{state}.{operation} %r5, [%rd8], %r4;
        bar.sync 0;
        ld{"" if space == "sys" else state}.u32 %r6, [%rd4];
        add.u64 %rd9, %rd1, %rd3;
        st.global.u32 [%rd9], %r3;
        st.global.u32 [%rd9+128], %r6;
        """
    )
    before = [(37 * k + 11) % 101 for k in range(32)]
    memory, expected = list(before), []
    for more in (0, 1):
        for t in range(32):
            old = memory[t % places]
            memory[t % places] = OPERATIONS[operation](old, 3 * t + 2 + more)
            if more == 0:
                expected.append(old)
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [words(cuda, before), out]) == 0
    assert cuda.words(out, 64) == expected + memory
