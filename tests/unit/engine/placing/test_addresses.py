"""Where the captured memory is in a replay: at its addresses, or elsewhere with every pointer patched."""

from __future__ import annotations

import platform
import struct

import pytest

from replay.engine.placing import layouts
from replay.errors import EngineError
from replay.run import parent
from replay.snapshot.schema import Census

from ...helpers.small_snapshots import BASE, FOLLOW, INCREMENT, UNREACHABLE, increment, u32, u64
from ...helpers.snapshot_factory import MODULE, SnapshotFactory


def test_unreachable_addresses_are_relocated_at_once_and_pointers_patched(replayed):
    result = replayed(increment(address=UNREACHABLE + (4 << 20)))
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 1
    assert result.placement.restarts == 0
    assert "no such address" in result.placement.moved[0]


LOADER = 0x7FFF_F7FD_0000  # where the dynamic loader is in every process without randomisation (x86-64)


def at_the_loader(monkeypatch, layouts_in_turn):
    """A snapshot with pinned memory where a worker of the first layout has the dynamic loader."""
    with layouts.started_in("bottom_up_fixed") as got:
        if got != "bottom_up_fixed" or platform.machine() != "x86_64":
            pytest.skip("needs personality(2), which this container does not permit")
    monkeypatch.setattr(layouts, "ORDER", layouts_in_turn)
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    range_ = factory.range(LOADER, u32(5), u32(6), kind="host")
    launch = factory.launch(u64(LOADER), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    return factory


def test_a_worker_whose_addresses_are_taken_is_followed_by_one_of_another_layout(replayed, monkeypatch):
    result = replayed(at_the_loader(monkeypatch, ("fixed", "bottom_up_fixed")), own=True)
    assert result.verification.verdict == "match"
    assert result.placement.same_address_ranges == 1
    assert result.placement.layouts == ["fixed", "bottom_up_fixed"]


def test_addresses_that_are_taken_in_every_worker_are_relocated_in_the_end(replayed, monkeypatch):
    result = replayed(at_the_loader(monkeypatch, ("fixed",)), own=True)
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 1
    assert result.placement.restarts == parent.MAXIMUM_RESTARTS
    assert "has the address" in result.placement.moved[0]
    assert [item.reason for item in result.placement.ranges] == [
        "something in the replaying process has the address"
    ]


def test_memory_that_must_not_move_is_an_error_that_says_why_and_what_to_do(replayed, monkeypatch):
    """Beyond the address space; taken in every worker; refused by the driver."""
    with pytest.raises(EngineError, match="placed as captured: .*no such address.*--no-relocate"):
        replayed(increment(address=UNREACHABLE + (4 << 20)), relocate=False)
    with pytest.raises(EngineError, match=f"placed as captured: {LOADER:#x} is in use.*--no-relocate"):
        replayed(at_the_loader(monkeypatch, ("fixed",)), relocate=False, own=True)
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuMemAddressReserve:1:2")
    with pytest.raises(EngineError, match="cuMemAddressReserve returned CUDA_ERROR_OUT_OF_MEMORY"):
        replayed(increment(), relocate=False)


def test_driver_that_refuses_an_address_is_asked_twice_and_then_moved_around(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuMemAddressReserve:1:2")
    result = replayed(increment())
    assert result.verification.verdict == "match"
    assert result.placement.restarts == parent.MAXIMUM_REFUSALS
    assert "cuMemAddressReserve returned CUDA_ERROR_OUT_OF_MEMORY" in result.placement.moved[0]


def test_pointers_inside_memory_are_patched_when_it_moves(replayed):
    table, target = UNREACHABLE + (4 << 20), UNREACHABLE + (8 << 20)
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    first = factory.range(table, u64(target), u64(target))
    second = factory.range(target, u32(5), u32(6))
    launch = factory.launch(u64(table), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, first.id, 0)))
    factory.census.append(Census("range", first.id, struct.pack("<QQII", 0, 0, second.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 2


def test_pointers_to_module_variables_are_patched_and_their_contents_loaded(replayed):
    """A variable lives where the driver loads it; the captured table still points to the old place."""
    captured = 0x3400_0000_0040
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    table = factory.range(BASE, u64(captured), u64(captured))
    counter = factory.range(captured, u32(41), u32(42), kind="global", name="counter", owner=MODULE)
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    factory.census.append(Census("range", table.id, struct.pack("<QQII", 0, 0, counter.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert (result.placement.globals, result.placement.patched_globals) == (1, 1)


def test_pointers_that_the_window_copies_in_follow_moved_memory_and_the_guess_is_told(replayed):
    table, target = UNREACHABLE + (4 << 20), UNREACHABLE + (8 << 20)
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    first = factory.range(table, bytes(8), u64(target))
    factory.range(target, u32(5), u32(6))
    factory.call("cuMemcpyHtoD_v2", [table, 0x7F40, 8], inputs={"srcHost": u64(target)})
    launch = factory.launch(u64(table), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, first.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert sum("(a guess)" in note for note in result.notes) == 2


def test_pinned_host_memory_is_at_its_address_and_visible_to_the_kernel(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE + (32 << 20), u32(5), u32(6), kind="host")
    factory.launch(u64(BASE + (32 << 20)), [(0, 8)], 1, 1)
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.placement.same_address_ranges == 1


def test_pinned_memory_with_another_device_address_is_seen_under_both(replayed):
    host, device = BASE + (32 << 20), 0x3500_0000_0000
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    range_ = factory.range(device, u32(5), u32(6), kind="registered", host_address=host)
    launch = factory.launch(u64(device), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    assert replayed(factory).verification.verdict == "match"
