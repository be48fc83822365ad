"""Physical memory that is mapped at several addresses at once (cuMemMap): one memory in the replay as well.

Mappings of one physical allocation that live at the same time are a *family*: they share one allocation in the replay.
Where an address holds memory of a family at one time and other memory at another, it is mapped anew when that appears.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from replay.engine.driver import Driver, DriverFailure, call, query
from replay.errors import EngineError
from replay.snapshot.schema import Range

GRANULE_BYTES = 2 << 20  # of cuMemCreate on every GPU so far (CU_MEM_ALLOC_GRANULARITY_MINIMUM)
_LOCATION_DEVICE, _ALLOCATION_PINNED, _ACCESS_READ_WRITE = (
    1,
    1,
    3,
)  # CUmemLocationType, ..AllocationType, ..Access
BEFORE_THE_WINDOW, AFTER_THE_WINDOW = -1, 1 << 64


@dataclass
class Families:
    """Who shares memory with whom.

    of: range id -> family (from 1). size_bytes: of a family's memory. covered: range id -> how many of its first bytes
    other addresses of the family hold already when it appears. split: ids of ranges that would share memory but
    cannot, since their addresses overlap others otherwise than whole.
    """

    of: dict[int, int] = field(default_factory=dict)
    size_bytes: dict[int, int] = field(default_factory=dict)
    covered: dict[int, int] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)


def born(range_: Range) -> int:
    """The number of the call that made it; below all of them where it was there before the window."""
    return BEFORE_THE_WINDOW if range_.born_call is None else range_.born_call


def died(range_: Range) -> int:
    """The number of the call that ended it; above all of them where it outlives the window."""
    return AFTER_THE_WINDOW if range_.died_call is None else range_.died_call


def find_families(ranges: Iterable[Range]) -> Families:
    """The families among the ranges of a snapshot."""
    families = Families()
    ranges = list(ranges)
    mapped = [item for item in ranges if item.physical]
    if not mapped:
        return families
    by_physical: dict[int, list[Range]] = {}
    for item in mapped:
        by_physical.setdefault(item.physical, []).append(item)
    components: list[list[Range]] = []
    for group in by_physical.values():
        end = BEFORE_THE_WINDOW - 1
        for item in sorted(group, key=born):
            if born(item) < end:
                components[-1].append(item)
            else:
                components.append([item])
            end = max(end, died(item))
    ordered = sorted(ranges, key=lambda item: item.address)
    whole = _whole(ordered)
    for component in components:
        if len({item.address for item in component}) < 2:
            continue
        if not all(item.id in whole for item in component):
            families.split.update(item.id for item in component)
            continue
        number = len(families.size_bytes) + 1
        families.size_bytes[number] = max(item.size_bytes for item in component)
        for item in component:
            families.of[item.id] = number
            if item.born_call is not None:
                families.covered[item.id] = max(
                    (
                        min(other.size_bytes, item.size_bytes)
                        for other in component
                        if other is not item and born(other) < born(item) < died(other)
                    ),
                    default=0,
                )
    return families


def _whole(ordered: list[Range]) -> set[int]:
    """Ids of ranges of whole granules that overlap others only where both are at the same addresses."""
    found: set[int] = set()
    group: list[Range] = []
    end = 0
    for item in [*ordered, None]:
        if item is not None and group and item.address // GRANULE_BYTES * GRANULE_BYTES < end:
            group.append(item)
        else:
            places = {(other.address, other.size_bytes) for other in group}
            if len(places) == 1 and all(value % GRANULE_BYTES == 0 for place in places for value in place):
                found.update(other.id for other in group)
            group = [item] if item is not None else []
            end = 0
        if item is not None:
            end = max(end, -(-(item.address + item.size_bytes) // GRANULE_BYTES) * GRANULE_BYTES)
    return found


@dataclass(frozen=True)
class Home:
    """Where device memory goes: a CUdevice, and those that may access it."""

    device: int
    accessors: tuple[int, ...]


class Backing:
    """Physical memory of the replay: one allocation for each family, and one for each place that changes hands."""

    def __init__(self, driver: Driver, families: Families) -> None:
        self._driver = driver
        self._homes: dict[int, Home] = {}  # of a place, by its live address
        self.families = families
        self._handles: dict[
            tuple[int, int], int
        ] = {}  # (family, address if none) -> CUmemGenericAllocationHandle
        self._now: dict[int, int] = {}  # live address of a place -> family that is mapped there
        self._away: set[int] = set()  # places that pinned memory has at the moment
        self._at_start: dict[int, tuple[int, int]] = {}  # live address -> bytes, family

    def place(self, address: int, size_bytes: int, family: int, home: Home) -> None:
        """Map the memory that a place holds at first."""
        self._homes[address] = home
        self._map(address, size_bytes, family)
        self._at_start[address] = (size_bytes, family)

    def switch(self, address: int, range_: Range) -> None:
        """Another memory appears at the live `address`, if it is a place that changes hands."""
        family = self.families.of.get(range_.id, 0)
        if self._now.get(address, family) != family:
            call(self._driver, "cuMemUnmap", address, range_.size_bytes)
            self._map(address, range_.size_bytes, family)

    def is_place(self, address: int) -> bool:
        """Whether `place` was called for this live address."""
        return address in self._at_start

    def leave(self, address: int) -> None:
        """Unmap what a place holds, until `come_back`."""
        call(self._driver, "cuMemUnmap", address, self._at_start[address][0])
        self._away.add(address)

    def come_back(self, address: int) -> None:
        """Map it again."""
        self._away.discard(address)
        self._map(address, self._at_start[address][0], self._now[address])

    def return_to_start(self) -> None:
        """Undo every `switch`. Nothing may be under way on the device."""
        for address, (size_bytes, family) in self._at_start.items():
            if address in self._away:
                self._now[address] = family
            elif self._now[address] != family:
                call(self._driver, "cuCtxSynchronize")
                call(self._driver, "cuMemUnmap", address, size_bytes)
                self._map(address, size_bytes, family)

    def _map(self, address: int, size_bytes: int, family: int) -> None:
        key = (family, 0 if family else address)
        if key not in self._handles:
            whole = self.families.size_bytes.get(family, size_bytes)
            self._handles[key] = create(self._driver, whole, self._homes[address].device)
        call(self._driver, "cuMemMap", address, size_bytes, 0, self._handles[key], 0)
        give_access(self._driver, address, size_bytes, self._homes[address].accessors)
        self._now[address] = family


def create(driver: Driver, size_bytes: int, device: int) -> int:
    """Physical memory of a device. Raises EngineError when there is not enough."""
    # CUmemAllocationProp: type, requestedHandleTypes, location {type, id}, win32HandleMetaData, allocFlags
    properties = struct.pack("<IIIiQQ", _ALLOCATION_PINNED, 0, _LOCATION_DEVICE, device, 0, 0)
    try:
        return query(driver, "cuMemCreate", size_bytes, _pointer(properties), 0)
    except DriverFailure as failure:
        raise EngineError(
            f"{size_bytes} bytes of device memory cannot be had ({failure.name})",
            next="close other programs that use the device, or replay on one with more memory",
        ) from None


def give_access(driver: Driver, address: int, size_bytes: int, devices: tuple[int, ...]) -> None:
    """Let these devices read and write what is mapped there."""
    access = b"".join(  # CUmemAccessDesc
        struct.pack("<IiI", _LOCATION_DEVICE, device, _ACCESS_READ_WRITE) for device in devices
    )
    call(driver, "cuMemSetAccess", address, size_bytes, _pointer(access), len(devices))


def _pointer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))
