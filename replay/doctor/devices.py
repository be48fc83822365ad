"""Asks the driver and NVML about devices, in a process of its own: a broken driver may crash or hang whoever loads it.

Prints one JSON map.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from replay.errors import ReplayError

_COMPUTE_MODE_PROHIBITED = 2  # CU_COMPUTEMODE_PROHIBITED
_ATTRIBUTE_COMPUTE_MODE = 20
_MODES = {1: "exclusive", 2: "prohibited", 3: "exclusive process"}


def main() -> None:
    """Print what is known as JSON. Errors are part of it."""
    found: dict[str, Any] = {"driver_version": 0, "devices": [], "error": ""}
    try:
        _ask(found)
    except ReplayError as error:
        found["error"] = error.what
    except Exception as error:  # a report about a broken machine must not break
        found["error"] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a driver that hangs at exit has answered already


def _ask(found: dict[str, Any]) -> None:
    from replay.engine.driver import LoadedDriver, management_library
    from replay.engine.outcome import device_facts
    from replay.timing.clocks import Clocks

    driver = LoadedDriver()
    code = driver.cuInit.code(0)
    if code:
        found["error"] = f"cuInit returned {driver.error_name(code)}"
        return
    found["driver_version"] = driver.cuDriverGetVersion()
    library = management_library()
    for ordinal in range(driver.cuDeviceGetCount()):
        device = driver.cuDeviceGet(ordinal) & 0xFFFFFFFF
        facts = device_facts(driver, device, ordinal)
        clocks = Clocks(library, facts["uuid"])
        mode = driver.cuDeviceGetAttribute(_ATTRIBUTE_COMPUTE_MODE, device)
        found["devices"].append(
            {
                **facts,
                "compute_mode": _MODES.get(mode, ""),
                "prohibited": mode == _COMPUTE_MODE_PROHIBITED,
                "state": clocks.state(),
                "throttled": clocks.throttle_reasons(),
                "unavailable": clocks.unavailable,
            }
        )


if __name__ == "__main__":
    main()
