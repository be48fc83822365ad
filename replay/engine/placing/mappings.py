"""Physical memory that is mapped at several addresses at once (cuMemMap): one memory in the replay as well, for each
family (`planning/families.py`).

Where an address holds memory of a family at one time and other memory at another, it is mapped anew when that appears.
"""

from __future__ import annotations

from replay.api.structs import CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, LocationType
from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError
from replay.planning.families import Families
from replay.records import dataclass
from replay.snapshot.schema import Range

_ALLOCATION_PINNED, _ACCESS_READ_WRITE = 1, 3  # CUmemAllocationType, CUmemAccess_flags


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
        # (family, address if none) -> CUmemGenericAllocationHandle
        self._handles: dict[tuple[int, int], int] = {}
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
            self._driver.cuMemUnmap(address, range_.size_bytes)
            self._map(address, range_.size_bytes, family)

    def is_place(self, address: int) -> bool:
        """Whether `place` was called for this live address."""
        return address in self._at_start

    def leave(self, address: int) -> None:
        """Unmap what a place holds, until `come_back`."""
        self._driver.cuMemUnmap(address, self._at_start[address][0])
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
                self._driver.cuCtxSynchronize()
                self._driver.cuMemUnmap(address, size_bytes)
                self._map(address, size_bytes, family)

    def _map(self, address: int, size_bytes: int, family: int) -> None:
        key = (family, 0 if family else address)
        if key not in self._handles:
            whole = self.families.size_bytes.get(family, size_bytes)
            self._handles[key] = create(self._driver, whole, self._homes[address].device)
        self._driver.cuMemMap(address, size_bytes, 0, self._handles[key], 0)
        give_access(self._driver, address, size_bytes, self._homes[address].accessors)
        self._now[address] = family


def create(driver: Driver, size_bytes: int, device: int) -> int:
    """Physical memory of a device. Raises EngineError when there is not enough."""
    properties = (CUmemAllocationProp * 1)((_ALLOCATION_PINNED, 0, _on(device)))
    try:
        return int(driver.cuMemCreate(size_bytes, properties, 0))
    except DriverFailure as failure:
        raise EngineError(
            f"{size_bytes} bytes of device memory cannot be allocated ({failure.name})",
            next="close other programs that use the device, or replay on one with more memory",
        ) from None


def give_access(driver: Driver, address: int, size_bytes: int, devices: tuple[int, ...]) -> None:
    """Let these devices read and write what is mapped there."""
    access = (CUmemAccessDesc * len(devices))(*((_on(device), _ACCESS_READ_WRITE) for device in devices))
    driver.cuMemSetAccess(address, size_bytes, access, len(devices))


def _on(device: int) -> CUmemLocation:
    return CUmemLocation(type=LocationType.DEVICE, id=device)
