# needs: numba
# capture: --kernel axpb --launch 2
# ptx: yes
"""A numba-cuda kernel, three times."""

import numpy as np
from numba import cuda


@cuda.jit
def axpb(x, a, b):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i] + b


expected = np.arange(10_000, dtype=np.float32)
x = cuda.to_device(expected)
for _ in range(3):
    axpb[40, 256](x, np.float32(2), np.float32(1))
    expected = np.float32(2) * expected + np.float32(1)
assert (x.copy_to_host() == expected).all()
