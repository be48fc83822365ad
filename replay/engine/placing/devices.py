"""Which live device stands for each captured one, and which context for its primary context.

A snapshot of one device is replayed on the device that was chosen. One of several devices is replayed on as many where
the machine has them, captured device i on device i; else only on the chosen device, each captured device with a
context of its own there, so that variables of equal names stay apart.
"""

from __future__ import annotations

from replay.engine.driver import Driver
from replay.errors import EngineError


class Devices:
    """Opens what is needed. main: the CUdevice that measures are taken on; context: its primary context, current
    afterwards. live: captured ordinal -> CUdevice. note: what to say about a replay on fewer devices, or "".

    Raises EngineError when there is no such device.
    """

    def __init__(self, driver: Driver, captured: list[int], chosen: int) -> None:
        self._driver = driver
        count = driver.cuDeviceGetCount()
        if not 0 <= chosen < count:
            has = "one device" if count == 1 else f"{count} devices"
            raise EngineError(
                f"there is no device {chosen}, the driver has {has}", next="choose another with --device"
            )
        spread = len(captured) > 1 and chosen == 0 and captured[-1] < count
        ordinals = {device: device if spread else chosen for device in captured}
        first = captured[0] if captured else 0
        ordinals.setdefault(first, chosen)
        self.live: dict[int, int] = {
            device: driver.cuDeviceGet(ordinal) for device, ordinal in ordinals.items()
        }
        self.ordinal = ordinals[first]
        self.main = self.live[first]
        self._main_captured = first
        self._primary: dict[int, int] = {}
        for device in captured or [first]:
            if spread or device == first:
                self._primary[device] = driver.cuDevicePrimaryCtxRetain(self.live[device])
            else:
                self._primary[device] = driver.cuCtxCreate_v2(0, self.live[device])
        self.context: int = self._primary[first]
        driver.cuCtxSetCurrent(self.context)
        self.note = ""
        if len(captured) > 1 and not spread:
            names = ", ".join(map(str, captured))
            self.note = (
                f"the captured devices {names} are all replayed on device {chosen}, copies between them too"
            )

    def device(self, captured: int) -> int:
        """The CUdevice that stands for a captured one."""
        return self.live.get(captured, self.main)

    def primary(self, captured: int) -> int:
        """The live context that stands for the primary context of a captured device."""
        return self._primary.get(captured, self.context)

    def contexts(self) -> list[int]:
        """Those contexts, that of `main` last."""
        others = [context for device, context in self._primary.items() if device != self._main_captured]
        return [*dict.fromkeys(others), self.context]

    def is_split(self, captured: int) -> bool:
        """Whether a captured device shares a live one, so that its primary context is not the live one's."""
        return (
            self.device(captured) == self.main
            and captured != self._main_captured
            and captured in self._primary
        )

    def accessors(self, device: int) -> list[int]:
        """The live devices that may use memory of a live one: itself, and those that have peer access to it."""
        found = [device]
        for other in dict.fromkeys(self.live.values()):
            if other != device and self._driver.cuDeviceCanAccessPeer(other, device):
                found.append(other)
        return found
