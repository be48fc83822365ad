"""A held stream is released, by whoever holds it or, in time, by its guard."""

from __future__ import annotations

import ctypes
import threading

import pytest

from replay.engine.measuring import hold as holding
from replay.engine.measuring.hold import Hold

from ..helpers.fake_driver import FakeDriver, store


class Clock:
    """Stands for `time`: it passes when the test says so, and the guard has looked when `passes` returns."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._asleep, self._awake = threading.Semaphore(0), threading.Semaphore(0)

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, duration_s: float) -> None:
        self._asleep.release()
        self._awake.acquire()

    def passes(self, duration_s: float) -> None:
        assert self._asleep.acquire(timeout=60)
        self._now_s += duration_s
        self._awake.release()
        assert self._asleep.acquire(timeout=60)
        self._asleep.release()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stands_in = Clock()
    monkeypatch.setattr(holding, "time", stands_in)
    return stands_in


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


def test_a_driver_that_waits_for_the_held_stream_is_let_go(clock):
    hold, flag = held(2)
    clock.passes(2)
    assert (flag.value, hold.has_expired) == (0, False)
    clock.passes(0.1)
    assert (flag.value, hold.has_expired) == (1, True)


def test_the_guard_leaves_a_stream_alone_that_was_opened_in_time(clock):
    hold, flag = held(2)
    hold.open()
    flag.value = 0
    clock.passes(5)
    assert (flag.value, hold.has_expired) == (0, False)
