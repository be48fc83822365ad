"""The state of the device while it is measured: clocks, throttling, power, temperature, who else uses it.

Read through NVML where there is one; otherwise recorded as unavailable with the reason. Not yet seen on a GPU
(GT-CLOCKS).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# nvmlClocksThrottleReasons bits (nvml.h) and whether they spoil a measurement
_REASONS: dict[int, tuple[str, bool]] = {
    0x1: ("idle", False),
    0x2: ("applications-clocks-setting", False),
    0x4: ("software-power-cap", True),
    0x8: ("hardware-slowdown", True),
    0x10: ("sync-boost", False),
    0x20: ("software-thermal-slowdown", True),
    0x40: ("hardware-thermal-slowdown", True),
    0x80: ("hardware-power-brake", True),
    0x100: ("display-clocks-setting", False),
}
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # nvmlClockType_t
_TEMPERATURE_GPU = 0
_TRANSFERS = 2  # in a cycle of the memory's clock, of every kind of memory on a GPU


def memory_rate(clock_mhz: float, bus_bits: int) -> float:
    """Bytes in a nanosecond that memory moves at most; 0.0 where one of both is not known (0 or less)."""
    return _TRANSFERS * max(clock_mhz, 0.0) / 1000 * max(bus_bits, 0) / 8


_ECC_UNCORRECTED, _ECC_SINCE_RESET = 1, 0  # nvmlMemoryErrorType_t, nvmlEccCounterType_t

SLOWEST_CLOCK = 0.75  # of the default clock; a sample below is discarded


class Clocks:
    """NVML's view of one device. Every question is answered, with None where the library or device cannot."""

    def __init__(self, library: Any, uuid: str) -> None:
        self.unavailable = ""
        self._library = library
        self._device: Any = None
        if library is None:
            self.unavailable = "NVML is not available"
            return
        try:
            self._device = library.device_get_handle_by_uuid(uuid)
        except Exception as error:
            self.unavailable = f"NVML does not know the device ({error})"
        self.default_mhz = self._ask(lambda n, d: int(n.device_get_max_clock_info(d, _CLOCK_SM)))

    default_mhz: int | None = None

    def _ask(self, question: Callable[[Any, Any], Any]) -> Any:
        if self._device is None:
            return None
        try:
            return question(self._library, self._device)
        except Exception:  # NOT_SUPPORTED on many devices, absent in older bindings: not known is the answer
            return None

    def sm_mhz(self) -> int | None:
        """The SM clock now."""
        value = self._ask(lambda n, d: int(n.device_get_clock_info(d, _CLOCK_SM)))
        return None if value is None else int(value)

    def throttle_reasons(self) -> list[str]:
        """Why the clock is lower than it could be, now; reasons that do not spoil a measurement left out."""
        bits = self._ask(lambda n, d: int(n.device_get_current_clocks_event_reasons(d)))
        return [
            name for bit, (name, spoils) in _REASONS.items() if bits is not None and bits & bit and spoils
        ]

    def state(self) -> dict[str, int | str]:
        """What is known about the device, for the result. Empty when NVML is unavailable."""
        questions: dict[str, Callable[[Any, Any], Any]] = {
            "sm_clock_mhz": lambda n, d: int(n.device_get_clock_info(d, _CLOCK_SM)),
            "memory_clock_mhz": lambda n, d: int(n.device_get_clock_info(d, _CLOCK_MEMORY)),
            "maximum_sm_clock_mhz": lambda n, d: int(n.device_get_max_clock_info(d, _CLOCK_SM)),
            "power_limit_mw": lambda n, d: int(n.device_get_power_management_limit(d)),
            "power_draw_mw": lambda n, d: int(n.device_get_power_usage(d)),
            "temperature_c": lambda n, d: int(n.device_get_temperature_v(d, _TEMPERATURE_GPU)),
            "persistence_mode": lambda n, d: int(n.device_get_persistence_mode(d)),
            "ecc_mode": lambda n, d: int(n.device_get_ecc_mode(d)[0]),
            "ecc_uncorrected_errors": lambda n, d: int(
                n.device_get_total_ecc_errors(d, _ECC_UNCORRECTED, _ECC_SINCE_RESET)
            ),
            "mig_mode": lambda n, d: int(n.device_get_mig_mode(d)[0]),
            "other_processes": lambda n, d: max(0, len(n.device_get_compute_running_processes_v3(d)) - 1),
        }
        known = {name: self._ask(question) for name, question in questions.items()}
        return {name: value for name, value in known.items() if value is not None}
