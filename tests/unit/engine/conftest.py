"""Fixtures of the tests of the engine: one on a driver that only takes notes."""

from __future__ import annotations

import pytest

from ..helpers.fake_driver import FakeDriver
from .wiring import Engine, relocated


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def executor(driver: FakeDriver) -> Engine:
    return relocated(driver)
