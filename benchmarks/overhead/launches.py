"""Times launches that Python makes through ctypes, at a depth of frames; prints the least CPU time of a batch, in ns a
launch.

    python launches.py KERNEL BATCHES CALLS_PER_BATCH DEPTH
"""

from __future__ import annotations

import ctypes
import sys
import time


def main(kernel: str, batches: int, calls: int, depth: int) -> None:
    """Print the time."""
    if depth > 1:
        main(kernel, batches, calls, depth - 1)
        return
    driver = ctypes.CDLL("libcuda.so.1")
    function, memory = ctypes.c_uint64(), ctypes.c_uint64()
    driver.cuInit(0)
    driver.cuModuleGetFunction(ctypes.byref(function), ctypes.c_uint64(1), kernel.encode())
    driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))
    count = ctypes.c_uint64(1024)
    values = (ctypes.c_void_p * 4)(*map(ctypes.addressof, (memory, memory, memory, count)))
    launch = driver.cuLaunchKernel
    launch.argtypes = [
        ctypes.c_uint64,
        *[ctypes.c_uint] * 7,
        ctypes.c_uint64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    place = ctypes.addressof(values)
    least = float("inf")
    for batch in range(batches + 1):  # the first is warm-up
        start = time.thread_time_ns()
        for _ in range(calls):
            launch(function.value, 1, 1, 1, 256, 1, 1, 0, 0, place, None)
        if batch:
            least = min(least, (time.thread_time_ns() - start) / calls)
    print(least)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
