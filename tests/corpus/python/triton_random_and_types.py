# covers: Triton: random numbers, conversions, integer division, masks, loops whose end depends on data
# needs: triton
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402


@triton.jit
def draw(out, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at))


@triton.jit
def convert(values, halves, whole, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(values + at, mask=at < count)
    tl.store(halves + at, x.to(tl.float16), mask=at < count)
    tl.store(whole + at, (x * 1000).to(tl.int32) // 7 % 5, mask=at < count)


@triton.jit
def collatz(out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = at.to(tl.int64) + 1
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    while tl.max(x, axis=0) > 1:
        steps += (x > 1).to(tl.int32)
        x = tl.where(x <= 1, 1, tl.where(x % 2 == 0, x // 2, 3 * x + 1))
    tl.store(out + at, steps)


use_primary_context()
numbers, again = (DeviceArray(np.zeros(4096, np.float32)) for _ in range(2))
draw[(4,)](numbers, 42, BLOCK=1024)
draw[(16,)](again, 42, BLOCK=256)
drawn = numbers.numpy()
np.testing.assert_array_equal(drawn, again.numpy())
assert drawn.min() >= 0
assert drawn.max() < 1
assert abs(drawn.mean() - 0.5) < 0.02

x = np.random.default_rng(3).random(100, dtype=np.float32)
halves, whole = DeviceArray(np.zeros(100, np.float16)), DeviceArray(np.zeros(100, np.int32))
convert[(1,)](DeviceArray(x), halves, whole, 100, BLOCK=128)
np.testing.assert_array_equal(halves.numpy(), x.astype(np.float16))
np.testing.assert_array_equal(whole.numpy(), (x * np.float32(1000)).astype(np.int32) // 7 % 5)


def steps_of(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


steps = DeviceArray(np.zeros(64, np.int32))
collatz[(1,)](steps, BLOCK=64)
np.testing.assert_array_equal(steps.numpy(), [steps_of(n + 1) for n in range(64)])
print("ok")
