"""Asks the driver what replay at the captured addresses rests on, and prints one JSON line.

An address that the driver gave in one process: can a fresh process reserve it with cuMemAddressReserve and use memory
there, when the range was held with an inaccessible mapping while the driver started, and when it was not? Does the
driver start at all while the lowest such addresses are held, and which addresses has it to itself? Nothing is asserted:
the answers are facts.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import multiprocessing
import re
import struct
import sys
from typing import Any

MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x4000, 0x100000
GRANULE_BYTES = 2 << 20
LOWEST_HELD_ADDRESS = 1 << 40  # as the engine has it
MAXIMUM_LINES = 60
MAXIMUM_NEW_LINES = 8  # that one allocation adds to the map of the process
KINDS = (
    *(("cuMemAlloc", size) for size in (4096, 2 << 20, 64 << 20, 1 << 30)),
    ("cuMemAllocAsync", 64 << 20),
    ("cuMemAddressReserve", 64 << 20),
    ("cuMemAllocManaged", 64 << 20),
)


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


def _maps() -> list[str]:
    """What the driver has mapped: device files, and large stretches that nothing may touch."""
    found = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            start, end = (int(edge, 16) for edge in line.split(" ", 1)[0].split("-"))
            if "nvidia" in line or (" ---p " in line and end - start >= 1 << 30):
                found.append(re.sub(r"\s+", " ", line).strip())
    return found[:MAXIMUM_LINES]


def _edges() -> set[str]:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        return {" ".join(line.split()[:2] + line.split()[5:]) for line in file}


def _allocate(pipe: Any) -> None:
    driver = _driver()
    addresses, appeared = [], []
    for kind, size in KINDS:
        address, bytes_ = ctypes.c_uint64(), ctypes.c_size_t(size)
        place = ctypes.byref(address)
        before = _edges()
        if kind == "cuMemAlloc":
            result = driver.cuMemAlloc_v2(place, bytes_)
        elif kind == "cuMemAllocAsync":
            result = driver.cuMemAllocAsync(place, bytes_, None)
        elif kind == "cuMemAllocManaged":
            result = driver.cuMemAllocManaged(place, bytes_, 1)
        else:
            zero = ctypes.c_uint64(0)
            result = driver.cuMemAddressReserve(place, bytes_, ctypes.c_size_t(0), zero, zero)
        addresses.append(address.value if result == 0 else 0)
        appeared.append(sorted(_edges() - before)[:MAXIMUM_NEW_LINES])
    pipe.send((addresses, _maps(), appeared))


def _use(driver: Any, address: int, size: int) -> str:
    """What the first function returned that fails to give memory there, or "works"."""
    handle, zero, bytes_ = ctypes.c_uint64(), ctypes.c_uint64(0), ctypes.c_size_t(size)
    properties = ctypes.create_string_buffer(struct.pack("<IIIiQQ", 1, 0, 1, 0, 0, 0))  # pinned, of device 0
    access = ctypes.create_string_buffer(struct.pack("<IiI", 1, 0, 3))  # device 0 reads and writes
    place = ctypes.c_uint64(address)
    calls = (
        ("cuMemCreate", ctypes.byref(handle), bytes_, properties, zero),
        ("cuMemMap", place, bytes_, ctypes.c_size_t(0), handle, zero),
        ("cuMemSetAccess", place, bytes_, access, ctypes.c_size_t(1)),
        ("cuMemsetD8_v2", place, ctypes.c_ubyte(1), bytes_),
        ("cuCtxSynchronize",),
        ("cuMemUnmap", place, bytes_),
        ("cuMemRelease", handle),
    )
    for name, *arguments in calls:
        if result := getattr(driver, name)(*arguments):
            return f"{name} gives {result}"
    return "works"


def _reserve(pipe: Any, addresses: list[int], hold: bool, lowest: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
    places = []
    for (kind, size), address in zip(KINDS, addresses):  # noqa: B905
        base, end = address // GRANULE_BYTES * GRANULE_BYTES, address + size
        size = -(-(end - base) // GRANULE_BYTES) * GRANULE_BYTES
        held = bool(address) and hold and base >= lowest and libc.mmap(base, size, 0, flags, -1, 0) == base
        places.append((kind, base, size, held))
    driver = _driver()
    answers = []
    for kind, base, size, held in places:
        if not base:
            continue
        if held:
            libc.munmap(base, size)
        got = ctypes.c_uint64()
        arguments = (
            ctypes.c_size_t(size),
            ctypes.c_size_t(GRANULE_BYTES),
            ctypes.c_uint64(base),
            ctypes.c_uint64(0),
        )
        result = driver.cuMemAddressReserve(ctypes.byref(got), *arguments)
        same = result == 0 and got.value == base
        answers.append(
            {
                "kind": kind,
                "bytes": size,
                "address": hex(base),
                "held": held,
                "result": result,
                "same_address": same,
                "given": hex(got.value),
                "memory": _use(driver, base, size) if same else "",
            }
        )
    pipe.send(answers)


def _in_child(function: Any, *arguments: Any) -> Any:
    """What the child sends; None when the driver did not start in it, which it says on stderr."""
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
    first = _in_child(_allocate)
    if first is None:
        print("the driver could not be used")
        return 1
    addresses, maps, appeared = first
    again = _in_child(_allocate)
    facts = {
        "allocated": [
            {"kind": kind, "bytes": size, "address": hex(address), "mapped": new}
            for (kind, size), address, new in zip(KINDS, addresses, appeared)  # noqa: B905
        ],
        "same_addresses_in_the_next_process": again is not None and again[0] == addresses,
        "reserved_when_held": _in_child(_reserve, addresses, True, LOWEST_HELD_ADDRESS),
        "reserved_when_not_held": _in_child(_reserve, addresses, False, 0),
        "reserved_when_the_lowest_are_held_too": _in_child(_reserve, addresses, True, 0),
        "mapped_by_the_driver": maps,
    }
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
