"""A program whose one launch reaches a given amount of device memory: what benchmarks/snapshot.py captures.

Half of the memory is noise in half precision, as weights look; a quarter repeats itself; a quarter is zero.
usage: large_memory.py BYTES
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

BUFFER_BYTES = 32 << 20
PTX = Path(__file__).resolve().parents[1] / "samples" / "pointer_table" / "pointer_table.ptx"


def check(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; ends the program with the error's name when the call failed."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"large_memory: the driver says {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


def contents(index: int) -> bytes:
    """What buffer `index` holds."""
    kind = index % 4
    if kind == 3:
        return bytes(BUFFER_BYTES)
    if kind == 2:
        return bytes(range(256)) * (BUFFER_BYTES // 256)
    noise = np.random.default_rng(index).standard_normal(BUFFER_BYTES // 2, dtype=np.float32)
    return noise.astype(np.float16).tobytes()


def main() -> int:
    """Allocate, fill, launch once over a table of pointers to everything; end without cleaning up."""
    count = max(1, int(sys.argv[1]) // BUFFER_BYTES)
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(context))
    module = check(driver.cuModuleLoadData(PTX.read_bytes() + b"\0"))
    kernel = check(driver.cuModuleGetFunction(module, b"pointer_table"))
    rows = [int(check(driver.cuMemAlloc(BUFFER_BYTES))) for _ in range(count)]
    for index, row in enumerate(rows):
        check(driver.cuMemcpyHtoD(row, contents(index), BUFFER_BYTES))
    table = np.array(rows, np.uint64)
    device_table = int(check(driver.cuMemAlloc(table.nbytes)))
    check(driver.cuMemcpyHtoD(device_table, table.ctypes.data, table.nbytes))
    output = int(check(driver.cuMemAlloc(4096)))
    view = np.zeros(1, np.dtype([("count", "u4"), ("data", "u8"), ("scale", "f4")], align=True))
    view["count"], view["data"], view["scale"] = 256, output, 1.0
    packed: list[np.ndarray] = [np.array([device_table], np.uint64), np.array([count], np.uint32), view]
    addresses = np.array([value.ctypes.data for value in packed], np.uint64)
    check(driver.cuLaunchKernel(kernel, 2, 1, 1, 128, 1, 1, 0, 0, addresses.ctypes.data, 0))
    check(driver.cuCtxSynchronize())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
