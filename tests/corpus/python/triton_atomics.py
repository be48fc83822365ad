# covers: Triton: atomic add, maximum, exchange and compare-and-swap, a lock around a sum, a histogram.
# needs: triton cuda.bindings numpy
import numpy as np
import triton
import triton.language as tl
from parts.arrays import DeviceArray, use_primary_context


@triton.jit
def count_values(x_ptr, histogram_ptr, greatest_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(histogram_ptr + x % 8, 1, mask=mask)
    tl.atomic_max(greatest_ptr, tl.max(x, axis=0))


@triton.jit
def locked_sum(x_ptr, lock_ptr, total_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    mine = tl.sum(x, axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + mine)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


use_primary_context()
x = np.random.default_rng(4).integers(0, 1 << 30, 5000).astype(np.int32)
histogram, greatest = DeviceArray(np.zeros(8, np.int32)), DeviceArray(np.zeros(1, np.int32))
count_values[(triton.cdiv(x.size, 512),)](DeviceArray(x), histogram, greatest, x.size, BLOCK=512)
np.testing.assert_array_equal(histogram.numpy(), np.bincount(x % 8, minlength=8))
assert greatest.numpy()[0] == x.max()

x = np.arange(2048, dtype=np.float32)  # whose sums are exact
lock, total = DeviceArray(np.zeros(1, np.int32)), DeviceArray(np.zeros(1, np.float32))
locked_sum[(16,)](DeviceArray(x), lock, total, BLOCK=128)
assert total.numpy()[0] == x.sum(dtype=np.float64)
assert lock.numpy()[0] == 0
print("ok")
