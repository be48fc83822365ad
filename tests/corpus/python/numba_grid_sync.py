# covers: numba-cuda: a cooperative launch whose grid synchronises, through the device runtime's functions
# needs: numba.cuda
import numpy as np
from numba import cuda


@cuda.jit
def rotate(values, rounds):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(rounds):
        taken = values[(i + 1) % values.size]
        grid.sync()
        values[i] = taken + 1
        grid.sync()


expected = np.arange(640)
values = cuda.to_device(expected)
rotate[5, 128](values, 4)
for _ in range(4):
    expected = np.roll(expected, -1) + 1
np.testing.assert_array_equal(values.copy_to_host(), expected)
print("ok")
