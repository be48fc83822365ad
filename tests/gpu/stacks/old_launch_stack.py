# needs: numpy
# capture: --kernel ^add$ --launch 2
"""The launch protocol before cuLaunchKernel: shape and parameters are told to the function first."""

import ctypes

import numpy as np

driver = ctypes.CDLL("libcuda.so.1")
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 value) {
  .reg .u64 %a<3>;
  .reg .u32 %r<4>;
  ld.param.u64 %a0, [data];
  ld.param.u32 %r0, [value];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a1, %r1, 4;
  add.u64 %a2, %a0, %a1;
  ld.global.u32 %r2, [%a2];
  add.u32 %r3, %r2, %r0;
  st.global.u32 [%a2], %r3;
  ret;
}
\0"""


def call(name: str, *arguments: object) -> None:
    result = getattr(driver, name)(*arguments)
    assert result == 0, f"{name} returned {result}"


def handle() -> ctypes.c_uint64:
    return ctypes.c_uint64(0)


call("cuInit", 0)
context = handle()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)

module, function, memory = handle(), handle(), handle()
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * 32))
numbers = np.arange(32, dtype=np.uint32)
call("cuMemcpyHtoD_v2", memory, numbers.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(numbers.nbytes))
for value in (1, 10, 100):
    call("cuFuncSetBlockShape", function, 32, 1, 1)
    call("cuParamSetv", function, 0, ctypes.byref(memory), 8)
    call("cuParamSeti", function, 8, value)
    call("cuParamSetSize", function, 12)
    call("cuLaunchGrid", function, 1, 1)
call("cuCtxSynchronize")
result = np.empty_like(numbers)
call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), memory, ctypes.c_size_t(result.nbytes))
assert (result == numbers + 111).all()
