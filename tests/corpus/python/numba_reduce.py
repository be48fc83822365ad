# covers: numba-cuda: sums by warp shuffles and atomics, cuda.reduce, the greatest by atomic.max, histograms.
# needs: numba_cuda numpy
import numpy as np
from numba import cuda


@cuda.jit
def reduce(values, total, greatest, histogram):
    i = cuda.grid(1)
    value = values[i] if i < values.size else 0
    if i < values.size:
        cuda.atomic.max(greatest, 0, value)
        cuda.atomic.add(histogram, value % 16, 1)
    offset = 16
    while offset:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, value)


values = np.random.default_rng(1).integers(0, 1_000_000, 10_001).astype(np.int32)
total, greatest = cuda.to_device(np.zeros(1, np.int64)), cuda.to_device(np.zeros(1, np.int32))
histogram = cuda.to_device(np.zeros(16, np.int32))
on_device = cuda.to_device(values)
reduce[(values.size + 255) // 256, 256](on_device, total, greatest, histogram)
assert total.copy_to_host()[0] == values.sum(dtype=np.int64)
assert greatest.copy_to_host()[0] == values.max()
np.testing.assert_array_equal(histogram.copy_to_host(), np.bincount(values % 16, minlength=16))


@cuda.reduce
def largest(a, b):
    return max(a, b)


assert largest(on_device) == values.max()
print("ok")
