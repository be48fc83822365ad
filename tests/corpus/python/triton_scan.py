# covers: Triton: running sums, and an associative scan of pairs with an operation of the program's own.
# needs: triton cuda.bindings numpy
import numpy as np
import triton
import triton.language as tl
from parts.arrays import DeviceArray, use_primary_context


@triton.jit
def compose(a, b, c, d):
    """x -> c * (a * x + b) + d"""
    return a * c, b * c + d


@triton.jit
def scan(x_ptr, sums_ptr, factors_ptr, offsets_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(sums_ptr + at, tl.cumsum(x, axis=1))
    factors, offsets = tl.associative_scan((x, x + 1), 0, compose)
    tl.store(factors_ptr + at, factors)
    tl.store(offsets_ptr + at, offsets)


use_primary_context()
rows, columns = 16, 128
x = np.random.default_rng(5).integers(-9, 9, (rows, columns)).astype(np.int32)
sums, factors, offsets = (DeviceArray(np.zeros_like(x)) for _ in range(3))
scan[(1,)](DeviceArray(x), sums, factors, offsets, ROWS=rows, COLUMNS=columns)
np.testing.assert_array_equal(sums.numpy(), np.cumsum(x, axis=1))
a, b = np.ones(columns, np.int32), np.zeros(columns, np.int32)
for row in range(rows):  # 32-bit integers wrap alike on both sides
    a, b = a * x[row], b * x[row] + x[row] + 1
    np.testing.assert_array_equal(factors.numpy()[row], a)
    np.testing.assert_array_equal(offsets.numpy()[row], b)
print("ok")
