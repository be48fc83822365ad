"""Placing captured memory: addresses are held, checked when granted, and moved only with a reason."""

from __future__ import annotations

import ctypes
import mmap
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engine.census import Word
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.memory import GRANULE_BYTES, AddressTaken, hold, place
from replay.engine.placing.pieces import TAKEN, Placed
from replay.engine.translation.words import patch_lookalikes, patch_words
from replay.errors import EngineError
from replay.inspection.pieces import loads, written_stretches
from replay.planning.spans import PAGE_BYTES, Span, plan_spans
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents, Range

from ...helpers.fake_driver import FakeDriver, store

MIB = 1 << 20
BASE = 0x3100_0000_0000


def a_range(address, size, kind="device", **words):
    return Range(words.pop("id", 1), kind, address, size, 0, 0, **words)


# -- planning -----------------------------------------------------------------------------------------------------


def test_neighbours_in_one_granule_become_one_span():
    spans = plan_spans([a_range(BASE, 512), a_range(BASE + 4096, 3 * MIB), a_range(BASE + 64 * MIB, 1)])
    assert spans == [Span(BASE, 4 * MIB, False), Span(BASE + 64 * MIB, 2 * MIB, False)]


def test_neighbours_that_only_touch_stay_together_when_they_move():
    """A pointer to the end of the first is the address of the second."""
    spans = plan_spans([a_range(BASE, 2 * MIB), a_range(BASE + 2 * MIB, 1), a_range(BASE + 6 * MIB, 1)])
    assert spans == [Span(BASE, 4 * MIB, False), Span(BASE + 6 * MIB, 2 * MIB, False)]
    other_device = Range(2, "device", BASE + 2 * MIB, 64, 1, 0)
    assert len(plan_spans([a_range(BASE, 2 * MIB), other_device])) == 2


def test_host_memory_is_placed_by_pages():
    assert plan_spans([a_range(BASE + 100, 5000, "host")]) == [Span(BASE, 2 * PAGE_BYTES, True)]


def test_module_variables_are_not_placed():
    assert plan_spans([a_range(BASE, 64, "global", name="table", owner=1)]) == []
    assert plan_spans([a_range(BASE, 64, "managed", name="table", owner=1)]) == []


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 6 * MIB)), min_size=1, max_size=30))
def test_every_range_lies_in_exactly_one_span(pieces):
    ranges = [a_range(BASE + 1000 * offset, size, id=i) for i, (offset, size) in enumerate(pieces)]
    spans = plan_spans(ranges)
    for before, after in zip(spans, spans[1:], strict=False):
        assert before.end <= after.address
    for range_ in ranges:
        inside = [
            s for s in spans if s.address <= range_.address and range_.address + range_.size_bytes <= s.end
        ]
        assert len(inside) == 1
    assert all(s.address % GRANULE_BYTES == 0 and s.size_bytes % GRANULE_BYTES == 0 for s in spans)


@pytest.mark.parametrize("address", [0, 100, 1 << 60])
def test_impossible_addresses_are_refused(address):
    with pytest.raises(EngineError, match="impossible address"):
        plan_spans([a_range(address, 64)])


# -- holding and placing ------------------------------------------------------------------------------------------


def mapped(address):
    """The protection of the mapping at an address; "" when nothing is mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(text, 16) for text in line.split()[0].split("-"))
        if low <= address < high:
            return line.split()[1]
    return ""


@pytest.fixture
def free_address():
    """A 16 MiB stretch that nothing uses, unmapped again afterwards."""
    libc = ctypes.CDLL(None)
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    yield BASE
    libc.munmap(BASE, 16 * MIB)


def test_held_addresses_cannot_be_had_by_others(free_address):
    span = Span(free_address, 2 * MIB, False)
    assert hold([span]) == {}
    assert mapped(free_address).startswith("---")
    assert hold([span]) == {span: TAKEN}  # the second time it is taken


def test_an_address_in_use_is_reported():
    with mmap.mmap(-1, 4 * MIB) as used:
        address = ctypes.addressof(anchor := ctypes.c_char.from_buffer(used))
        span = Span(address // PAGE_BYTES * PAGE_BYTES, PAGE_BYTES, False)
        assert hold([span]) == {span: TAKEN}
        del anchor


def test_addresses_that_no_process_here_has_are_moved_without_another_start(free_address):
    """Of a machine with a larger address space: a restart would not help."""
    span = Span(1 << 55, 2 * MIB, False)
    failed = hold([span])
    assert "no such address" in failed[span]
    driver = granting(0x7777_0000_0000)
    (placed,) = place(driver, [span], failed, device=0, relocate=False)
    assert placed.how == "relocated"
    assert "no such address" in placed.reason


def granting(address):
    return FakeDriver(cuMemAddressReserve=lambda pointer, *rest: store(pointer, address))


def test_device_memory_is_mapped_at_its_address(free_address):
    span = Span(free_address, 2 * MIB, False)
    taken = hold([span])
    driver = granting(free_address)
    (placed,) = place(driver, [span], taken, device=0, relocate=False)
    assert (placed.how, placed.live_address) == ("same_address", free_address)
    assert mapped(free_address) == ""  # released for the driver
    assert driver.last("cuMemAddressReserve")[1:] == [2 * MIB, GRANULE_BYTES, free_address, 0]
    assert driver.symbols() == [
        "cuMemAddressReserve",
        "cuMemCreate",
        "cuMemMap",
        "cuMemRelease",
        "cuMemSetAccess",
    ]
    assert driver.last("cuMemMap")[:3] == [free_address, 2 * MIB, 0]


def test_addresses_that_the_driver_keeps_to_itself_are_neither_held_nor_unmapped():
    """NVIDIA's driver reserves the lowest gigabytes when it starts, and pools and mapped memory are in them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    span = Span(0x9_0200_0000, 2 * MIB, False)
    assert hold([span]) == {}
    assert mapped(span.address) == ""
    assert (
        libc.mmap(span.address, span.size_bytes, 0, 0x100022, -1, 0) == span.address
    )  # what the driver does
    (placed,) = place(granting(span.address), [span], {}, device=0, relocate=False)
    assert placed.how == "same_address"
    assert mapped(span.address).startswith("---")
    libc.munmap(ctypes.c_void_p(span.address), ctypes.c_size_t(span.size_bytes))


def test_all_spans_are_tried_at_their_address_before_any_goes_elsewhere(free_address):
    """What goes elsewhere may be given the address of another one."""
    spans = [Span(0x9_0200_0000 + n * 4 * MIB, 2 * MIB, False) for n in range(2)]
    asked = []

    def reserve(pointer, size, alignment, address, flags):
        asked.append(address)
        return store(pointer, spans[1].address + 64 * MIB if len(asked) in (1, 3) else address)

    placed = place(FakeDriver(cuMemAddressReserve=reserve), spans, {}, device=0, relocate=True)
    assert asked == [spans[0].address, spans[1].address, 0]
    assert [item.how for item in placed] == ["relocated", "same_address"]


def test_another_address_than_asked_for_is_given_back(free_address):
    span = Span(free_address, 2 * MIB, False)
    driver = granting(0x7777_0000_0000)
    with pytest.raises(AddressTaken, match="reserved 0x777700000000 instead") as caught:
        place(driver, [span], hold([span]), device=0, relocate=False)
    assert caught.value.by_driver
    assert driver.last("cuMemAddressFree") == [0x7777_0000_0000, 2 * MIB]


def test_relocation_says_why(free_address):
    span = Span(free_address, 2 * MIB, False)
    driver = granting(0x7777_0000_0000)
    (placed,) = place(driver, [span], hold([span]), device=0, relocate=True)
    assert (placed.how, placed.live_address) == ("relocated", 0x7777_0000_0000)
    assert "instead" in placed.reason


def test_a_driver_that_reserves_nothing_anywhere_is_an_error_of_its_own(free_address):
    span = Span(free_address, 2 * MIB, False)
    driver = FakeDriver(cuMemAddressReserve=2)
    with pytest.raises(
        EngineError, match=r"2097152 bytes of device addresses.*anywhere else \(ERROR_2\).*--device"
    ):
        place(driver, [span], hold([span]), device=0, relocate=True)


def test_a_moved_span_is_at_its_target_and_its_captured_address_stays_held(free_address):
    span, target = Span(free_address, 2 * MIB, False), free_address + 8 * MIB
    taken = hold([span])
    assert hold([Span(target, 2 * MIB, False)]) == {}
    (placed,) = place(granting(target), [span], taken, device=0, relocate=False, targets={span: target})
    assert (placed.how, placed.live_address) == ("shifted", target)
    assert mapped(free_address).startswith("---")


def test_a_span_whose_target_the_driver_refuses_is_moved_to_where_it_likes(free_address):
    span, target = Span(free_address, 2 * MIB, False), free_address + 8 * MIB
    taken = hold([span])
    driver = granting(0x7777_0000_0000)
    (placed,) = place(driver, [span], taken, device=0, relocate=False, targets={span: target})
    assert (placed.how, placed.live_address) == ("shifted", 0x7777_0000_0000)


def test_host_memory_is_usable_at_its_address_and_registered(free_address):
    span = Span(free_address, 2 * PAGE_BYTES, True)
    driver = FakeDriver()
    (placed,) = place(driver, [span], hold([span]), device=0, relocate=False)
    assert placed.how == "same_address"
    ctypes.c_uint64.from_address(free_address).value = 7
    assert driver.last("cuMemHostRegister_v2")[:2] == [free_address, 2 * PAGE_BYTES]


def test_too_little_device_memory_is_an_error_with_the_amount(free_address):
    span = Span(free_address, 2 * MIB, False)
    driver = granting(free_address)
    driver.answers["cuMemCreate"] = 2
    with pytest.raises(EngineError, match=r"2097152 bytes of device memory.*ERROR_2"):
        place(driver, [span], hold([span]), device=0, relocate=False)


# -- addresses ----------------------------------------------------------------------------------------------------


def test_addresses_follow_their_span_and_globals_go_first():
    span = Span(BASE, 2 * MIB, False)
    addresses = AddressMap([Placed(span, BASE + 64 * MIB, "relocated")])
    addresses.bind(BASE + 4096, 64, 0x5000)
    assert addresses.find(BASE + 8) == BASE + 64 * MIB + 8
    assert addresses.find(BASE + 4096 + 8) == 0x5008
    assert addresses.find(BASE + 4096 + 64) == BASE + 64 * MIB + 4096 + 64
    assert addresses.find(BASE - 1) is None
    addresses.bind(0x9000, 64, 0x7000)
    assert addresses.find(0x9040) == 0x7040  # its end
    assert addresses.find(0x9041) is None
    assert addresses.find(0) == 0
    with pytest.raises(EngineError, match="belongs to no captured memory"):
        addresses.live(0x1234)


def test_patching_replaces_only_words_that_still_hold_the_address():
    addresses = AddressMap([Placed(Span(BASE, 2 * MIB, False), BASE + 64 * MIB, "relocated")])
    data = bytearray(BASE.to_bytes(8, "little") + (BASE + 16).to_bytes(8, "little") + bytes(8))
    words = [Word(100, BASE), Word(108, BASE + 8), Word(116, BASE), Word(96, BASE), Word(120, BASE)]
    patch_words(data, 100, words, addresses)
    assert int.from_bytes(data[:8], "little") == BASE + 64 * MIB
    assert int.from_bytes(data[8:16], "little") == BASE + 16  # changed since, or never a pointer
    assert data[16:] == bytes(8)


def test_words_that_look_like_moved_pointers_follow_in_data_without_a_census():
    moved = Placed(Span(BASE, 2 * MIB, False), BASE - 64 * MIB, "relocated")
    unmoved = Placed(Span(BASE + 8 * MIB, 2 * MIB, False), BASE + 8 * MIB, "same_address")
    addresses = AddressMap([moved, unmoved])
    values = [BASE + 8, 5, BASE + 8 * MIB, BASE + 2 * MIB]  # the last is past the end
    data = b"".join(value.to_bytes(8, "little") for value in values) + b"tail"
    patched, count = patch_lookalikes(data, addresses)
    assert count == 1
    assert patched == (BASE - 64 * MIB + 8).to_bytes(8, "little") + data[8:]
    assert patch_lookalikes(data, AddressMap([unmoved])) == (data, 0)


# -- what is restored ---------------------------------------------------------------------------------------------


def contents(*chunks, size=None):
    digests = b"".join(bytes([chunk]) * 16 for chunk in chunks)
    return Contents(size or len(chunks) * CHUNK_BYTES, digests)


def test_only_changed_chunks_are_restored_and_neighbours_joined():
    before, after = contents(1, 2, 3, 4, 5), contents(1, 9, 9, 4, 9)
    range_ = a_range(BASE, 5 * CHUNK_BYTES, before=before, after=after)
    assert written_stretches(range_) == [(CHUNK_BYTES, 2 * CHUNK_BYTES), (4 * CHUNK_BYTES, CHUNK_BYTES)]


def test_last_chunk_is_restored_to_its_own_length():
    size = CHUNK_BYTES + 10
    range_ = a_range(BASE, size, before=contents(1, 2, size=size), after=contents(1, 3, size=size))
    assert written_stretches(range_) == [(CHUNK_BYTES, 10)]


def test_everything_is_restored_when_the_end_is_unknown():
    assert written_stretches(a_range(BASE, 2 * CHUNK_BYTES, before=contents(1, 2))) == [(0, 2 * CHUNK_BYTES)]
    assert written_stretches(a_range(BASE, 2 * CHUNK_BYTES, after=contents(1, 2))) == []


def test_zeros_are_joined_up_to_a_bound_and_nothing_else_is():
    held = contents(0, 0, 0, 1, 1, 0, size=6 * CHUNK_BYTES - 5)

    def found(*options):
        return [(at / CHUNK_BYTES, digest == ZERO_DIGEST, size) for at, digest, size in loads(held, *options)]

    last = (5.0, True, CHUNK_BYTES - 5)
    ones = [(3.0, False, CHUNK_BYTES), (4.0, False, CHUNK_BYTES)]
    assert found(0, 100 * CHUNK_BYTES) == [(0.0, True, 3 * CHUNK_BYTES), *ones, last]
    assert found(0, 2 * CHUNK_BYTES) == [(0.0, True, 2 * CHUNK_BYTES), (2.0, True, CHUNK_BYTES), *ones, last]
    assert found(2 * CHUNK_BYTES, 100 * CHUNK_BYTES) == [(2.0, True, CHUNK_BYTES), *ones, last]
    assert len(found(0, 0)) == 6


def test_an_address_belongs_to_the_same_memory_however_often_it_is_asked_for():
    """Memory in no span, some inside other such memory or none at all: first by looking at each, then by an index."""
    rng = random.Random(4)
    addresses = AddressMap([Placed(Span(BASE, 2 * MIB, False), BASE + 64 * MIB, "relocated")])
    for number in range(200):
        start, size = BASE - 4096 + rng.randrange(9000), rng.choice((0, 8, 16, 400))
        addresses.bind(start, size, (1 << 40) * (number + 1))
        if number % 50 == 7:
            addresses.expect(start + 3, 64)
    asked = [BASE - 4100 + rng.randrange(9500) for _ in range(3000)]
    state, first = addresses.state(), []
    for captured in asked:
        addresses.return_to(state)  # a change: the next search is the first one again
        first.append(addresses.find(captured))
    again = [addresses.find(captured) for captured in asked]
    assert again == first
    assert len({address and address >> 40 for address in first}) > 50
    addresses.forget(BASE - 4096, 9400)
    assert {addresses.find(captured) for captured in asked if captured < BASE} == {None}
