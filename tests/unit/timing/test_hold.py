"""A held stream is released, by whoever holds it or, in time, by its guard."""

from __future__ import annotations

import ctypes
import time

from replay.engine.measuring.hold import Hold

from ..fake_driver import FakeDriver, store


def held(limit_s: float) -> tuple[Hold, ctypes.c_uint32]:
    flag = ctypes.c_uint32(7)
    driver = FakeDriver(cuMemHostAlloc=lambda pointer, *rest: store(pointer, ctypes.addressof(flag)))
    hold = Hold(driver, limit_s)
    assert flag.value == 1
    hold.close(5)
    assert driver.last("cuStreamWaitValue32_v2") == [5, ctypes.addressof(flag), 1, 1]
    return hold, flag


def test_a_stream_waits_until_it_is_opened():
    hold, flag = held(60)
    assert flag.value == 0
    hold.open()
    assert (flag.value, hold.has_expired) == (1, False)


def test_a_driver_that_waits_for_the_held_stream_is_let_go():
    hold, flag = held(0.05)
    deadline_s = time.monotonic() + 10
    while flag.value == 0 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert (flag.value, hold.has_expired) == (1, True)


def test_the_guard_leaves_a_stream_alone_that_was_opened_in_time():
    hold, flag = held(0.2)
    hold.open()
    flag.value = 0
    time.sleep(0.5)
    assert (flag.value, hold.has_expired) == (0, False)
