"""A program that launches a kernel again and again over one large buffer of which each launch changes a part: what
benchmarks/capture.py captures.

usage: changing_memory.py BYTES LAUNCHES PERCENT
The buffer holds noise in half precision, as weights look. PERCENT of it changes in each launch, another part each time;
0 lets the kernel read one word and change none, for windows of very many launches.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from cuda.bindings import driver

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 data, .param .u32 first, .param .u32 count, .param .u32 seed)
{
  .reg .pred %done;
  .reg .u32 %i, %n, %count, %first, %value, %seed;
  .reg .u64 %data, %at;
  ld.param.u64 %data, [data];
  ld.param.u32 %first, [first];
  ld.param.u32 %count, [count];
  ld.param.u32 %seed, [seed];
  mov.u32 %i, %ctaid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %value, %tid.x;
  mad.lo.u32 %i, %i, %n, %value;
  setp.ge.u32 %done, %i, %count;
  @%done ret;
  add.u32 %i, %i, %first;
  mul.wide.u32 %at, %i, 4;
  add.u64 %data, %data, %at;
  ld.global.u32 %value, [%data];
  mad.lo.u32 %value, %value, 1664525, %seed;
  st.global.u32 [%data], %value;
  ret;
}
"""
PIECE_BYTES = 32 << 20
THREADS = 256


def check(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; ends the program with the error's name when the call failed."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"changing_memory: the driver says {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


def main() -> int:
    """Allocate, fill, launch; end without cleaning up."""
    size_bytes, launches, percent = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(context))
    module = check(driver.cuModuleLoadData(PTX + b"\0"))
    kernel = check(driver.cuModuleGetFunction(module, b"step"))
    data = int(check(driver.cuMemAlloc(size_bytes)))
    for number, begin in enumerate(range(0, size_bytes, PIECE_BYTES)):
        length = min(PIECE_BYTES, size_bytes - begin)
        noise = (
            np.random.default_rng(number).standard_normal(length // 2, dtype=np.float32).astype(np.float16)
        )
        check(driver.cuMemcpyHtoD(data + begin, noise.ctypes.data, length))
    count = int(size_bytes / 4 * percent / 100)
    for number in range(launches):
        first = number * count % max(1, size_bytes // 4 - count)
        words = [np.array([first], np.uint32), np.array([count], np.uint32), np.array([number], np.uint32)]
        packed: list[np.ndarray] = [np.array([data], np.uint64), *words]
        addresses = np.array([value.ctypes.data for value in packed], np.uint64)
        blocks = max(1, -(-count // THREADS))
        check(driver.cuLaunchKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0, 0, addresses.ctypes.data, 0))
    check(driver.cuCtxSynchronize())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
