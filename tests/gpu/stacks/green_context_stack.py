# needs: numpy
# capture: --kernel ^add$ --launch 2
"""A green context with a part of the multiprocessors, and launches in its stream, with the driver API alone."""

import ctypes

import numpy as np

driver = ctypes.CDLL("libcuda.so.1")
SM, RESOURCE_BYTES, DEFAULT_STREAM, NON_BLOCKING = 1, 144, 1, 1
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


def resource() -> ctypes.Array:
    return ctypes.create_string_buffer(RESOURCE_BYTES)


call("cuInit", 0)
whole, groups, rest, count = resource(), resource(), resource(), ctypes.c_uint32(1)
call("cuDeviceGetDevResource", 0, whole, SM)
call("cuDevSmResourceSplitByCount", groups, ctypes.byref(count), whole, rest, 0, 8)
description, green, context, stream = handle(), handle(), handle(), handle()
call("cuDevResourceGenerateDesc", ctypes.byref(description), groups, 1)
call("cuGreenCtxCreate", ctypes.byref(green), description, 0, DEFAULT_STREAM)
call("cuCtxFromGreenCtx", ctypes.byref(context), green)
call("cuCtxSetCurrent", context)
call("cuGreenCtxStreamCreate", ctypes.byref(stream), green, NON_BLOCKING, 0)

module, function, memory = handle(), handle(), handle()
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * 32))
numbers = np.arange(32, dtype=np.uint32)
call("cuMemcpyHtoD_v2", memory, numbers.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(numbers.nbytes))
for value in (1, 10, 100):
    word = ctypes.c_uint32(value)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(word))
    call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, None)
call("cuStreamSynchronize", stream)
result = np.empty_like(numbers)
call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), memory, ctypes.c_size_t(result.nbytes))
assert (result == numbers + 111).all()
