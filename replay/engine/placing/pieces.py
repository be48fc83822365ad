"""One piece of memory at a time: its addresses held, reserved and given memory."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Literal, NamedTuple

from replay.engine.driver import Driver, DriverFailure
from replay.engine.placing.mappings import Backing, Home, create, give_access
from replay.errors import EngineError
from replay.planning.families import GRANULE_BYTES
from replay.planning.spans import Span
from replay.records import dataclass

TAKEN = "something in the replaying process has the address"

_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE = 0x02, 0x10, 0x20, 0x4000
_MAP_FIXED_NOREPLACE = 0x100000
_MAP_FAILED = ctypes.c_void_p(-1).value

_REGISTER_PORTABLE, _REGISTER_DEVICEMAP = 1, 2  # CU_MEMHOSTREGISTER_*

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Part(NamedTuple):
    """Of a span of the device, at its live address. turns: whether pinned memory is there at other times."""

    address: int
    size_bytes: int
    turns: bool


@dataclass(frozen=True)
class Placed:
    """A span and where it lives now. `how`: same_address, relocated, or shifted (moved on purpose); `reason` says why
    it was relocated. less_bytes: how much at the end of its addresses has no memory."""

    span: Span
    live_address: int
    how: Literal["same_address", "relocated", "shifted"]
    reason: str = ""
    managed: bool = False
    not_managed: str = ""  # why managed memory is device memory here
    parts: tuple[Part, ...] = ()  # mapped each for itself, where pinned memory takes turns with some of it
    less_bytes: int = 0

    @property
    def end(self) -> int:
        """The captured address at which its memory ends."""
        return self.span.end - self.less_bytes


def hold_addresses(address: int, size_bytes: int) -> str:
    """Keep everything else in this process away from the addresses. "" or why that cannot be done."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    answer = _libc.mmap(address, size_bytes, _PROT_NONE, flags, -1, 0)
    if answer == address:
        return ""
    # Kernels before 4.17 do not know the flag and take the address as a hint.
    known = answer == _MAP_FAILED and ctypes.get_errno() != errno.EEXIST
    if answer != _MAP_FAILED:
        _libc.munmap(answer, size_bytes)
    return f"the system gives no such address ({os.strerror(ctypes.get_errno())})" if known else TAKEN


def release_addresses(address: int, size_bytes: int) -> None:
    """Undo `hold_addresses`."""
    _libc.munmap(address, size_bytes)


def reserve(driver: Driver, address: int, size_bytes: int) -> str:
    """Reserve addresses for memory of the device that nothing else has. "" or why they cannot be reserved."""
    try:
        got = driver.cuMemAddressReserve(size_bytes, GRANULE_BYTES, address, 0)
    except DriverFailure as failure:
        return f"cuMemAddressReserve returned {failure.name}"
    if got != address:
        driver.cuMemAddressFree(got, size_bytes)
        return f"the driver reserved {got:#x} instead"
    return ""


def back_with_memory(
    driver: Driver, span: Span, address: int, size_bytes: int, home: Home, backing: Backing
) -> None:
    """Map memory of its own at reserved addresses of a span."""
    if span.place:
        backing.place(address, size_bytes, span.family, home)
        return
    handle = create(driver, size_bytes, home.device)
    driver.cuMemMap(address, size_bytes, 0, handle, 0)
    driver.cuMemRelease(handle)  # the mapping keeps the memory
    give_access(driver, address, size_bytes, home.accessors)


def pin(driver: Driver, span: Span, address: int) -> str:
    """Put pinned memory at held addresses. "" or why that cannot be done."""
    # Over the own hold, so there is no moment at which the address is free.
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_FIXED
    if _libc.mmap(address, span.size_bytes, _PROT_READ_WRITE, flags, -1, 0) != address:
        return f"mmap failed: {os.strerror(ctypes.get_errno())}"
    register(driver, span, address)
    return ""


def unpin(driver: Driver, span: Span, address: int) -> None:
    """Undo `pin`: the addresses are held as before."""
    driver.cuMemHostUnregister(address)
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_FIXED | _MAP_NORESERVE
    _libc.mmap(address, span.size_bytes, _PROT_NONE, flags, -1, 0)


def map_anywhere(size_bytes: int, usable: bool) -> int:
    """Addresses of the system's choice, with memory or held. Raises EngineError."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | (0 if usable else _MAP_NORESERVE)
    got = _libc.mmap(None, size_bytes, _PROT_READ_WRITE if usable else _PROT_NONE, flags, -1, 0)
    if got == _MAP_FAILED:
        what = "not enough memory" if ctypes.get_errno() == errno.ENOMEM else os.strerror(ctypes.get_errno())
        raise EngineError(f"{size_bytes} bytes of host memory cannot be allocated ({what})")
    return int(got)


def register(driver: Driver, span: Span, address: int) -> None:
    flags = _REGISTER_PORTABLE | _REGISTER_DEVICEMAP | span.register_flags
    try:
        driver.cuMemHostRegister_v2(address, span.size_bytes, flags)
    except DriverFailure as failure:
        raise EngineError(
            f"{span.size_bytes} bytes of host memory cannot be pinned ({failure.name})",
            next="raise the limit on locked memory (`ulimit -l`)",
        ) from None
