# needs: cupy
# capture: --kernel ^axpb$ --launch 2
"""A CuPy raw kernel, three times."""

import cupy

source = 'extern "C" __global__ void axpb(float* x, float a, float b, int n) {int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = a * x[i] + b;}'  # noqa: E501
kernel = cupy.RawKernel(source, "axpb")
x = cupy.arange(10_000, dtype=cupy.float32)
expected = cupy.asnumpy(x)
for _ in range(3):
    kernel((40,), (256,), (x, cupy.float32(2), cupy.float32(1), cupy.int32(x.size)))
    expected = 2 * expected + 1
assert (cupy.asnumpy(x) == expected).all()
