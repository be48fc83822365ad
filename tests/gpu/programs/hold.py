"""What a short kernel takes between two events when its stream is not held while it is queued, when it is held on a
flag (cuStreamWaitValue32), and when a kernel in front of it spins on that flag. Prints one JSON line, times in us."""

from __future__ import annotations

import ctypes
import json
import statistics
import sys

from kernels_plain import call, is_emulated, made, vector_add

ROUNDS, COUNT = 300, 1 << 18
SPIN = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 flag) {
  .reg .u64 %a; .reg .u32 %r; .reg .pred %p;
  ld.param.u64 %a, [flag];
again:
  ld.volatile.global.u32 %r, [%a];
  setp.eq.u32 %p, %r, 0;
  @%p bra again;
  ret;
}
\0"""


def main() -> int:
    call("cuInit", 0)
    call("cuCtxSetCurrent", ctypes.c_uint64(made("cuDevicePrimaryCtxRetain", 0)))
    run = vector_add(COUNT)
    run()
    module = ctypes.c_uint64(made("cuModuleLoadData", SPIN))
    spin = ctypes.c_uint64(made("cuModuleGetFunction", module, b"spin"))
    address = ctypes.c_uint64(made("cuMemHostAlloc", ctypes.c_size_t(4), 3))
    flag = ctypes.c_uint32.from_address(address.value)
    start, end = (ctypes.c_uint64(made("cuEventCreate", 0)) for _ in range(2))
    places = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    elapsed = ctypes.c_float(0)

    def sample(way: str) -> float:
        flag.value = 0 if way != "spinning kernel" else 1
        if way == "spinning kernel":  # once with the flag set: its code is loaded before anything is held
            call("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 0, None, places, None)
            call("cuCtxSynchronize")
            flag.value = 0
            call("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 0, None, places, None)
        elif way == "wait value":
            call("cuStreamWaitValue32_v2", None, address, 1, 1)
        call("cuEventRecord", start, None)
        run()
        call("cuEventRecord", end, None)
        flag.value = 1
        call("cuCtxSynchronize")
        call("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        return elapsed.value * 1000

    ways = ["not held", "wait value", "spinning kernel"]
    if is_emulated():
        ways.remove("spinning kernel")  # a launch runs at once there, and would never end
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(5 if is_emulated() else ROUNDS):
        for way in ways:  # in turns
            times[way].append(sample(way))
    quartiles = {way: statistics.quantiles(values, n=4) for way, values in times.items()}
    print(json.dumps({way: [round(value, 3) for value in values] for way, values in quartiles.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
