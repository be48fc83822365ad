"""Asks the driver what replay at the captured addresses rests on, and prints one JSON line.

An address that cuMemAlloc gave in one process: can a fresh process reserve it with cuMemAddressReserve, when the
range was held with an inaccessible mapping while the driver started, and when it was not? Nothing is asserted: the
answers are facts.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import multiprocessing
import sys
from typing import Any

SIZES_BYTES = (4096, 2 << 20, 64 << 20, 1 << 30)
MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x4000, 0x100000


def _driver() -> Any:
    driver = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    for call, arguments in (
        (driver.cuInit, (0,)),
        (driver.cuDeviceGet, (ctypes.byref(device), 0)),
        (driver.cuDevicePrimaryCtxRetain, (ctypes.byref(context), device)),
        (driver.cuCtxSetCurrent, (context,)),
    ):
        result = call(*arguments)
        if result:
            raise SystemExit(f"{call.__name__} gives {result}")
    return driver


def _allocate(pipe: Any) -> None:
    driver = _driver()
    addresses = []
    for size in SIZES_BYTES:
        address = ctypes.c_uint64()
        result = driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        addresses.append(address.value if result == 0 else 0)
    pipe.send(addresses)


def _reserve(pipe: Any, addresses: list[int], hold: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    granule = 2 << 20
    ranges = [(a // granule * granule, -(-s // granule) * granule) for a, s in zip(addresses, SIZES_BYTES)]  # noqa: B905
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
    held = [hold and libc.mmap(base, size, 0, flags, -1, 0) == base for base, size in ranges]
    driver = _driver()
    answers = []
    for (base, size), is_held in zip(ranges, held):  # noqa: B905
        if is_held:
            libc.munmap(base, size)
        got = ctypes.c_uint64()
        result = driver.cuMemAddressReserve(
            ctypes.byref(got),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            ctypes.c_uint64(base),
            ctypes.c_uint64(0),
        )
        answers.append({"held": is_held, "result": result, "same_address": got.value == base})
    pipe.send(answers)


def _in_child(function: Any, *arguments: Any) -> Any:
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=function, args=(sender, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return None
    finally:
        process.join()


def main() -> int:
    """Ask, print, and return an exit status."""
    addresses = _in_child(_allocate)
    if addresses is None:
        print("the driver could not be used")
        return 1
    facts = {
        "allocated": [{"bytes": size, "address": hex(a)} for size, a in zip(SIZES_BYTES, addresses)],  # noqa: B905
        "same_addresses_in_the_next_process": _in_child(_allocate) == addresses,
        "reserved_when_held": _in_child(_reserve, addresses, True),
        "reserved_when_not_held": _in_child(_reserve, addresses, False),
    }
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
