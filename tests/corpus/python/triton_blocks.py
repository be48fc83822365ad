# covers: Triton: scans, sorts, histograms, atomics, transposed blocks, products without tensor cores
# needs: triton
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402


@triton.jit
def scan_and_sort(values, sums, ordered, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(values + at)
    tl.store(sums + at, tl.cumsum(x, axis=0))
    tl.store(ordered + at, tl.sort(x))


@triton.jit
def count(values, bins, total, BLOCK: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(values + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(bins + tl.arange(0, BINS), tl.histogram(x, BINS))
    tl.atomic_max(total, tl.max(x, axis=0))


@triton.jit
def multiply(a, b, c, N: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float64)
    for k in range(0, N, BLOCK):
        at = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * N + at[None, :])
        right = tl.trans(tl.load(b + columns[:, None] * N + at[None, :]))
        sums += tl.sum(left[:, :, None].to(tl.float64) * right[None, :, :].to(tl.float64), axis=1)
    tl.store(c + rows[:, None] * N + columns[None, :], sums)


use_primary_context()
random = np.random.default_rng(1)
x = random.integers(0, 64, (8, 256)).astype(np.int32)
device, sums, ordered = DeviceArray(x), DeviceArray(x), DeviceArray(x)
scan_and_sort[(8,)](device, sums, ordered, BLOCK=256)
np.testing.assert_array_equal(sums.numpy(), np.cumsum(x, axis=1))
np.testing.assert_array_equal(ordered.numpy(), np.sort(x, axis=1))

bins, most = DeviceArray(np.zeros(64, np.int32)), DeviceArray(np.zeros(1, np.int32))
count[(8,)](device, bins, most, BLOCK=256, BINS=64)
np.testing.assert_array_equal(bins.numpy(), np.bincount(x.ravel(), minlength=64))
assert most.numpy()[0] == x.max()

a, b = (random.integers(-8, 8, (32, 32)).astype(np.float32) for _ in range(2))
c = DeviceArray(np.zeros((32, 32)))
multiply[(2, 2)](DeviceArray(a), DeviceArray(b), c, N=32, BLOCK=16)
np.testing.assert_array_equal(c.numpy(), a.astype(float) @ b.astype(float).T)
print("ok")
