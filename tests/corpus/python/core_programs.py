# covers: cuda.core: programs compiled by NVRTC to PTX with templates and options, launches with arguments of many types
# needs: cuda.core nvidia-cuda-nvrtc
import ctypes

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
template <typename T> __global__ void axpy(T a, const T* x, T* y, size_t count) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < count) y[i] = a * x[i] + y[i] * T(SCALE);
}
extern "C" __global__ void types(signed char a, short b, bool c, unsigned long long d, float e, double f, double* out) {
  out[0] = a, out[1] = b, out[2] = c, out[3] = d, out[4] = e, out[5] = f;
  extern __shared__ double shared[];
  shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[6 + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
"""
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(arch="compute_80", std="c++17", define_macro=("SCALE", "3"), fma=False)
names = ("axpy<float>", "axpy<double>", "types")
code = Program(SOURCE, code_type="c++", options=options).compile("ptx", name_expressions=names)


def upload(values):
    buffer = device.allocate(values.nbytes, stream=stream)
    stream.sync()
    assert driver.cuMemcpyHtoD(int(buffer.handle), values.ctypes.data, values.nbytes)[0] == 0
    return buffer


def download(buffer, like):
    values = np.empty_like(like)
    stream.sync()
    assert driver.cuMemcpyDtoH(values.ctypes.data, int(buffer.handle), values.nbytes)[0] == 0
    return values


for dtype, name in ((np.float32, "axpy<float>"), (np.float64, "axpy<double>")):
    x, y = np.arange(1000, dtype=dtype), np.ones(1000, dtype=dtype)
    a, b = upload(x), upload(y)
    launch(stream, LaunchConfig(grid=8, block=128), code.get_kernel(name), dtype(2), a, b, np.uint64(1000))
    np.testing.assert_array_equal(download(b, y), 2 * x + 3)

out = upload(np.zeros(38))
arguments = (np.int8(-3), np.int16(-300), True, np.uint64(1 << 40), ctypes.c_float(0.5), 0.25)
config = LaunchConfig(grid=1, block=32, shmem_size=256)
launch(stream, config, code.get_kernel("types"), *arguments, out)
expected = [-3, -300, 1, 1 << 40, 0.5, 0.25, *range(31, -1, -1)]
np.testing.assert_array_equal(download(out, np.zeros(38)), expected)
kernel = code.get_kernel("types")
assert kernel.num_arguments == 7
assert kernel.attributes.max_threads_per_block == 1024
print("ok")
