# covers: numba-cuda: shared memory, barriers, a reduction made by the package, two-dimensional grids
# needs: numba.cuda
# relocation: proven
import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def matmul(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        left[ty, tx] = a[row, start + tx]
        right[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.reduce
def total(a, b):
    return a + b


random = np.random.default_rng(1)
a, b = (random.integers(-4, 5, (64, 64)).astype(np.float32) for _ in range(2))
c = cuda.device_array((64, 64), np.float32)
matmul[(4, 4), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
np.testing.assert_array_equal(c.copy_to_host(), a @ b)

values = random.integers(-1000, 1000, 12345)
assert total(values) == values.sum()
print("ok")
