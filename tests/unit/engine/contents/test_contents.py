"""Contents between the snapshot and live memory: pointers follow what they point to, wherever they are."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace

import pytest

from replay.engine.census import Site, Word
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.memory import Placed, Span
from replay.errors import EngineError
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES

from ...helpers.fake_driver import FakeDriver
from ...helpers.snapshot_factory import SnapshotFactory
from ..wiring import Engine

HELD, POINTED = 0x7300_0000_0000, 0x7400_0000_0000  # captured
OFFSETS = {
    "in no order": [2 * CHUNK_BYTES + 8, 16, CHUNK_BYTES, 8, 3 * CHUNK_BYTES - 8, CHUNK_BYTES - 8],
    "across borders of chunks": [CHUNK_BYTES - 4, 2 * CHUNK_BYTES - 1],
}


@pytest.fixture
def opened(tmp_path):
    """A function that makes a store over a range of host memory of three chunks with pointers at the given offsets;
    its memory, the range, and what the memory should hold when loaded."""

    def open_(offsets, halves=()):
        data = bytearray(random.Random(5).randbytes(3 * CHUNK_BYTES))
        expected = bytearray(data)
        target, here = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(len(data))
        words = [Word(offset, POINTED + 8 * number) for number, offset in enumerate(offsets)]
        words += [Word(low, POINTED + 64, high) for low, high in halves]
        live = ctypes.addressof(target)
        for word in words:
            for into, value in ((data, word.target), (expected, live + word.target - POINTED)):
                encoded = value.to_bytes(8, "little")
                high = word.offset + 4 if word.high_offset is None else word.high_offset
                into[word.offset : word.offset + 4], into[high : high + 4] = encoded[:4], encoded[4:]
        factory = SnapshotFactory()
        item = factory.range(HELD, bytes(data), bytes(data), kind="host")
        span = Span(HELD, len(data), True)
        addresses = AddressMap([Placed(span, ctypes.addressof(here), "relocated")])
        addresses.bind(POINTED, 4096, live)
        readers.append(SnapshotReader(factory.write(tmp_path / "x.rsnap")))
        engine = Engine(FakeDriver(), addresses, reader=readers[-1], ranges={item.id: item})
        engine.census.ranges[item.id] = Site(words=words)
        return engine.contents(), (target, here), item, bytes(expected)

    readers: list[SnapshotReader] = []
    yield open_
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("where", OFFSETS)
def test_every_pointer_of_a_range_is_loaded_as_the_live_one(opened, where):
    (store, _), (_, here), item, expected = opened(OFFSETS[where])
    store.load(item)
    assert here.raw[: len(expected)] == expected


def test_pointers_in_halves_are_loaded_as_the_live_ones(opened):
    (store, _), (_, here), item, expected = opened([], [(CHUNK_BYTES + 400, CHUNK_BYTES + 96), (32, 4096)])
    store.load(item)
    assert here.raw[: len(expected)] == expected


def test_outputs_are_compared_with_pointers_to_where_things_are(opened):
    (store, comparing), (_, here), item, _ = opened(OFFSETS["in no order"])
    store.load(item)
    assert comparing.compare(item, {}).equal
    here[2 * CHUNK_BYTES + 8] = bytes([here.raw[2 * CHUNK_BYTES + 8] ^ 1])
    result = comparing.compare(item, {})
    assert not result.equal
    assert (result.differing_bytes, result.mismatches[0].offset) == (1, 2 * CHUNK_BYTES + 8)


def test_memory_that_has_no_place_is_named(opened):
    (store, _), _, item, _ = opened([])
    with pytest.raises(EngineError, match="is not loaded"):
        store.load(replace(item, address=HELD + (1 << 30)))
