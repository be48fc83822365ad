# covers: numba-cuda: atomics, warp shuffles and votes, recursion, constant and local arrays, streams, events
# needs: numba.cuda
import math

import numpy as np
from numba import cuda, int64

TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.int64)


@cuda.jit
def histogram(values, bins, most):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i] % bins.size, 1)
        cuda.atomic.max(most, 0, values[i])


@cuda.jit
def warps(values, sums, odd):
    i = cuda.grid(1)
    x = values[i]
    votes = cuda.ballot_sync(0xFFFFFFFF, x % 2 == 1)
    offset = 16
    while offset > 0:
        x += cuda.shfl_down_sync(0xFFFFFFFF, x, offset)
        offset //= 2
    if cuda.laneid == 0:
        sums[i // 32] = x
        odd[i // 32] = cuda.popc(votes)


@cuda.jit("int64(int64)", device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def tables(out, angles):
    i = cuda.grid(1)
    table = cuda.const.array_like(TABLE)
    mine = cuda.local.array(8, int64)
    for k in range(8):
        mine[(k + i) % 8] = table[k] * 10
    out[i] = mine[0] + fibonacci(i % 12)
    angles[i] = math.sin(i * 0.1) ** 2 + math.cos(i * 0.1) ** 2


random = np.random.default_rng(2)
values = random.integers(0, 1000, 5000).astype(np.int32)
stream = cuda.stream()
device = cuda.to_device(values, stream=stream)
bins = cuda.to_device(np.zeros(100, np.int32), stream=stream)
most = cuda.to_device(np.zeros(1, np.int32), stream=stream)
begin, end = cuda.event(), cuda.event()
begin.record(stream)
histogram[20, 256, stream](device, bins, most)
end.record(stream)
counted = bins.copy_to_host(stream=stream)
stream.synchronize()
np.testing.assert_array_equal(counted, np.bincount(values % 100, minlength=100))
assert most.copy_to_host()[0] == values.max()
assert cuda.event_elapsed_time(begin, end) > 0

sums, odd = cuda.device_array(16, np.int32), cuda.device_array(16, np.int32)
warps[4, 128](cuda.to_device(values[:512]), sums, odd)
np.testing.assert_array_equal(sums.copy_to_host(), values[:512].reshape(16, 32).sum(1))
np.testing.assert_array_equal(odd.copy_to_host(), (values[:512] % 2).reshape(16, 32).sum(1))

out, angles = cuda.device_array(64, np.int64), cuda.device_array(64, np.float64)
tables[2, 32](out, angles)
fib = [0, 1]
while len(fib) < 12:
    fib.append(fib[-1] + fib[-2])
np.testing.assert_array_equal(out.copy_to_host(), [TABLE[-i % 8] * 10 + fib[i % 12] for i in range(64)])
np.testing.assert_allclose(angles.copy_to_host(), 1, rtol=1e-15)
print("ok")
