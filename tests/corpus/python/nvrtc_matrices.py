# covers: NVRTC with mma.h: fragments of nvcuda::wmma in half, bfloat16, tf32, double and bytes, loaded, multiplied and
# stored by one warp, also column by column.
# needs: cuda.bindings numpy nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl
# relocation: proven
import ctypes
import importlib.metadata

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""
#include <mma.h>
using namespace nvcuda;
template <class T, class Kept, class Sum, int M, int N, int K>
__device__ void product(const Kept *a, const Kept *b, Sum *c) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
  wmma::fill_fragment(sum, Sum(1));
  for (int k = 0; k < 4; ++k) {
    wmma::load_matrix_sync(left, a + k * K, 4 * K);
    wmma::load_matrix_sync(right, b + k * K, 4 * K);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= Sum(2);
  wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}
extern "C" {
__global__ void f16(const __half *a, const __half *b, float *c) { product<__half, __half, float, 16, 16, 16>(a, b, c); }
__global__ void bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
  product<__nv_bfloat16, __nv_bfloat16, float, 8, 32, 16>(a, b, c);
}
__global__ void tf32(const float *a, const float *b, float *c) {
  product<wmma::precision::tf32, float, float, 16, 16, 8>(a, b, c);
}
__global__ void f64(const double *a, const double *b, double *c) { product<double, double, double, 8, 8, 4>(a, b, c); }
__global__ void s8(const signed char *a, const signed char *b, int *c) {
  product<signed char, signed char, int, 32, 8, 16>(a, b, c);
}
}
"""
SHAPES = {"f16": (16, 16, 16), "bf16": (8, 32, 16), "tf32": (16, 16, 8), "f64": (8, 8, 4), "s8": (32, 8, 16)}
IN, OUT = {"f16": "f2", "tf32": "f4", "f64": "f8", "s8": "i1"}, {"f64": "f8", "s8": "i4"}


def do(answer):
    error, *values = answer
    assert error.value == 0, error
    return values[0] if len(values) == 1 else values


def folder():
    """Where the headers of the installed packages are."""
    files = importlib.metadata.files("nvidia-cuda-runtime")
    return next(file.locate().parent for file in files if str(file).endswith("/include/mma.h"))


do(driver.cuInit(0))
device = do(driver.cuDeviceGet(0))
do(driver.cuCtxSetCurrent(do(driver.cuDevicePrimaryCtxRetain(device))))
options = [b"--std=c++17", b"--gpu-architecture=compute_80", f"-I{folder()}".encode()]
program = do(nvrtc.nvrtcCreateProgram(SOURCE, b"products.cu", 0, [], []))
answer = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
log = b" " * do(nvrtc.nvrtcGetProgramLogSize(program))
do(nvrtc.nvrtcGetProgramLog(program, log))
assert answer == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
ptx = b" " * do(nvrtc.nvrtcGetPTXSize(program))
do(nvrtc.nvrtcGetPTX(program, ptx))
module = do(driver.cuModuleLoadData(ptx))

random = np.random.default_rng(3)
for kind, (m, n, k) in SHAPES.items():
    a, b = random.integers(-4, 5, (m, 4 * k)), random.integers(-4, 5, (n, 4 * k))
    if kind == "bf16":
        kept = [(x.astype("f4").view("u4") >> 16).astype("u2") for x in (a, b)]
    else:
        kept = [x.astype(IN[kind]) for x in (a, b)]
    result = np.empty((m, n), OUT.get(kind, "f4"))
    left, right, out = (do(driver.cuMemAlloc(x.nbytes)) for x in (*kept, result))
    for to, values in zip((left, right), kept, strict=True):
        do(driver.cuMemcpyHtoD(to, values.ctypes.data, values.nbytes))
    kernel = do(driver.cuModuleGetFunction(module, kind.encode()))
    arguments = ((int(left), int(right), int(out)), (ctypes.c_void_p,) * 3)
    do(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0))
    do(driver.cuMemcpyDtoH(result.ctypes.data, out, result.nbytes))
    np.testing.assert_array_equal(result, 2 * (1 + a @ b.T), err_msg=kind)
print("ok")
