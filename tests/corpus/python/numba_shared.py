# covers: numba-cuda: a tiled product of matrices in static shared memory, a scan in dynamic shared memory, local and
# constant arrays.
# needs: numba_cuda numpy
import numpy as np
from numba import cuda, float32, int32

TILE = 8
WEIGHTS = np.array([1, 2, 4, 8], np.int32)


@cuda.jit
def product(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        k = tile * TILE
        left[y, x] = a[row, k + x] if row < a.shape[0] and k + x < a.shape[1] else 0
        right[y, x] = b[k + y, column] if column < b.shape[1] and k + y < b.shape[0] else 0
        cuda.syncthreads()
        for i in range(TILE):
            total += left[y, i] * right[i, x]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def scan(values):
    weights = cuda.const.array_like(WEIGHTS)
    shared = cuda.shared.array(0, int32)
    last = cuda.local.array(2, int32)
    i = cuda.threadIdx.x
    shared[i] = values[i] * weights[i % 4]
    step = 1
    while step < cuda.blockDim.x:
        cuda.syncthreads()
        last[0] = shared[i]
        last[1] = shared[i - step] if i >= step else 0
        cuda.syncthreads()
        shared[i] = last[0] + last[1]
        step *= 2
    values[i] = shared[i]


generator = np.random.default_rng(2)
a = generator.integers(-9, 9, (20, 37)).astype(np.float32)  # small integers: the sums are exact
b = generator.integers(-9, 9, (37, 30)).astype(np.float32)
c = cuda.device_array((20, 30), np.float32)
product[(4, 3), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
np.testing.assert_array_equal(c.copy_to_host(), a @ b)

values = generator.integers(-100, 100, 200).astype(np.int32)
on_device = cuda.to_device(values)
scan[1, 200, 0, 200 * 4](on_device)
np.testing.assert_array_equal(on_device.copy_to_host(), np.cumsum(values * np.tile(WEIGHTS, 50)))
print("ok")
