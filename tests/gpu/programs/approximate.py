"""Every approximate operation of f32 over a million numbers, each into a buffer of its own, so that a replay on another
device shows how far the two are apart in each. Prints one line that names the buffers in order."""

from __future__ import annotations

import ctypes
import struct

from cuda.bindings import driver

OPERATIONS = ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")
COUNT = 1 << 20

_parameters = ",".join(f".param .u64 to_{name}" for name in OPERATIONS)
_bodies = "\n".join(
    f"ld.param.u64 %rd2, [to_{name}]; add.s64 %rd3, %rd2, %rd9; {name}.approx.f32 %f2, %f1; st.global.f32 [%rd3], %f2;"
    for name in OPERATIONS
)
PTX = f"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry approximate(.param .u64 from, {_parameters})
{{
  .reg .f32 %f<3>; .reg .b32 %r<5>; .reg .b64 %rd<10>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.s32 %rd9, %r4, 4;
  ld.param.u64 %rd1, [from]; add.s64 %rd1, %rd1, %rd9; ld.global.f32 %f1, [%rd1];
  {_bodies}
  ret;
}}
"""


def call(answer: tuple) -> object:
    code, *values = answer
    if int(code):
        raise SystemExit(f"the driver returned {code}")
    return values[0] if values else None


def main() -> None:
    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
    module = call(driver.cuModuleLoadData(PTX.encode() + b"\0"))
    kernel = call(driver.cuModuleGetFunction(module, b"approximate"))
    # 2^-3 to 2^3 in even steps: every mantissa's neighbourhood, and inside of [-2 pi, 2 pi] where sine has a bound
    numbers = struct.pack(f"<{COUNT}f", *(0.125 + 6.1 * i / COUNT for i in range(COUNT)))
    buffers = [call(driver.cuMemAlloc(4 * COUNT)) for _ in range(len(OPERATIONS) + 1)]
    call(driver.cuMemcpyHtoD(buffers[0], numbers, len(numbers)))
    values = tuple(int(buffer) for buffer in buffers)
    kinds = (ctypes.c_uint64,) * len(buffers)
    call(driver.cuLaunchKernel(kernel, COUNT // 256, 1, 1, 256, 1, 1, 0, 0, (values, kinds), 0))
    call(driver.cuCtxSynchronize())
    print(" ".join(OPERATIONS), flush=True)


main()
