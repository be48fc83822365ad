"""Which architecture the device of a replay has, asked in a short-lived child: this process loads no driver."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache

from replay.drivers import Driver
from replay.errors import EngineError

_TIMEOUT_S = 120
# CUdevice_attribute 75 and 76 are the two parts of the compute capability.
_ASK = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
code = driver.cuInit(0)
device, parts = ctypes.c_int(0), []
code = code or driver.cuDeviceGet(ctypes.byref(device), int(sys.argv[1]))
for attribute in (75, 76):
    value = ctypes.c_int(0)
    code = code or driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    parts.append(value.value)
print(code, 10 * parts[0] + parts[1])
"""


def architecture(driver: Driver, ordinal: int) -> int:
    """90 for a device of compute capability 9.0. Raises EngineError when the driver does not say."""
    from replay.engine.environment import worker_environment

    return _ask(driver, ordinal, tuple(sorted(worker_environment(driver).items())))


@lru_cache(maxsize=64)  # a session asks for each candidate, a comparison in each round
def _ask(driver: Driver, ordinal: int, environment: tuple[tuple[str, str], ...]) -> int:
    command = [sys.executable, "-I", "-S", "-c", _ASK, str(ordinal)]
    try:
        answer = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        code, number = map(int, answer.stdout.split()[-2:])
    except (OSError, subprocess.TimeoutExpired, ValueError):
        code, number = -1, 0
    if code != 0 or number <= 0:
        raise EngineError(
            f"the driver does not say which architecture device {ordinal} has"
            + (f" (CUresult {code})" if code > 0 else ""),
            where=driver.library,
        )
    return number
