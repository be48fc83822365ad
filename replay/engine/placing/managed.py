"""Managed memory of the replay at its captured address, where the driver can be brought to give it.

cuMemAllocManaged takes no address. The kernel gives a mapping the highest free stretch of addresses that it fits into,
below the place where it began for this process, and only when there is none the lowest one above. So for a moment the
stretches that would be chosen first are filled up: those above the captured one, or, where that is not enough, all.
Whether NVIDIA's driver places managed memory by what is free is not yet seen on a GPU (GT-MANAGED-PLACE): its answer
is checked, and device memory is the fallback.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from replay.engine.driver import Driver, DriverFailure
from replay.engine.placing.pieces import hold_addresses, release_addresses
from replay.planning.families import GRANULE_BYTES

_ATTACH_GLOBAL = 1  # CUmemAttach_flags
SMALL_BYTES = (1 << 20) + 4096  # what is smaller may be packed together with other memory
# A driver asks the kernel for more than it gives, to align it: filled everywhere, granules left free below and above
_ROOM_GRANULES = (
    *((False, 0, above) for above in (0, 1, 2, 3)),
    *((True, below, above) for below in (0, 1) for above in (0, 1, 2, 3)),
)
LOWEST_FREE_ADDRESS = 1 << 40  # stretches below are never chosen before those above
_LOWEST_ADDRESS, _HIGHEST_ADDRESS = 1 << 16, 1 << 47
_STACK_BYTES = 64 << 20  # left free below the stack of the process, which may grow


def _hold(address: int, size_bytes: int) -> bool:
    return not hold_addresses(address, size_bytes)


def _mapped() -> list[tuple[int, int]]:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        edges = (line.split(" ", 1)[0].partition("-") for line in file)
        return [(int(start, 16), int(end, 16)) for start, _, end in edges]


def _fill_free_stretches(low: int, high: int, size_bytes: int, everywhere: bool) -> list[tuple[int, int]]:
    """Fill what is free outside low..high, in stretches of size_bytes at least: above it, or everywhere."""
    filled = []
    mapped = [(0, _LOWEST_ADDRESS), *(item for item in _mapped() if item[0] < _HIGHEST_ADDRESS)]
    for place, ((_, end), (start, _)) in enumerate(pairwise(mapped), 1):
        if everywhere and place == len(mapped) - 1:
            start = max(end, start - _STACK_BYTES)
        for first, last in ((end, min(start, low)), (max(end, high), start)):
            chosen = everywhere or first >= max(high, LOWEST_FREE_ADDRESS)
            if chosen and last - first >= size_bytes and _hold(first, last - first):
                filled.append((first, last - first))
    return filled


def _held_in(place: int, size_bytes: int, holds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of the held stretches lies in the `size_bytes` from `place` on."""
    found = []
    for start, held_end in holds:
        low, high = max(start, place), min(held_end, place + size_bytes)
        if low < high:
            found.append((low, high))
    return found


def asked_bytes(used_bytes: int, size_bytes: int) -> int:
    """How much managed memory `allocate_managed` asks for."""
    return min(max(used_bytes, SMALL_BYTES), size_bytes)


def allocate_managed(
    driver: Driver, address: int, used_bytes: int, size_bytes: int, holds: list[tuple[int, int]]
) -> str:
    """Managed memory at exactly `address`, of at least used_bytes and at most size_bytes. The caller holds the
    addresses, and those in `holds` (start, end), which are held again afterwards.

    Returns "" or why it cannot be allocated there; the addresses are then held as before.
    """
    wanted = asked_bytes(used_bytes, size_bytes)
    end = address + size_bytes
    for everywhere, below, above in _ROOM_GRANULES:
        low_end, high_end = address - below * GRANULE_BYTES, end + above * GRANULE_BYTES
        beyond = _held_in(end, high_end - end, holds) + _held_in(low_end, address - low_end, holds)
        release_addresses(address, size_bytes)
        for low, high in beyond:
            release_addresses(low, high - low)
        filled = _fill_free_stretches(low_end, high_end, GRANULE_BYTES // 2, everywhere)
        try:
            got = driver.cuMemAllocManaged(wanted, _ATTACH_GLOBAL)
        except DriverFailure as failure:
            got, problem = 0, f"cuMemAllocManaged returned {failure.name}"
        finally:
            for start, length in filled:
                release_addresses(start, length)
        again = [_hold(low, high - low) for low, high in beyond]
        if got == address and all(again):
            return ""
        if got:
            problem = f"the driver gave {got:#x} instead"
            driver.cuMemFree_v2(got)
        for (low, high), held in zip(beyond, again, strict=True):
            if not held:
                _hold(low, high - low)
        if not _hold(address, size_bytes):
            return "the address is taken"
    return problem
