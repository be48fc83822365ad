"""A stream held on a flag of the host, so that the time in which a window is queued is no time of the window.

A driver that cannot queue more into a held stream waits for that stream, in the very thread that would release it. So
a guard releases the stream when queueing takes longer than any window should; the sample is then no good, and streams
are not held any more. Not yet seen on a GPU (GT-STREAM-HOLD).
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import NamedTuple

from replay.engine.driver import Driver

LIMIT_S = 2.0  # of queueing MAXIMUM_HELD_CALLS commands, which take a few milliseconds
_POLL_S = 0.25

_HOST_ALLOC_PORTABLE_MAPPED = 3
_WAIT_VALUE_EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ


class _Held(NamedTuple):
    since_s: float


class Hold:
    """The flag, in pinned memory of the current context. Raises DriverFailure, and EngineError where a function that it
    needs is missing."""

    def __init__(self, driver: Driver, limit_s: float = LIMIT_S) -> None:
        self._driver = driver
        self._limit_s = limit_s
        self._address = driver.cuMemHostAlloc(4, _HOST_ALLOC_PORTABLE_MAPPED)
        self._flag = ctypes.c_uint32.from_address(self._address)
        self._flag.value = 1
        self._held: _Held | None = None
        self._guard: threading.Thread | None = None
        self.has_expired = False  # the guard had to release a stream

    def wait(self, stream: int) -> None:
        """Queue the wait: work after it begins when the flag is set."""
        self._driver.cuStreamWaitValue32_v2(stream, self._address, 1, _WAIT_VALUE_EQUAL)

    def close(self, stream: int) -> None:
        """Hold the stream until `open`, which must follow whatever happens."""
        if self._guard is None:
            self._guard = threading.Thread(target=self._watch, name="hold-guard", daemon=True)
            self._guard.start()
        self._flag.value = 0
        self._held = _Held(time.monotonic())
        self.wait(stream)

    def open(self) -> None:
        """Let the stream go on."""
        self._held = None
        self._flag.value = 1

    def _watch(self) -> None:
        while True:
            time.sleep(min(_POLL_S, self._limit_s / 4))
            held = self._held
            if held is not None and time.monotonic() - held.since_s > self._limit_s and self._held is held:
                self.has_expired = True
                self._flag.value = 1
