"""Who has addresses when, and what is placed and moved as one."""

from __future__ import annotations

import ctypes

import pytest

from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.memory import hold, place
from replay.engine.placing.turns import Turns
from replay.engine.relocation.shift import hold_targets
from replay.planning.families import Families
from replay.planning.spans import PAGE_BYTES, plan_spans, stays_of
from replay.snapshot.schema import Range

from ...helpers.fake_driver import FakeDriver, store

MIB = 1 << 20
GRANULE = 2 * MIB
BASE = 0x3200_0000_0000


def device(id_, at, size, born=None, died=None):
    return Range(id_, "device", BASE + at, size, 0, 0, born_call=born, died_call=died)


def pinned(id_, at, size, born=None, died=None, kind="host", **words):
    return Range(id_, kind, BASE + at, size, 0, 0, born_call=born, died_call=died, **words)


@pytest.fixture
def free_addresses():
    libc = ctypes.CDLL(None)
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.munmap(BASE, 64 * MIB)
    yield
    libc.munmap(BASE, 64 * MIB)


# -- planning ---------------------------------------------------------------------------------------------------------


def test_pinned_memory_in_a_granule_of_its_own_is_no_stay():
    assert not stays_of([device(1, 0, MIB), pinned(2, GRANULE, 4096)]).by_number
    assert not stays_of([pinned(1, 0, 4096, died=5), pinned(2, 0, 4096, born=6)]).by_number


def test_a_stay_lasts_as_long_as_any_memory_of_its_pages():
    ranges = [
        device(1, 0, 100, died=3),
        pinned(2, 100, 5000, 4, 9),
        pinned(3, 5200, 100, 6, 12),  # shares a page with it
        pinned(4, 100, 50, 20, 21),
    ]
    stays = stays_of(ranges)
    found = [
        (s.address - BASE, s.end - BASE, s.range_ids, s.born, s.died, s.apart)
        for s in stays.by_number.values()
    ]
    assert found == [
        (0, 2 * PAGE_BYTES, (2, 3), 4, 12, False),
        (0, PAGE_BYTES, (4,), 20, 21, False),
    ]
    assert stays.beside == {1}
    assert stays_of(reversed(ranges)) == stays


def test_pinned_memory_that_shares_a_granule_at_the_same_time_is_kept_apart():
    ranges = [device(1, 0, 100), pinned(2, 4096, 100, 4, 9)]
    (stay,) = stays_of(ranges).by_number.values()
    assert stay.apart
    spans = plan_spans(ranges)
    assert [span.cluster for span in spans] == [0, 0]
    assert list(hold(spans).values()) == ["memory of the device has the same 2 MiB at the same time"]


def test_what_takes_turns_is_one_cluster_over_all_that_it_touches(free_addresses):
    """Pinned memory joins two stretches of the device, and they move by one distance."""
    ranges = [
        device(1, 0, MIB, died=3),
        device(2, 2 * GRANULE, MIB, died=3),
        pinned(3, MIB, 2 * GRANULE, 4, 9),
        device(4, 8 * GRANULE, MIB),
    ]
    spans = plan_spans(ranges)
    assert sorted((span.address - BASE, span.stay, span.cluster) for span in spans) == [
        (0, 0, 1), (MIB, 1, 1), (2 * GRANULE, 0, 1), (8 * GRANULE, 0, 0),
    ]  # fmt: skip
    assert hold(spans) == {}
    targets = hold_targets(spans, 1)
    distances = {span.cluster: set() for span in spans}
    for span, target in targets.items():
        distances[span.cluster].add(target - span.address)
    assert [len(found) for found in distances.values()] == [1, 1]
    assert distances[0] != distances[1]


# -- taking turns -----------------------------------------------------------------------------------------------------


def reserving():
    """Gives every address that is asked for."""
    return FakeDriver(
        cuMemAddressReserve=lambda pointer, size, alignment, address, flags: store(pointer, address)
    )


@pytest.fixture
def turns(free_addresses):
    ranges = [
        device(1, 0, 3 * GRANULE, died=3),
        pinned(2, GRANULE + 100, 5000, 4, 9, "registered", host_flags=8),
        device(3, GRANULE, 100, born=10),
    ]
    driver, spans = reserving(), plan_spans(ranges)
    backing = Backing(driver, Families())
    placed = place(driver, spans, hold(spans), device=0, relocate=False, backing=backing)
    addresses = AddressMap(placed)
    live = Turns(driver, stays_of(ranges), placed, addresses, lambda span: Home(0, (0,)), backing)
    live.expect(ranges)
    return driver, live, addresses, ranges


def test_only_the_granules_that_change_hands_are_unmapped_and_mapped(turns):
    driver, live, addresses, ranges = turns
    assert [words[3] - BASE for name, words in driver.calls if name == "cuMemAddressReserve"] == [
        0, GRANULE, 2 * GRANULE,
    ]  # fmt: skip
    driver.calls.clear()
    live.appear(ranges[1])
    assert driver.symbols() == ["cuMemUnmap", "cuMemAddressFree", "cuMemHostRegister_v2"]
    assert driver.last("cuMemUnmap") == [BASE + GRANULE, GRANULE]
    assert driver.last("cuMemHostRegister_v2") == [BASE + GRANULE, 2 * PAGE_BYTES, 1 | 2 | 8]
    home = BASE + GRANULE + 100
    assert addresses.is_for_host(home)
    assert addresses.reach(home, 5000) == home
    assert addresses.reach(home, 5000, write=True) is None  # for reading alone
    assert addresses.reach(home, 5001) is None
    live.leave(ranges[1])
    assert not addresses.is_here(2)
    assert not addresses.is_for_host(home)
    driver.calls.clear()
    live.appear(ranges[2])
    assert driver.symbols()[:3] == ["cuMemHostUnregister", "cuMemAddressReserve", "cuMemCreate"]
    driver.calls.clear()
    live.begin()  # as it is
    assert driver.calls == []


def test_a_window_that_ends_with_pinned_memory_begins_with_the_devices_again(turns):
    driver, live, _, ranges = turns
    live.appear(ranges[1])
    driver.calls.clear()
    waited = []
    live.begin(lambda: waited.append(len(driver.calls)))
    assert waited == [0]
    assert "cuMemHostUnregister" in driver.symbols()
    assert driver.last("cuMemMap")[:2] == [BASE + GRANULE, GRANULE]


def test_a_cluster_that_cannot_be_where_it_was_moves_as_one(free_addresses):
    ranges = [device(1, 0, GRANULE, died=3), pinned(2, MIB, GRANULE, 4, 9)]
    spans = plan_spans(ranges)
    taken = {next(span for span in spans if span.stay): "no such address"}
    hold(spans)
    placed = place(reserving(), spans, taken, device=0, relocate=True)
    assert {(item.how, item.reason) for item in placed} == {("relocated", "no such address")}
    (distance,) = {item.live_address - item.span.address for item in placed}
    assert distance % GRANULE == 0
    addresses = AddressMap(placed)
    assert (
        addresses.find(BASE + GRANULE + 10) == BASE + GRANULE + 10 + distance
    )  # nothing is pinned there yet
