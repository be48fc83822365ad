# covers: The driver API through cuda.bindings: PTX, kernel arguments as ctypes values, copies from NumPy, events.
# needs: cuda.bindings numpy
import ctypes

import numpy as np
from cuda.bindings import driver

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %out; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<6>;
  ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %out, %r5, %r1;
  @%out ret;
  mul.wide.u32 %rd3, %r5, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
  ret;
}
"""


def do(answer):
    error, *values = answer
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else values


do(driver.cuInit(0))
device = do(driver.cuDeviceGet(0))
context = do(driver.cuDevicePrimaryCtxRetain(device))
do(driver.cuCtxSetCurrent(context))
kernel = do(driver.cuModuleGetFunction(do(driver.cuModuleLoadData(PTX)), b"saxpy"))
stream = do(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

count = 10_000
# Small integers: the sums are exact, so that rounding has no say.
x = np.arange(count, dtype=np.float32)
y = np.arange(count, dtype=np.float32)[::-1].copy()
result = np.empty_like(y)
on_device = [do(driver.cuMemAlloc(x.nbytes)) for _ in range(2)]
for address, values in zip(on_device, (x, y), strict=True):
    do(driver.cuMemcpyHtoDAsync(address, values.ctypes.data, values.nbytes, stream))
arguments = ((3.0, *on_device, count), (ctypes.c_float, None, None, ctypes.c_uint))
start, end = (do(driver.cuEventCreate(0)) for _ in range(2))
do(driver.cuEventRecord(start, stream))
do(driver.cuLaunchKernel(kernel, (count + 255) // 256, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
do(driver.cuEventRecord(end, stream))
do(driver.cuMemcpyDtoHAsync(result.ctypes.data, on_device[1], y.nbytes, stream))
do(driver.cuStreamSynchronize(stream))
np.testing.assert_array_equal(result, 3 * x + y)
assert do(driver.cuEventElapsedTime(start, end)) > 0
assert driver.cuMemFree(1)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
for address in on_device:
    do(driver.cuMemFree(address))
do(driver.cuDevicePrimaryCtxRelease(device))
print("ok")
