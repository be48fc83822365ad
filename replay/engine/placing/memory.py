"""Where captured memory lives during a replay: at its captured address if at all possible.

Order: `hold` before the driver is loaded, so that nothing else takes the addresses; then `place` span by span.
Device and managed memory comes back through the virtual memory functions (2 MiB granules), host memory through mmap
and cuMemHostRegister (pages). Whether every address that cuMemAlloc ever gave can be reserved again is not yet seen
on a GPU: the driver documents the address as a hint, so its answer is checked.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from replay.engine.driver import Driver, DriverFailure, call, query
from replay.engine.placing.managed import allocate_managed, asked_bytes
from replay.engine.placing.mappings import (
    GRANULE_BYTES,
    Backing,
    Families,
    Home,
    create,
    find_families,
    give_access,
)
from replay.errors import EngineError
from replay.snapshot.schema import Range

TAKEN = "something in the replaying process has the address"
STAY_ADVICE = (
    "leave out --no-relocate: it is then elsewhere, known pointers follow; --shift says whether that is safe"
)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# NVIDIA's driver reserves tens of gigabytes from 0x2_0000_0000 on when it starts, and gives memory of pools and of
# cuMemAddressReserve out of that. Held, such an address is in the way of the driver; and nothing else comes in between,
# since no kernel gives a mapping below here by itself.
LOWEST_HELD_ADDRESS = 1 << 40
HIGHEST_ADDRESS = 1 << 56  # of user space with five-level page tables; nothing captured lies above

_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE = 0x02, 0x10, 0x20, 0x4000
_MAP_FIXED_NOREPLACE = 0x100000
_MAP_FAILED = ctypes.c_void_p(-1).value

_REGISTER_PORTABLE, _REGISTER_DEVICEMAP, REGISTER_READ_ONLY = 1, 2, 8  # CU_MEMHOSTREGISTER_*

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class AddressTaken(EngineError):
    """A captured address is occupied in this process; another process may have it free.

    by_driver: nothing of this process has it, but the driver would not give it; which may well be so every time.
    at_start: the driver did not even start while the addresses were held.
    """

    def __init__(self, what: str, by_driver: bool = False, at_start: bool = False) -> None:
        self.by_driver = by_driver
        self.at_start = at_start
        super().__init__(what)


@dataclass(frozen=True)
class Span:
    """A stretch of addresses that is placed as one piece: the union of neighbouring ranges, rounded to granules.

    managed_bytes: how much of it managed memory takes up, if there is nothing else in it. place: whether it holds
    memory with several addresses, family: which at first (`mappings.Families`). held: False where the driver did not
    start with device addresses held; then they may or may not be free.
    """

    address: int
    size_bytes: int
    host: bool
    register_flags: int = 0
    device: int = 0  # captured ordinal
    managed_bytes: int = 0
    place: bool = False
    family: int = 0
    held: bool = True

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


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
    less_bytes: int = 0

    @property
    def end(self) -> int:
        """The captured address at which its memory ends."""
        return self.span.end - self.less_bytes


def is_host(range_: Range) -> bool:
    """Whether the host reads and writes the range directly."""
    return range_.kind in ("host", "registered")


def is_global(range_: Range) -> bool:
    """Whether the range is a variable of a module, which lives where the driver loads it."""
    return range_.kind == "global" or bool(range_.name and range_.owner)


def is_array(range_: Range) -> bool:
    """Whether the range is a CUDA array, which has a handle and no address."""
    return range_.kind == "array"


def home_address(range_: Range) -> int:
    """The captured address at which a range is placed: pinned memory by its host address, if the device has
    another."""
    return range_.host_address if is_host(range_) and range_.host_address else range_.address


def plan_spans(ranges: Iterable[Range]) -> list[Span]:
    """The spans that hold all ranges except globals, in the order of their addresses.

    Raises EngineError for addresses that no process can have.
    """
    pieces: list[Span] = []
    ranges = [item for item in ranges if not is_global(item) and not is_array(item)]
    families = find_families(ranges)
    places = _places(ranges, families)
    for item in ranges:
        host = is_host(item)
        granule = PAGE_BYTES if host else GRANULE_BYTES
        address = home_address(item)
        start = address // granule * granule
        end = -(-(address + max(item.size_bytes, 1)) // granule) * granule
        if start <= 0 or item.size_bytes < 0 or end > HIGHEST_ADDRESS:
            raise EngineError(
                f"range {item.id} is at {address:#x}, {item.size_bytes} bytes: an impossible address"
            )
        if item.address in places and not host:
            continue
        flags = (item.host_flags & REGISTER_READ_ONLY if item.kind == "registered" else 0) if host else 0
        managed = address + item.size_bytes - start if item.kind == "managed" else 0
        pieces.append(Span(start, end - start, host, flags, 0 if host else item.device, managed))
    spans: list[Span] = list(places.values())
    for host in (False, True):
        merged: list[Span] = []
        for piece in sorted((p for p in pieces if p.host == host), key=lambda p: p.address):
            # Neighbours stay neighbours: a pointer to the end of one may be meant that points to the other.
            touches = bool(merged) and piece.address == merged[-1].end and piece.device == merged[-1].device
            plain = touches and not piece.managed_bytes and not merged[-1].managed_bytes
            if merged and (piece.address < merged[-1].end or plain):
                last = merged[-1]
                size = max(last.end, piece.end) - last.address
                merged[-1] = replace(
                    last,
                    size_bytes=size,
                    register_flags=last.register_flags & piece.register_flags,
                    managed_bytes=max(last.managed_bytes, piece.address - last.address + piece.managed_bytes)
                    if last.managed_bytes and piece.managed_bytes
                    else 0,
                )
            else:
                merged.append(piece)
        spans += merged
    return sorted(spans, key=lambda span: span.address)


def _places(ranges: list[Range], families: Families) -> dict[int, Span]:
    """By address: memory that has several, and whatever else is at these addresses at other times."""
    addresses = {item.address for item in ranges if item.id in families.of}
    first: dict[int, Range] = {}
    for item in ranges:
        if item.address in addresses and not is_host(item):
            known = first.get(item.address)
            if known is None or (item.born_call or 0) < (known.born_call or 0):
                first[item.address] = item
    return {
        address: Span(address, item.size_bytes, False, place=True, family=families.of.get(item.id, 0))
        for address, item in first.items()
    }


def is_held(span: Span) -> bool:
    """Whether `hold` is for this span; the addresses of others are the driver's, and nothing here may unmap them."""
    return span.host or (span.held and span.address >= LOWEST_HELD_ADDRESS)


def hold(spans: Iterable[Span]) -> dict[Span, str]:
    """Keep everything else in this process away from the addresses. Returns the spans that cannot be held, and why:
    TAKEN where something already has them, which may be otherwise in another process."""
    failed: dict[Span, str] = {}
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    for span in filter(is_held, spans):
        answer = _libc.mmap(span.address, span.size_bytes, _PROT_NONE, flags, -1, 0)
        if answer != span.address:
            # Kernels before 4.17 do not know the flag and take the address as a hint.
            known = answer == _MAP_FAILED and ctypes.get_errno() != errno.EEXIST
            if answer != _MAP_FAILED:
                _libc.munmap(answer, span.size_bytes)
            failed[span] = (
                f"the system gives no such address ({os.strerror(ctypes.get_errno())})" if known else TAKEN
            )
    return failed


def place(
    driver: Driver,
    spans: Iterable[Span],
    taken: Mapping[Span, str],
    device: int,
    relocate: bool,
    homes: Mapping[int, Home] = MappingProxyType({}),
    backing: Backing | None = None,
    targets: Mapping[Span, int] | None = None,
) -> list[Placed]:
    """Give every span memory. `taken` are those that `hold` could not hold, and why. homes: by captured device, where
    that is not `device` alone. backing: of spans that are a `place`.

    relocate: a span whose address cannot be had goes elsewhere; otherwise AddressTaken is raised. targets: held
    addresses at which spans go instead of their own (`shift.py`); with it no span may be at its captured address.
    Needs a current context. Raises EngineError when there is not enough memory.
    """
    spans = list(spans)
    backing = backing or Backing(driver, Families())

    def home_of(span: Span) -> Home:
        return homes.get(span.device, Home(device, (device,)))

    # Before the others: what lies behind such memory has to be free for a moment.
    addresses = {span: span.address for span in spans if span not in taken} if targets is None else targets
    placed, not_managed = _place_managed(driver, addresses, backing)
    done = {item.span for item in placed}
    # Only when all have tried: the driver may place what goes elsewhere at an address that another one asks for.
    elsewhere: list[tuple[Span, str]] = []
    for span in spans:
        if span in done:
            continue
        outcome = None
        reason = taken.get(span, "")
        if span in addresses:
            place_one = _place_host if span.host else _place_device
            outcome, reason = place_one(driver, span, addresses[span], home_of(span), backing)
        if outcome is None:
            if not relocate and targets is None and taken.get(span, TAKEN) == TAKEN:
                text = f"{span.address:#x} ({span.size_bytes} bytes) cannot be had: {reason}"
                raise AddressTaken(text, by_driver=span not in taken)
            elsewhere.append((span, reason))
        else:
            placed.append(replace(outcome, not_managed=not_managed.get(span, "")))
    for span, reason in elsewhere:
        outcome = (_elsewhere_host if span.host else _elsewhere_device)(
            driver, span, home_of(span), reason, backing
        )
        if targets is not None:
            outcome = replace(outcome, how="shifted", reason="")
        placed.append(replace(outcome, not_managed=not_managed.get(span, "")))
    return sorted(placed, key=lambda item: item.span.address)


def _place_managed(
    driver: Driver, addresses: Mapping[Span, int], backing: Backing
) -> tuple[list[Placed], dict[Span, str]]:
    """Managed memory as such where its address can be had, and why not elsewhere. `addresses` are all that are held."""
    placed: list[Placed] = []
    problems: dict[Span, str] = {}
    waiting = sorted(addresses, key=lambda span: addresses[span])
    for number, span in enumerate(waiting):
        if span.managed_bytes:
            later = (item for item in waiting[number + 1 :] if not item.host)
            beyond = [(addresses[item], addresses[item] + item.size_bytes) for item in later]
            address = addresses[span]
            if not is_held(replace(span, address=address)):
                problems[span] = "the driver has these addresses to itself"
                continue
            problem = allocate_managed(driver, address, span.managed_bytes, span.size_bytes, beyond)
            if problem:
                problems[span] = problem
            else:
                less = span.size_bytes - asked_bytes(span.managed_bytes, span.size_bytes)
                placed.append(Placed(span, address, _how(span, address), managed=True, less_bytes=less))
    return placed, problems


def _how(span: Span, address: int) -> Literal["same_address", "shifted"]:
    return "same_address" if address == span.address else "shifted"


def _place_device(
    driver: Driver, span: Span, address: int, home: Home, backing: Backing
) -> tuple[Placed | None, str]:
    if is_held(replace(span, address=address)):
        _libc.munmap(address, span.size_bytes)
    try:
        got = query(driver, "cuMemAddressReserve", span.size_bytes, GRANULE_BYTES, address, 0)
    except DriverFailure as failure:
        return None, f"cuMemAddressReserve returned {failure.name}"
    if got != address:
        call(driver, "cuMemAddressFree", got, span.size_bytes)
        return None, f"the driver reserved {got:#x} instead"
    _back_with_memory(driver, span, address, home, backing)
    return Placed(span, address, _how(span, address)), ""


def _elsewhere_device(driver: Driver, span: Span, home: Home, reason: str, backing: Backing) -> Placed:
    try:
        got = query(driver, "cuMemAddressReserve", span.size_bytes, GRANULE_BYTES, 0, 0)
    except DriverFailure as failure:
        raise EngineError(
            f"{span.size_bytes} bytes of device addresses cannot be had, at {span.address:#x} or anywhere else "
            f"({failure.name})",
            next="close other programs that use the device, or choose another one with --device",
        ) from None
    _back_with_memory(driver, span, got, home, backing)
    return Placed(span, got, "relocated", reason)


def _back_with_memory(driver: Driver, span: Span, address: int, home: Home, backing: Backing) -> None:
    if span.place:
        backing.place(address, span.size_bytes, span.family, home)
        return
    handle = create(driver, span.size_bytes, home.device)
    call(driver, "cuMemMap", address, span.size_bytes, 0, handle, 0)
    call(driver, "cuMemRelease", handle)  # the mapping keeps the memory
    give_access(driver, address, span.size_bytes, home.accessors)


def _place_host(
    driver: Driver, span: Span, address: int, home: Home, backing: Backing
) -> tuple[Placed | None, str]:
    # Over the own hold, so there is no moment at which the address is free.
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_FIXED
    if _libc.mmap(address, span.size_bytes, _PROT_READ_WRITE, flags, -1, 0) != address:
        return None, f"mmap failed: {os.strerror(ctypes.get_errno())}"
    _register(driver, span, address)
    return Placed(span, address, _how(span, address)), ""


def _elsewhere_host(driver: Driver, span: Span, home: Home, reason: str, backing: Backing) -> Placed:
    got = _libc.mmap(None, span.size_bytes, _PROT_READ_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0)
    if got == _MAP_FAILED:
        what = "not enough memory" if ctypes.get_errno() == errno.ENOMEM else os.strerror(ctypes.get_errno())
        raise EngineError(f"{span.size_bytes} bytes of host memory cannot be had ({what})")
    _register(driver, span, got)
    return Placed(span, got, "relocated", reason)


def _register(driver: Driver, span: Span, address: int) -> None:
    flags = _REGISTER_PORTABLE | _REGISTER_DEVICEMAP | span.register_flags
    try:
        call(driver, "cuMemHostRegister_v2", address, span.size_bytes, flags)
    except DriverFailure as failure:
        raise EngineError(
            f"{span.size_bytes} bytes of host memory cannot be pinned ({failure.name})",
            next="raise the limit on locked memory (`ulimit -l`)",
        ) from None
