"""Whatever a snapshot's calls say, a driver is only ever given memory of the snapshot and buffers of the engine."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from replay.api.extents import Extent
from replay.api.graphs import DESCRIBED
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.engine.execution.executor import Executor
from replay.engine.execution.inputs import Prepared
from replay.errors import EngineError
from replay.snapshot.schema import Call

from . import hostile
from .hostile import HANDLE, LIVE_HANDLE, ROWS, WatchfulDriver

bounded = settings(
    max_examples=25, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip


class OneDevice:
    """Stands for `Devices`."""

    context = 0xCCC

    def device(self, captured: int) -> int:
        return 3

    def is_split(self, captured: int) -> bool:
        return False


class WatchedExecutor(Executor):
    """Keeps what it makes, so that the driver knows it."""

    made_here: list[Any]
    last: Prepared | None = None

    def buffer(self, prepared: Prepared, data: bytes) -> Any:
        self.last = prepared
        return super().buffer(prepared, data)

    def lasting_room(self, size_bytes: int) -> Any:
        self.made_here.append(super().lasting_room(size_bytes))
        return self.made_here[-1]


def watched() -> tuple[WatchedExecutor, WatchfulDriver]:
    def own() -> Iterator[Any]:
        prepared = executor.last
        kept = prepared.keep if prepared is not None else []
        return itertools.chain(kept, executor.made_here, executor._image_buffers.values())

    driver = WatchfulDriver(own)
    executor = WatchedExecutor(driver, None, {}, hostile.address_map(), {}, OneDevice())  # type: ignore[arg-type]
    executor.made_here = []
    for c_type in HANDLE_TYPES:
        executor.handles.bind(c_type, HANDLE, LIVE_HANDLE)
    executor.is_managed = lambda live: True
    return executor, driver


def replay_one(executor: WatchedExecutor, call: Call) -> None:
    """As a session does it: prepare, settle, run twice. An EngineError is a refusal."""
    with contextlib.suppress(EngineError):
        prepared = executor.prepare(call)
        if prepared is None:
            return
        executor.last = prepared
        executor.settle([prepared])
        for _ in range(2):
            executor.run(prepared)


@pytest.mark.parametrize("symbol", sorted(symbol for symbol in ROWS if symbol not in DESCRIBED))
def test_no_call_reaches_other_memory(symbol: str) -> None:
    row = ROWS[symbol]
    submitted: set[str] = set()

    pointless = all(item.kind != "pointer" and item.role != Role.ADDRESS for item in row.parameters)

    @settings(bounded, max_examples=3 if pointless else 25)
    @given(hostile.calls(row))
    def every(call: Call) -> None:
        executor, driver = watched()
        replay_one(executor, call)
        submitted.update(driver.submitted)
        assert hostile.MEMORY.is_untouched_around(), "this process wrote beyond the captured memory"

    every()
    assert submitted, "all of them were refused, which shows nothing"


@pytest.mark.parametrize(
    ("captured", "extent", "write", "allowed"),
    [
        (hostile.HOST, Extent(0, hostile.HOST_BYTES), True, True),
        (hostile.HOST, Extent(0, hostile.HOST_BYTES + 1), True, False),
        (hostile.HOST, Extent(hostile.HOST_BYTES - 1, 1), True, True),
        (hostile.HOST, Extent(hostile.HOST_BYTES, 1), True, False),
        (hostile.HOST + hostile.HOST_BYTES, Extent(0, 1), False, False),
        (
            hostile.HOST + hostile.HOST_BYTES,
            Extent(0, 0),
            False,
            True,
        ),  # past the last element, followed by nobody
        (hostile.HOST, Extent(0, hostile.READ_ONLY - hostile.HOST + 8), False, False),
        (hostile.READ_ONLY, Extent(0, 8), False, True),
        (hostile.READ_ONLY, Extent(0, 8), True, False),
        (hostile.VARIABLE, Extent(0, hostile.VARIABLE_BYTES), True, True),
        (hostile.VARIABLE, Extent(0, hostile.VARIABLE_BYTES + 1), True, False),
        (hostile.ARRAY, Extent(0, 1), False, False),
        (hostile.HOST, Extent(2**64, 8), False, False),
        (2**64 - 8, Extent(16, 8), False, False),
    ],
)
def test_an_access_is_wholly_in_one_stretch_or_refused(
    captured: int, extent: Extent, write: bool, allowed: bool
) -> None:
    addresses = hostile.address_map()
    if allowed:
        live = addresses.access(captured, extent, "here", "dst", write)
        assert (addresses.find(captured) or 0) == live
        return
    with pytest.raises(EngineError, match=r"here: .*\(dst\)"):
        addresses.access(captured, extent, "here", "dst", write)


def test_a_texture_over_memory_that_ends_before_it_is_refused() -> None:
    executor, _ = watched()
    linear = struct.pack("<I4xQIIQ", 2, hostile.DEVICE, 0x20, 1, hostile.DEVICE_BYTES + 1).ljust(144, b"\0")
    inputs = {"pResDesc": linear, "pTexDesc": bytes(104)}
    prepared = executor.prepare(Call(7, "cuTexObjectCreate", "window", 1, [1, 1, 1, 0], 0, inputs=inputs))
    assert prepared is not None
    with pytest.raises(EngineError, match="cuTexObjectCreate.*pResDesc"):
        executor.run(prepared)


def test_fewer_resources_than_the_call_reads_are_refused() -> None:
    executor, _ = watched()
    call = Call(7, "cuDevResourceGenerateDesc", "window", 1, [1, 1, 4], 0, inputs={"resources": bytes(144)})
    with pytest.raises(EngineError, match="cuDevResourceGenerateDesc.*reads 4"):
        executor.prepare(call)
