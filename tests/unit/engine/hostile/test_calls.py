"""Whatever a snapshot's calls say, a driver is only ever given memory of the snapshot and buffers of the engine."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from replay.api.extents import Extent, box, of_call
from replay.api.functions import by_symbol
from replay.api.graphs import DESCRIBED
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.engine.arguments.buffers import Buffers
from replay.engine.arguments.prepared import Prepared
from replay.errors import EngineError
from replay.snapshot.schema import Call

from ..wiring import Engine, OneDevice
from . import calls as hostile
from .calls import HANDLE, LIVE_HANDLE, ROWS
from .watchful_driver import WatchfulDriver

bounded = settings(
    max_examples=25, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip


class WatchedBuffers(Buffers):
    """Keeps what it makes, so that the driver knows it. last: the call that got a buffer last."""

    def __init__(self) -> None:
        self.lasting: list[Any] = []
        self.last: Prepared | None = None

    def of(self, prepared: Prepared, data: bytes) -> Any:
        self.last = prepared
        return super().of(prepared, data)

    def room(self, size_bytes: int) -> Any:
        self.lasting.append(super().room(size_bytes))
        return self.lasting[-1]

    def image(self, data: bytes) -> Any:
        self.lasting.append(super().image(data))
        return self.lasting[-1]


class WatchedEngine(Engine):
    def __init__(self, driver: WatchfulDriver, buffers: WatchedBuffers) -> None:
        devices = OneDevice(context=0xCCC, device=3)
        super().__init__(driver, hostile.address_map(), devices=devices, buffers=buffers)
        self.buffers = buffers


def watched() -> tuple[WatchedEngine, WatchfulDriver]:
    buffers = WatchedBuffers()

    def own() -> Iterator[Any]:
        kept = buffers.last.keep if buffers.last is not None else []
        return itertools.chain(kept, buffers.lasting)

    driver = WatchfulDriver(own)
    executor = WatchedEngine(driver, buffers)
    for c_type in HANDLE_TYPES:
        executor.handles.bind(c_type, HANDLE, LIVE_HANDLE)
    executor.addresses.is_managed = lambda captured: True  # type: ignore[method-assign]
    return executor, driver


def replay_one(executor: WatchedEngine, call: Call) -> None:
    """As a session does it: prepare, settle, run twice. An EngineError is a refusal."""
    with contextlib.suppress(EngineError):
        prepared = executor.prepare(call)
        if prepared is None:
            return
        executor.buffers.last = prepared
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


def test_fewer_locations_than_the_call_reads_are_refused() -> None:
    executor, _ = watched()
    inputs = {
        "dptrs": struct.pack("<Q", hostile.DEVICE), "sizes": struct.pack("<Q", 4), "prefetchLocs": bytes(16),
        "prefetchLocIdxs": bytes(24),
    }  # fmt: skip
    call = Call(7, "cuMemPrefetchBatchAsync", "window", 1, [1, 1, 1, 1, 1, 3, 0, 0], 0, inputs=inputs)
    with pytest.raises(EngineError, match="2 locations, of which the call reads 3"):
        executor.prepare(call)


def test_addresses_without_their_sizes_are_refused() -> None:
    executor, _ = watched()
    inputs = {"dptrs": struct.pack("<Q", hostile.DEVICE), "sizes": struct.pack("<Q", 4)}
    call = Call(7, "cuMemDiscardBatchAsync", "window", 1, [1, 0, 1, 0, 0], 0, inputs=inputs)
    with pytest.raises(EngineError, match="no sizes for dptrs"):
        executor.prepare(call)


def test_fewer_attributes_than_the_call_reads_are_refused() -> None:
    executor, _ = watched()
    words = [hostile.DEVICE, hostile.DEVICE, 4, 1, 0]
    call = Call(7, "cuMemcpyWithAttributesAsync", "window", 1, words, 0, inputs={"attr": bytes(23)})
    with pytest.raises(EngineError, match="attributes have a broken length"):
        executor.prepare(call)


def test_parameters_of_a_graph_that_are_too_short_are_refused() -> None:
    executor, _ = watched()
    words = [HANDLE, HANDLE, 1]
    call = Call(
        7, "cuGraphInstantiateWithParams", "window", 1, words, 0, inputs={"instantiateParams": bytes(7)}
    )
    with pytest.raises(EngineError, match="parameters of a graph: 7 bytes are too few"):
        executor.prepare(call)


def test_a_batch_is_given_the_sizes_that_were_looked_at() -> None:
    executor, driver = watched()
    address = struct.pack("<Q", hostile.DEVICE)
    inputs = {
        "dsts": address,
        "srcs": address,
        "sizes": struct.pack("<Q", 4),
        "attrs": bytes(24),
        "attrsIdxs": bytes(8),
    }
    for function, words in (
        ("cuMemcpyBatchAsync", [1, 1, 0, 1, 1, 1, 1, 0, 1]),
        ("cuMemcpyBatchAsync_v2", [1, 1, 0, 1, 1, 1, 1, 1]),
    ):
        prepared = executor.prepare(Call(7, function, "window", 1, words, 0, inputs=inputs))
        assert prepared is not None
        executor.run(prepared)
        assert function in driver.submitted


def test_an_address_of_an_array_is_looked_at_with_its_size() -> None:
    executor, driver = watched()
    inputs = {
        "dptrs": struct.pack("<2Q", hostile.DEVICE, hostile.DEVICE),
        "sizes": struct.pack("<2Q", 4, 1 << 30),
    }
    prepared = executor.prepare(
        Call(7, "cuMemDiscardBatchAsync", "window", 1, [1, 1, 2, 0, 0], 0, inputs=inputs)
    )
    assert prepared is not None
    executor.run(prepared)  # a hint, which is left out
    assert "cuMemDiscardBatchAsync" not in driver.submitted
    assert any("dptrs[1]" in note for note in executor.notes)


def test_an_address_of_which_the_table_says_nothing_is_refused() -> None:
    executor, _ = watched()
    function = replace(by_symbol()["cuMemsetD8_v2"], touches=())
    call = Call(7, "cuMemsetD8_v2", "window", 1, [hostile.DEVICE, 1, 4], 0)
    prepared = Prepared(call, 0, lambda *_: 0, [])
    with pytest.raises(EngineError, match="nothing says how far it reaches from dstDevice"):
        executor.builder._address(prepared, function, 0, hostile.DEVICE)


# How far calls reach from addresses that they are given as they are, from cuda.h and not from the table. By names
# without Async and version: (parameter, bytes of a row, rows, bytes from row to row, whether they are written)
REACHED: dict[str, list[tuple[str, str, str, str, bool]]] = {
    **{f"cuMemsetD{8 * size}": [("dstDevice", f"{size} * N", "1", "0", True)] for size in (1, 2, 4)},
    **{
        f"cuMemsetD2D{8 * size}": [("dstDevice", f"{size} * Width", "Height", "dstPitch", True)]
        for size in (1, 2, 4)
    },
    **{f"cuStreamWriteValue{8 * size}": [("addr", f"{size}", "1", "0", True)] for size in (4, 8)},
    **{f"cuStreamWaitValue{8 * size}": [("addr", f"{size}", "1", "0", False)] for size in (4, 8)},
    **dict.fromkeys(("cuMemcpyHtoD", "cuMemcpyAtoD"), [("dstDevice", "ByteCount", "1", "0", True)]),
    **dict.fromkeys(("cuMemcpyDtoH", "cuMemcpyDtoA"), [("srcDevice", "ByteCount", "1", "0", False)]),
    **dict.fromkeys(
        ("cuMemcpyDtoD", "cuMemcpyPeer"),
        [("dstDevice", "ByteCount", "1", "0", True), ("srcDevice", "ByteCount", "1", "0", False)],
    ),
    "cuMemcpy": [("dst", "ByteCount", "1", "0", True), ("src", "ByteCount", "1", "0", False)],
    "cuMemcpyWithAttributes": [("dst", "size", "1", "0", True), ("src", "size", "1", "0", False)],
    **dict.fromkeys(("cuMemAdvise", "cuMemPrefetch"), [("devPtr", "count", "1", "0", False)]),
    "cuStreamAttachMem": [("dptr", "length", "1", "0", False)],
    "cuTexRefSetAddress": [("dptr", "bytes", "1", "0", False)],
}


@pytest.mark.parametrize("symbol", [row.symbol for row in ROWS.values() if row.touches])
def test_the_table_knows_how_far_a_call_reaches(symbol: str) -> None:
    row = by_symbol()[symbol]
    if all(touch.each is not None for touch in row.touches):
        return  # as far as an array of sizes says: `test_an_address_of_an_array_is_looked_at_with_its_size`
    values = {parameter.name: 3 + 2 * number for number, parameter in enumerate(row.parameters)}
    words = list(values.values())
    found = {
        row.parameters[touch.parameter].name: (of_call(row, words, touch), touch.write)
        for touch in row.touches
    }
    wanted = {
        name: (box(eval(width, {}, values), eval(rows, {}, values), pitch=eval(pitch, {}, values)), write)
        for name, width, rows, pitch, write in REACHED[re.sub(r"(Async)?(_v2)?$", "", symbol)]
    }
    assert found == wanted
