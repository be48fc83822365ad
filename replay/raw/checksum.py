"""CRC-32C (Castagnoli), the check of raw records and blobs.

Three ways, all with the same answer: many small records at once with numpy, so that a hundred thousand records cost
tens of milliseconds; one long stretch as parallel lanes with numpy; and, where the interposer is installed and exports
it, its `replay_crc32c` for long stretches: blobs are gigabytes, and numpy checks about a third of one a second.
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # reflected
LONG_BYTES = 8192  # from here on a stretch is worth being cut into lanes
_LANE_BYTES = 2048
_MASK = 0xFFFFFFFF

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


@lru_cache(maxsize=1)
def _tables() -> tuple[U32, U32, U32, U32]:
    """What each of the four 16-bit parts of a 64-bit word contributes to the register (slicing by eight, in pairs)."""
    byte = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        byte = np.where(byte & 1, (byte >> 1) ^ np.uint32(POLYNOMIAL), byte >> 1).astype(np.uint32)
    slices = [byte]
    for _ in range(7):
        slices.append(byte[slices[-1] & 0xFF] ^ (slices[-1] >> np.uint32(8)))
    low, high = np.tile(np.arange(256), 256), np.repeat(np.arange(256), 256)
    pairs = [slices[7 - 2 * part][low] ^ slices[6 - 2 * part][high] for part in range(4)]
    return pairs[0], pairs[1], pairs[2], pairs[3]


def _step(register: U32, words: U64) -> U32:
    """The registers after one more 64-bit word each."""
    first, second, third, fourth = _tables()
    parts = (words ^ register).astype("<u8").view("<u2").reshape(-1, 4)
    result: U32 = first[parts[:, 0]] ^ second[parts[:, 1]] ^ third[parts[:, 2]] ^ fourth[parts[:, 3]]
    return result


def crc32c_of_many(words: U64, starts: I64, counts: I64) -> U32:
    """The checks of many stretches of `words`: stretch i has `counts[i]` words from index `starts[i]` on."""
    order = np.argsort(-counts, kind="stable")
    starts, counts = starts[order], counts[order]
    registers = np.full(len(order), _MASK, dtype=np.uint32)
    longest = int(counts[0]) if len(counts) else 0
    # How many stretches are longer than k words: the active ones come first.
    active = np.searchsorted(-counts, -np.arange(longest), side="left")
    for k in range(longest):
        n = int(active[k])
        registers[:n] = _step(registers[:n], words[starts[:n] + k])
    result = np.empty_like(registers)
    result[order] = ~registers
    return result


def crc32c(data: Any, before: int = 0) -> int:
    """The check of one stretch of bytes (anything with the buffer protocol). before: the check of what precedes it."""
    view = memoryview(data).cast("B")
    native = _native()
    if native is not None:
        holder = np.frombuffer(view, dtype=np.uint8)  # an address, also of memory that is read-only
        return int(native(before, holder.ctypes.data, len(view))) if len(view) else before
    return _crc32c_by_lanes(view, before)


def _crc32c_by_lanes(view: memoryview, before: int = 0) -> int:
    """The same in numpy: lanes of equal length side by side, joined by shifting each over the ones after it."""
    lanes = len(view) // _LANE_BYTES
    register = before ^ _MASK
    if lanes > 1:
        table = np.frombuffer(view[: lanes * _LANE_BYTES], dtype="<u8").reshape(lanes, -1)
        registers = np.zeros(lanes, dtype=np.uint32)
        for k in range(table.shape[1]):
            registers = _step(registers, table[:, k])
        shift = _lane_shift()
        for lane in registers.tolist():
            register = (
                shift[0][register & 0xFF]
                ^ shift[1][register >> 8 & 0xFF]
                ^ shift[2][register >> 16 & 0xFF]
                ^ shift[3][register >> 24]
                ^ lane
            )
        view = view[lanes * _LANE_BYTES :]
    table_of_bytes = _byte_table()
    for byte in view:
        register = register >> 8 ^ table_of_bytes[(register ^ byte) & 0xFF]
    return register ^ _MASK


@lru_cache(maxsize=1)
def _byte_table() -> list[int]:
    # The last of eight slices: one byte followed by nothing.
    return [int(value) for value in _tables()[3][np.arange(256) << 8]]


@lru_cache(maxsize=1)
def _lane_shift() -> list[list[int]]:
    """What each byte of a register becomes after `_LANE_BYTES` zero bytes."""
    registers = np.concatenate(
        [np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)]
    )
    zeros = np.zeros(len(registers), dtype=np.uint64)
    for _ in range(_LANE_BYTES // 8):
        registers = _step(registers, zeros)
    values = registers.tolist()
    return [values[256 * place : 256 * place + 256] for place in range(4)]


@cache
def _native() -> Any:
    """`uint32_t replay_crc32c(uint32_t before, const void *, size_t)` of the interposer; None where there is none.

    Loading the shim starts nothing: it does not act without REPLAY_CAPTURE_DIRECTORY and a driver call.
    """
    from replay.drivers import interposer_library
    from replay.errors import ReplayError

    try:
        function = ctypes.CDLL(str(interposer_library())).replay_crc32c
    except (ReplayError, OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
    # The agreed check value, so that another convention for the start value cannot pass unseen.
    return function if function(0, b"123456789", 9) == 0xE3069283 else None
