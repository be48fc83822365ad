# covers: NVRTC through cuda.bindings: name expressions of templates, lowered names of kernels and variables, a header
# given as text, the log of a program that does not compile.
# needs: cuda.bindings numpy nvidia-cuda-nvrtc
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""
#include "pair.h"
template <class T, int N> struct Sum {
  __device__ static T of(const T *x) { return x[0] + Sum<T, N - 1>::of(x + 1); }
};
template <class T> struct Sum<T, 0> { __device__ static T of(const T *) { return T(0); } };

namespace shop {
__constant__ int offset = 10;
template <class T, int N> __global__ void sums(const T *x, Pair<T> *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = Pair<T>{Sum<T, N>::of(x + i * N), T(offset)};
}
}
"""
HEADER = b"template <class T> struct Pair { T first, second; };"


def do(answer):
    error, *values = answer
    assert error.value == 0, error
    return values[0] if len(values) == 1 else values


do(driver.cuInit(0))
device = do(driver.cuDeviceGet(0))
do(driver.cuCtxSetCurrent(do(driver.cuDevicePrimaryCtxRetain(device))))
attribute = driver.CUdevice_attribute
capability = [
    do(driver.cuDeviceGetAttribute(name, device))
    for name in (
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )
]
options = [b"--std=c++17", b"--gpu-architecture=compute_%d%d" % tuple(capability)]

program = do(nvrtc.nvrtcCreateProgram(SOURCE, b"sums.cu", 1, [HEADER], [b"pair.h"]))
expressions = {np.int32: b"shop::sums<int, 4>", np.float64: b"&shop::sums<double, 3>"}
for expression in (*expressions.values(), b"&shop::offset"):
    do(nvrtc.nvrtcAddNameExpression(program, expression))
do(nvrtc.nvrtcCompileProgram(program, len(options), options))
ptx = b" " * do(nvrtc.nvrtcGetPTXSize(program))
do(nvrtc.nvrtcGetPTX(program, ptx))
module = do(driver.cuModuleLoadData(ptx))

offset, size = do(driver.cuModuleGetGlobal(module, do(nvrtc.nvrtcGetLoweredName(program, b"&shop::offset"))))
assert size == 4
do(driver.cuMemsetD32(offset, 33, 1))
for (dtype, expression), terms in zip(expressions.items(), (4, 3), strict=True):
    kernel = do(driver.cuModuleGetFunction(module, do(nvrtc.nvrtcGetLoweredName(program, expression))))
    values = np.arange(256 * terms, dtype=dtype)
    result = np.empty((256, 2), dtype)
    x, out = do(driver.cuMemAlloc(values.nbytes)), do(driver.cuMemAlloc(result.nbytes))
    do(driver.cuMemcpyHtoD(x, values.ctypes.data, values.nbytes))
    arguments = ((int(x), int(out)), (ctypes.c_void_p, ctypes.c_void_p))
    do(driver.cuLaunchKernel(kernel, 2, 1, 1, 128, 1, 1, 0, 0, arguments, 0))
    do(driver.cuMemcpyDtoH(result.ctypes.data, out, result.nbytes))
    np.testing.assert_array_equal(result[:, 0], values.reshape(256, terms).sum(axis=1))
    np.testing.assert_array_equal(result[:, 1], np.full(256, 33, dtype))

wrong = do(nvrtc.nvrtcCreateProgram(b"__global__ void k() { undeclared(); }", b"wrong.cu", 0, [], []))
error = nvrtc.nvrtcCompileProgram(wrong, 0, [])[0]
assert error == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION, error
log = b" " * do(nvrtc.nvrtcGetProgramLogSize(wrong))
do(nvrtc.nvrtcGetProgramLog(wrong, log))
assert b"undeclared" in log
print("ok")
