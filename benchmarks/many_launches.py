"""A program with many launches of two small kernels, whose arguments change from launch to launch, in three streams
with events between them, and now and then a copy, a fill and memory that comes and goes.

    python benchmarks/many_launches.py LAUNCHES
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from cuda.bindings import driver

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 data, .param .u32 place, .param .u32 value) {
  .reg .u64 %data, %at;
  .reg .u32 %place, %value;
  ld.param.u64 %data, [data];
  ld.param.u32 %place, [place];
  ld.param.u32 %value, [value];
  mul.wide.u32 %at, %place, 4;
  add.u64 %data, %data, %at;
  st.global.u32 [%data], %value;
  ret;
}
.visible .entry move(.param .u64 to, .param .u64 from, .param .u32 value) {
  .reg .u64 %to, %from;
  .reg .u32 %value;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.global.u32 %value, [%from];
  st.global.u32 [%to], %value;
  ret;
}
"""
WORDS = 16384  # of a buffer


def check(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; ends the program with the error's name when the call failed."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"many_launches: the driver says {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


def now_and_then(number: int, data: int, host: np.ndarray, stream: Any) -> None:
    """What goes on between launches."""
    if number % 50 == 49:
        host[:] = number
        check(driver.cuMemcpyHtoDAsync(data, host.ctypes.data, 256, stream))
    if number % 100 == 99:
        check(driver.cuMemcpyDtoH(host.ctypes.data, data, 128))
    if number % 1000 == 999:
        scratch = check(driver.cuMemAlloc(4096))
        check(driver.cuMemsetD32Async(scratch, number, 1024, stream))
        check(driver.cuStreamSynchronize(stream))
        check(driver.cuMemFree(scratch))


def main() -> int:
    """Launch; end without cleaning up."""
    launches = int(sys.argv[1])
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))
    module = check(driver.cuModuleLoadData(PTX + b"\0"))
    put, move = (check(driver.cuModuleGetFunction(module, name)) for name in (b"put", b"move"))
    buffers = [int(check(driver.cuMemAlloc(4 * WORDS))) for _ in range(6)]
    for data in buffers:
        check(driver.cuMemsetD32(data, 0, WORDS))
    streams = [check(driver.cuStreamCreate(0)) for _ in range(3)]
    events = [check(driver.cuEventCreate(0)) for _ in range(3)]
    host, words = np.zeros(64, np.uint32), np.zeros(3, np.uint64)
    addresses = np.array([words.ctypes.data + 8 * place for place in range(3)], np.uint64)
    given = addresses.ctypes.data
    for number in range(launches):
        stream, data = streams[number % 3], buffers[number % 6]
        if number % 7 == 3:
            kernel, words[:] = move, (buffers[number % 5], buffers[number * 3 % 6], number)
        else:
            kernel, words[:] = put, (data, number * 37 % WORDS, number)
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, given, 0))
        if number % 10 == 9:
            event = events[number // 10 % 3]
            check(driver.cuEventRecord(event, stream))
            check(driver.cuStreamWaitEvent(streams[(number + 1) % 3], event, 0))
        now_and_then(number, data, host, stream)
    check(driver.cuCtxSynchronize())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
