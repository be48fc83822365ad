"""The kernel that candidates are to replace, a snapshot of it, and the frame that all candidates share.

`y[i] = f(x[order[i]])` with f of 64 multiplications and additions: enough work to be worth skipping.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy

from replay.snapshot.schema import Census, Kernel, ParameterSlot

from ...unit.helpers.small_snapshots import HEAD
from ...unit.helpers.snapshot_factory import SnapshotFactory

COUNT, BLOCK, ROUNDS = 1024, 128, 64
_SETTLED = 1000  # rounds after which nothing changes any more, since |x| < 0.5, also when it is drawn anew
X, ORDER, Y = 0x3300_0000_0000, 0x3310_0000_0000, 0x3320_0000_0000
SLOTS = [(0, 8), (8, 8), (16, 8), (24, 4)]

# %r5: number of the element; %rd1, %rd2, %rd3: x, order, y; %rd6: of y[i]
_BEGIN = """
.visible .entry {name}(.param .u64 x, .param .u64 order, .param .u64 y, .param .u32 n) {{
    .reg .pred %p<16>; .reg .b32 %r<48>; .reg .f32 %f<32>; .reg .b64 %rd<48>;
    {locals}
    ld.param.u64 %rd41, [x]; ld.param.u64 %rd42, [order]; ld.param.u64 %rd43, [y]; ld.param.u32 %r1, [n];
    cvta.to.global.u64 %rd1, %rd41; cvta.to.global.u64 %rd2, %rd42; cvta.to.global.u64 %rd3, %rd43;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1; @%p1 bra done;
    mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4;
"""
_END = "\ndone: ret;\n}\n"
# %f1: the input; %f2: the result
READ = """
    ld.global.u32 %r6, [%rd5];
    mul.wide.u32 %rd7, %r6, 4; add.s64 %rd8, %rd1, %rd7;
    ld.global.f32 %f1, [%rd8];
"""
COMPUTE = """
    mov.f32 %f2, 0f3F000000; mov.u32 %r7, 0;
loop: mul.rn.f32 %f2, %f2, %f1; add.rn.f32 %f2, %f2, 0f3F000000;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 64; @%p2 bra loop;
"""
STORE = "    st.global.f32 [%rd6], %f2;\n"
WORK = READ + COMPUTE + STORE


def kernel(body: str, module: str = "", locals: str = "", name: str = "work", more: str = "") -> str:
    """PTX of a candidate. module: what it declares beside the kernel. more: after it."""
    return HEAD + module + _BEGIN.format(name=name, locals=locals) + body + _END + more


HONEST = kernel(WORK)


def outputs(x: numpy.ndarray, order: numpy.ndarray, rounds: int = ROUNDS) -> numpy.ndarray:
    """As the kernel computes them."""
    found = numpy.full(len(x), 0.5, "f4")
    for _ in range(min(rounds, _SETTLED)):
        found = (found * x[order]).astype("f4") + numpy.float32(0.5)
    return found.astype("f4")


def write_snapshot(
    path: Path, *, before: str = "zeros", neighbour: bool = False, rounds: int = ROUNDS
) -> Path:
    """before: what y holds when the window begins: "zeros", "garbage", or "outputs", as in an application that has
    launched the kernel before. neighbour: another buffer, 16 MiB after y, has the outputs as well. rounds: of the
    kernel's loop; other than 64 with smaller x, so that its sum settles."""
    random = numpy.random.default_rng(7)
    x = random.uniform(-0.9, 0.9, COUNT).astype("f4")
    x[::4] = 0
    x /= 1 if rounds == ROUNDS else 4
    order = random.permutation(COUNT).astype("u4")
    after = outputs(x, order, rounds).tobytes()
    held = {"zeros": bytes(4 * COUNT), "outputs": after, "garbage": random.bytes(4 * COUNT)}[before]
    factory = SnapshotFactory()
    factory.set_up(HONEST.replace("%r7, 64", f"%r7, {rounds}").encode(), "work")
    ranges = [
        factory.range(X, x.tobytes(), x.tobytes()),
        factory.range(ORDER, order.tobytes(), order.tobytes()),
        factory.range(Y, held, after),
    ]
    if neighbour:
        factory.range(Y + (16 << 20), after, after)
    grid = COUNT // BLOCK
    launch = factory.launch(struct.pack("<QQQI", X, ORDER, Y, COUNT), SLOTS, grid, BLOCK)
    words = b"".join(struct.pack("<QQII", 8 * at, 0, item.id, 0) for at, item in enumerate(ranges))
    factory.census.append(Census("call", launch.number, words))
    slots = [ParameterSlot(*slot) for slot in SLOTS]
    factory.kernels = [
        Kernel("work", "work", factory.images[0].digest, slots, 1, [grid, 1, 1], [BLOCK, 1, 1], 0)
    ]
    return factory.write(path)
