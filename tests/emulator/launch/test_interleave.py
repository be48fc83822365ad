"""REPLAY_EMULATOR_INTERLEAVE: after how many instructions the next warp of a block goes on."""

from __future__ import annotations

import json

import driver_api as api
import pytest

# Two warps that do the same to the same words, in step on a GPU: x[lane] += i for i < 200, each warp the whole.
TWICE = (
    api.HEADER
    + """
.visible .entry twice(.param .u64 x)
{
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p1;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %laneid; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
  mov.u32 %r2, 0;
L: ld.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, %r2;
  st.global.u32 [%rd1], %r3;
  add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 200; @%p1 bra L;
  ret;
}
"""
)

RUN = """
x = d.alloc(128); d.write(x, bytes(128))
function = d.function(d.module({text!r}), {name!r})
d.launch(function, {grid}, {block}, (x,))
print(d.cuCtxSynchronize(), *d.words(x, 32))
"""


def result(fresh, text: str, name: str, *, grid=(1,), block=(64,), **settings: str) -> list[int]:
    done = fresh(RUN.format(text=text, name=name, grid=grid, block=block), **settings)
    return [int(word) for word in done.stdout.split()]


def test_warps_that_do_the_same_work_do_it_once_when_they_take_turns_at_each_instruction(fresh):
    once = sum(range(200))
    assert result(fresh, TWICE, "twice") == [0] + [2 * once] * 32
    assert result(fresh, TWICE, "twice", INTERLEAVE="1") == [0] + [once] * 32
    assert result(fresh, TWICE, "twice", INTERLEAVE="1", THREADS="4") == [0] + [once] * 32


def test_the_order_is_the_same_every_time(fresh):
    coarse = result(fresh, TWICE, "twice", INTERLEAVE="7", block=(96,))
    assert coarse == result(fresh, TWICE, "twice", INTERLEAVE="7", block=(96,))
    assert coarse[0] == 0


# A lock in global memory that lanes of one warp, warps and blocks fight for, barriers in between.
LOCKED = (
    api.HEADER
    + """
.visible .global .align 4 .u32 lock;
.visible .entry locked(.param .u64 x)
{
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<4>;
  ld.param.u64 %rd1, [x];
  bar.sync 0;
L: atom.global.cas.b32 %r1, [lock], 0, 1;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra L;
  ld.volatile.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd1], %r2;
  membar.gl; atom.global.exch.b32 %r1, [lock], 0;
  bar.sync 0;
  ret;
}
"""
)


@pytest.mark.parametrize("turn", ["1", "3", "100", "1000000"])
def test_locks_and_barriers_end(fresh, turn: str):
    assert result(fresh, LOCKED, "locked", grid=(3,), block=(80,), INTERLEAVE=turn)[:2] == [0, 240]


def test_counters_and_outputs_are_those_of_the_usual_order(fresh, tmp_path):
    lines = []
    for turn in ("0", "1", "5"):
        counted = tmp_path / turn
        done = fresh(
            "a, b, c = d.vectors(1000); d.launch(d.vector_add(), (8,), (128,), (a, b, c, ctypes.c_int(1000)))\n"
            "print(d.floats(c, 1000) == [3.0 * i for i in range(1000)])",
            INTERLEAVE=turn,
            COUNTERS=str(counted),
        )
        assert done.stdout.split() == ["True"]
        lines.append(json.loads(counted.read_text())["counters"])
    assert lines[0] == lines[1] == lines[2]
