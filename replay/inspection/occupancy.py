"""How many warps of a kernel a multiprocessor can hold at once: computed from what it is made of, not measured.

Limits: "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide. Rounding: NVIDIA's
occupancy calculator (registers of a warp in units of 256, warps in units of 4, shared memory in units of 128 bytes with
1 KiB of the system in each block).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from replay.records import dataclass
from replay.snapshot.schema import Kernel
from replay.text import number

WARP = 32
_REGISTERS, _REGISTER_UNIT, _WARP_UNIT = 65_536, 256, 4
_SHARED_UNIT, _RESERVED = 128, 1024
# Compute capability -> warps, blocks, KiB of shared memory, each of a multiprocessor
_LIMITS = {
    "8.0": (64, 32, 164), "8.6": (48, 16, 100), "8.7": (48, 16, 164), "8.9": (48, 24, 100), "9.0": (64, 32, 228),
    "10.0": (64, 32, 228), "10.3": (64, 32, 228), "12.0": (48, 24, 100), "12.1": (48, 24, 100),
}  # fmt: skip


@dataclass(frozen=True)
class Occupancy:
    """warps: of most, that a multiprocessor holds at once. limit: what there is too little of for more: "warps",
    "blocks", "registers" or "shared memory". exact: the registers of the kernel were known; else it is at most this."""

    warps: int
    most: int
    limit: str
    exact: bool

    @property
    def share(self) -> float:
        return self.warps / self.most


def occupancy(
    compute_capability: str, block_threads: int, registers: int | None, shared_bytes: int
) -> Occupancy | None:
    """shared_bytes: static and dynamic, of a block. None where the device is not in the table, or no block fits."""
    limits = _LIMITS.get(compute_capability)
    if limits is None or block_threads <= 0:
        return None
    most, blocks, shared_kib = limits
    warps = -(-block_threads // WARP)
    found = {"warps": most // warps, "blocks": blocks}
    taken = -(-(shared_bytes + _RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    found["shared memory"] = shared_kib * 1024 // taken
    if registers:
        of_warp = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        found["registers"] = _REGISTERS // of_warp // _WARP_UNIT * _WARP_UNIT // warps
    limit = min(found, key=lambda name: found[name])
    if not found[limit]:
        return None
    return Occupancy(found[limit] * warps, most, limit, bool(registers))


def less_than_a_wave(
    kernels: Iterable[Kernel], compute_capability: str, multiprocessors: int
) -> dict[str, str]:
    """Mangled name -> why, of kernels whose first launch leaves a part of such a device idle. Without registers, or on
    a device that is not in the table, only what has fewer blocks than the device has multiprocessors."""
    found = {}
    for kernel in kernels:
        known, threads = kernel.attributes, math.prod(kernel.block)
        shared_bytes = kernel.shared_bytes + known.get("static_shared_bytes", 0)
        fits = occupancy(compute_capability, threads, known.get("registers"), shared_bytes)
        each = fits.warps // -(-threads // WARP) if fits is not None and fits.exact else 1
        blocks, room = math.prod(kernel.grid), multiprocessors * each
        if 0 < blocks < room:
            found[kernel.name] = (
                f"less than one wave: {number(blocks, 'block')}, and the device holds {room:,} at once"
            )
    return found
