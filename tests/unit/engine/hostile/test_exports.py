"""The driver that takes notes for an export reads memory of this process alone that was handed to it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from replay.api.structs import CUDA_MEMCPY2D
from replay.errors import EngineError
from replay.export import recording
from replay.export.recording import RecordingDriver

BASE, BASE_BYTES = 0x3600_0000_0000, 8192


def is_captured(address: int, size_bytes: int = 1) -> bool:
    return address >= BASE and address + size_bytes <= BASE + BASE_BYTES


@pytest.fixture
def driver() -> RecordingDriver:
    return RecordingDriver(is_captured)


def copy_to(driver: RecordingDriver, pointer: Any, size_bytes: int) -> None:
    driver.function("cuMemcpyHtoD_v2")(BASE, pointer, size_bytes)


def rows(driver: RecordingDriver, address: int, side: str, width: int) -> None:
    other = "dst" if side == "src" else "src"
    fields = {f"{side}MemoryType": 1, f"{side}Host": address, f"{other}MemoryType": 2, f"{other}Device": BASE}
    copy = CUDA_MEMCPY2D(WidthInBytes=width, Height=1, **fields)
    driver.function("cuMemcpy2D_v2")(ctypes.addressof(copy))


@pytest.mark.parametrize(
    "call",
    [
        lambda driver, address: copy_to(driver, BASE, BASE_BYTES + 1),
        lambda driver, address: copy_to(driver, BASE + 8, BASE_BYTES),
        lambda driver, address: copy_to(driver, address, 16),
        lambda driver, address: rows(driver, address, "src", 16),
        lambda driver, address: rows(driver, address, "dst", 16),
        lambda driver, address: rows(driver, BASE + BASE_BYTES - 8, "src", 16),
    ],
    ids=["beyond it", "over its end", "bytes", "rows", "rows to", "rows over its end"],
)
def test_other_memory_is_refused(driver: RecordingDriver, call: Callable[..., None]) -> None:
    mine = ctypes.create_string_buffer(b"a secret of this process")
    with pytest.raises(EngineError, match="captured memory|no memory that the snapshot holds|does not hold"):
        call(driver, ctypes.addressof(mine))
    assert driver.steps == []


@pytest.mark.parametrize("side", ["src", "dst"])
def test_a_buffer_ends_where_it_ends(driver: RecordingDriver, side: str) -> None:
    buffer = ctypes.create_string_buffer(16)
    assert driver.keep(buffer)
    address = ctypes.addressof(buffer)
    rows(driver, address + 8, side, 8)
    with pytest.raises(EngineError, match="no memory that the snapshot holds"):
        rows(driver, address + 8, side, 9)


def test_all_that_calls_point_to_has_a_bound(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAXIMUM_BLOCK_BYTES", 100)
    first = driver.block(bytes(60))
    assert driver.block(bytes(60)) is first
    with pytest.raises(EngineError, match="GiB of data"):
        driver.block(b"x" * 60)
