"""Kernels of the samples through the driver API alone, each timed by events inside this application.

usage: kernels_plain.py --list | --measure | --case NAME

As kernels_torch.py, whose output it has; the stream is held on a flag while work is queued.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import statistics
import sys
from collections.abc import Callable

driver = ctypes.CDLL("libcuda.so.1")
SAMPLES = pathlib.Path(__file__).resolve().parents[3] / "samples"
COLD_ROUNDS, HOT_ROUNDS, BATCH_US = 30, 10, 1000.0
L2_BYTES = 38  # CUdevice_attribute
Run = Callable[[], None]


def call(name: str, *arguments: object) -> None:
    result = getattr(driver, name)(*arguments)
    if result:
        raise SystemExit(f"{name} returned {result}")


def made(name: str, *arguments: object) -> int:
    value = ctypes.c_uint64(0)
    call(name, ctypes.byref(value), *arguments)
    return value.value


def buffer(count: int) -> ctypes.c_uint64:
    """So many floats, of values that no fill has."""
    address = ctypes.c_uint64(made("cuMemAlloc_v2", ctypes.c_size_t(4 * count)))
    numbers = (ctypes.c_float * 65536)(*(0.5 + index % 251 / 64 for index in range(65536)))
    for start in range(0, count, 65536):
        size = ctypes.c_size_t(4 * min(65536, count - start))
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(address.value + 4 * start), numbers, size)
    call("cuCtxSynchronize")
    return address


def launcher(sample: str, name: str, grid: tuple[int, int], block: tuple[int, int], *values: object) -> Run:
    module = made("cuModuleLoadData", (SAMPLES / sample / f"{sample}.ptx").read_bytes() + b"\0")
    function = ctypes.c_uint64(made("cuModuleGetFunction", ctypes.c_uint64(module), name.encode()))
    places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))  # type: ignore[arg-type]
    size = (*grid, 1, *block, 1, 0)

    def run() -> None:
        assert values
        call("cuLaunchKernel", function, *size, None, places, None)

    return run


def vector_add(count: int) -> Run:
    memory = [buffer(count) for _ in range(3)]
    return launcher("vector_add", "vector_add", (count // 256, 1), (256, 1), *memory, ctypes.c_uint32(count))


def reduce_blocks(count: int) -> Run:
    blocks = min(count // 256, 2048)
    memory = [buffer(count), buffer(blocks)]
    return launcher("reduce", "reduce_blocks", (blocks, 1), (256, 1), *memory, ctypes.c_uint32(count))


def matmul(size: int) -> Run:
    memory = [buffer(size * size) for _ in range(3)]
    sizes = [ctypes.c_uint32(size) for _ in range(6)]
    return launcher("matmul_tiled", "matmul_tiled", (size // 16, size // 16), (16, 16), *memory, *sizes)


CASES: dict[str, Callable[[], Run]] = {
    "plain_vector_1M": lambda: vector_add(1 << 20),
    "plain_vector_16M": lambda: vector_add(1 << 24),
    "plain_vector_128M": lambda: vector_add(1 << 27),  # 512 MiB to restore
    "plain_reduce_1M": lambda: reduce_blocks(1 << 20),
    "plain_reduce_32M": lambda: reduce_blocks(1 << 25),
    "plain_matmul_256": lambda: matmul(256),
    "plain_matmul_1024": lambda: matmul(1024),
}
SMALL = ("plain_vector_1M", "plain_matmul_256")  # what the built-in CPU driver is asked for


class Clock:
    """Times runs by two events, in us."""

    def __init__(self) -> None:
        l2_bytes = ctypes.c_int(0)
        call("cuDeviceGetAttribute", ctypes.byref(l2_bytes), L2_BYTES, 0)
        self._size = ctypes.c_size_t(2 * max(l2_bytes.value, 1))
        self._flushed = ctypes.c_uint64(made("cuMemAlloc_v2", self._size))
        self._start, self._end = (ctypes.c_uint64(made("cuEventCreate", 0)) for _ in range(2))
        self._address = ctypes.c_uint64(made("cuMemHostAlloc", ctypes.c_size_t(4), 3))
        self._flag = ctypes.c_uint32.from_address(self._address.value)
        self._elapsed = ctypes.c_float(0)

    def _time(self, run: Run, times: int, *, flush: bool) -> float:
        if flush:
            call("cuMemsetD8Async", self._flushed, 0, self._size, None)
            call("cuCtxSynchronize")
        self._flag.value = 0
        call("cuStreamWaitValue32_v2", None, self._address, 1, 1)
        call("cuEventRecord", self._start, None)
        for _ in range(times):
            run()
        call("cuEventRecord", self._end, None)
        self._flag.value = 1
        call("cuCtxSynchronize")
        call("cuEventElapsedTime", ctypes.byref(self._elapsed), self._start, self._end)
        return self._elapsed.value * 1000 / times

    def measure(self, run: Run) -> dict[str, float]:
        for _ in range(3):
            run()
        call("cuCtxSynchronize")
        once_us = min(self._time(run, 1, flush=False) for _ in range(3))
        times = max(1, min(200, round(BATCH_US / max(once_us, 1.0))))
        if is_emulated():
            times = 1
        cold = [self._time(run, 1, flush=True) for _ in range(3 if is_emulated() else COLD_ROUNDS)]
        hot = [self._time(run, times, flush=False) for _ in range(3 if is_emulated() else HOT_ROUNDS)]
        return {"cold_us": statistics.median(cold), "hot_us": statistics.median(hot)}


def is_emulated() -> bool:
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, 0)
    return name.value.startswith(b"Emulated")


def main() -> int:
    call("cuInit", 0)
    call("cuCtxSetCurrent", ctypes.c_uint64(made("cuDevicePrimaryCtxRetain", 0)))
    cases = {name: make for name, make in CASES.items() if name in SMALL or not is_emulated()}
    if sys.argv[1] == "--list":
        print(json.dumps(list(cases)))
    elif sys.argv[1] == "--measure":
        clock = Clock()
        print(json.dumps({name: clock.measure(make()) for name, make in cases.items()}))
    else:
        run = cases[sys.argv[2]]()
        for _ in range(5):
            run()
        call("cuCtxSynchronize")
        call("cuProfilerStart")
        run()
        call("cuProfilerStop")
        call("cuCtxSynchronize")
    return 0


if __name__ == "__main__":
    sys.exit(main())
