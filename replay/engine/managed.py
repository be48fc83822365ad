"""Managed memory of the replay at its captured address, where the driver can be brought to give it.

cuMemAllocManaged takes no address. The kernel gives a mapping the highest free stretch of addresses that it fits into;
so for a moment every other stretch is filled up, and what remains is the captured one. Whether NVIDIA's driver places
managed memory by what is free is not yet seen on a GPU: its answer is checked, and device memory is the fallback.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from replay.engine.driver import Driver, DriverFailure, call, query

_PROT_NONE = 0
_MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x02, 0x20, 0x4000, 0x100000
_ATTACH_GLOBAL = 1  # CUmemAttach_flags
GRANULE_BYTES = 2 << 20
SMALL_BYTES = (1 << 20) + 4096  # what is smaller may be packed together with other memory
_ROOM_GRANULES = (0, 1, 2, 3)  # a driver asks the kernel for more than it gives, to align it
LOWEST_FREE_ADDRESS = 1 << 40  # stretches below are never chosen before those above

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _hold(address: int, size_bytes: int) -> bool:
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    got = _libc.mmap(address, size_bytes, _PROT_NONE, flags, -1, 0)
    if got not in (address, None, ctypes.c_void_p(-1).value):
        _libc.munmap(got, size_bytes)
    return bool(got == address)


def _mapped() -> list[tuple[int, int]]:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        edges = (line.split(" ", 1)[0].partition("-") for line in file)
        return [(int(start, 16), int(end, 16)) for start, _, end in edges]


def _fill_free_stretches(above: int, size_bytes: int) -> list[tuple[int, int]]:
    filled = []
    mapped = _mapped()
    for (_, end), (start, _) in zip(mapped, mapped[1:], strict=False):
        end = max(end, above)
        if end >= LOWEST_FREE_ADDRESS and start - end >= size_bytes and _hold(end, start - end):
            filled.append((end, start - end))
    return filled


def _held_beyond(end: int, size_bytes: int, holds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of the held stretches lies in the `size_bytes` from `end` on."""
    found = []
    for start, held_end in holds:
        low, high = max(start, end), min(held_end, end + size_bytes)
        if low < high:
            found.append((low, high))
    return found


def allocate_managed(
    driver: Driver, address: int, used_bytes: int, size_bytes: int, holds: list[tuple[int, int]]
) -> str:
    """Managed memory at exactly `address`, of at least used_bytes and at most size_bytes. The caller holds the
    addresses, and those in `holds` (start, end), which are held again afterwards.

    Returns "" or why it cannot be had; the addresses are then held as before.
    """
    wanted = min(max(used_bytes, SMALL_BYTES), size_bytes)
    end = address + size_bytes
    for room in _ROOM_GRANULES:
        beyond = _held_beyond(end, room * GRANULE_BYTES, holds)
        _libc.munmap(address, size_bytes)
        for low, high in beyond:
            _libc.munmap(low, high - low)
        filled = _fill_free_stretches(end + room * GRANULE_BYTES, GRANULE_BYTES // 2)
        try:
            got = query(driver, "cuMemAllocManaged", wanted, _ATTACH_GLOBAL)
        except DriverFailure as failure:
            got, problem = 0, f"cuMemAllocManaged returned {failure.name}"
        finally:
            for start, length in filled:
                _libc.munmap(start, length)
        again = [_hold(low, high - low) for low, high in beyond]
        if got == address and all(again):
            return ""
        if got:
            problem = f"the driver gave {got:#x} instead"
            call(driver, "cuMemFree_v2", got)
        for (low, high), held in zip(beyond, again, strict=True):
            if not held:
                _hold(low, high - low)
        if not _hold(address, size_bytes):
            return "the address is taken"
    return problem
