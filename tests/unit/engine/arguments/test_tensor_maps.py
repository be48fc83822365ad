"""Tensor maps in parameters and memory: found by their bytes when packed, encoded anew when replayed."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import pytest

from replay.api.vocabulary import Moment
from replay.engine.attachments import Attachments
from replay.engine.census import Census, MapPlace, Site
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.pieces import Placed
from replay.engine.translation.tensor_maps import MAXIMUM_RANK, LiveMaps
from replay.errors import EngineError, FormatError
from replay.pack import pack
from replay.planning.spans import Span
from replay.snapshot import schema
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Call, TensorMap, from_wire

from ...helpers.fake_driver import FakeDriver
from ...helpers.raw_writer import RawWriter, word

MEMORY, TABLE, MOVED = 0x7F00_0000_0000, 0x7F00_1000_0000, 0x7E00_0000_0000
INPUTS = {
    "globalDim": struct.pack("<2Q", 64, 32),
    "globalStrides.0": struct.pack("<Q", 256),
    "boxDim": struct.pack("<2I", 16, 8),
    "elementStrides": struct.pack("<2I", 1, 1),
}
ARGUMENTS = [0x1000, 7, 2, MEMORY + 512, 0x2000, 0x3000, 0x4000, 0x5000, 0, 0, 0, 0]


def encoded(address: int, salt: int = 9) -> bytes:
    """What a made-up driver encodes: nothing of it is an address."""
    return bytes((address >> 8 * (n % 8) & 0xFF) ^ (n * salt & 0xFF) ^ 0x5A for n in range(128))


def map_of(**fields: object) -> TensorMap:
    call = Call(5, "cuTensorMapEncodeTiled", "setup", 1, list(ARGUMENTS), 0, inputs=dict(INPUTS))
    given: dict[str, object] = {
        "id": 1,
        "encoded": encoded(MEMORY + 512),
        "address": MEMORY + 512,
        "call": call,
    }
    return TensorMap(**{**given, **fields})  # type: ignore[arg-type]


@pytest.fixture
def driver() -> FakeDriver:
    fake = FakeDriver()

    def encode(place: int, kind: int, rank: int, address: int, *rest: int) -> int:
        assert place % 64 == 0
        ctypes.memmove(place, encoded(address), 128)
        return 0

    fake.answers["cuTensorMapEncodeTiled"] = encode
    return fake


def maps_for(driver: FakeDriver, live: int, one: TensorMap) -> tuple[LiveMaps, list[str]]:
    placed = Placed(Span(MEMORY, 1 << 21, False), live, "same_address" if live == MEMORY else "relocated")
    notes: list[str] = []
    attachments = Attachments(None, {}, {})  # type: ignore[arg-type]
    return LiveMaps(driver, attachments, AddressMap([placed]), {one.id: one}, notes.append), notes


def test_a_map_follows_memory_that_has_moved(driver: FakeDriver) -> None:
    maps, notes = maps_for(driver, MOVED, map_of())
    data = bytearray(bytes(64) + encoded(MEMORY + 512) + bytes(64))
    maps.patch(data, 0, [MapPlace(64, 1)])
    assert data == bytes(64) + encoded(MOVED + 512) + bytes(64)
    assert driver.last("cuTensorMapEncodeTiled")[1:4] == [7, 2, MOVED + 512]
    again = bytearray(encoded(MEMORY + 512))
    maps.patch(again, 1 << 20, [MapPlace(1 << 20, 1)])  # a piece in the middle of its site
    assert again == encoded(MOVED + 512)
    assert driver.symbols().count("cuTensorMapEncodeTiled") == 1
    assert not notes


def test_the_arrays_of_an_encoder_are_handed_over_as_captured(driver: FakeDriver) -> None:
    seen = []
    driver.answers["cuTensorMapEncodeTiled"] = lambda *words: seen.append(
        [ctypes.string_at(words[4], 16), ctypes.string_at(words[5], 8), ctypes.string_at(words[6], 8)]
    )
    maps, _ = maps_for(driver, MEMORY, map_of())
    maps.live(1)
    assert seen == [[INPUTS["globalDim"], INPUTS["globalStrides.0"], INPUTS["boxDim"]]]


def test_what_is_not_the_captured_map_any_more_is_left_alone(driver: FakeDriver) -> None:
    maps, _ = maps_for(driver, MOVED, map_of())
    data = bytearray(encoded(MEMORY))
    maps.patch(data, 0, [MapPlace(0, 1), MapPlace(64, 1), MapPlace(1 << 60, 1)])
    assert data == encoded(MEMORY)


def test_a_map_that_cannot_be_encoded_stays_and_is_noted(driver: FakeDriver) -> None:
    driver.answers["cuTensorMapEncodeTiled"] = 801
    maps, notes = maps_for(driver, MOVED, map_of())
    assert maps.live(1) == encoded(MEMORY + 512)
    assert "ERROR_801" in notes[0]
    maps, notes = maps_for(driver, MOVED, map_of(address=0x1234))
    assert maps.live(1) == encoded(MEMORY + 512)
    assert "0x1234" in notes[0]


@pytest.mark.parametrize("rank", [0, MAXIMUM_RANK + 1, 1 << 31, 3])
def test_a_hostile_rank_reads_nothing_past_the_captured_arrays(driver: FakeDriver, rank: int) -> None:
    arguments = [*ARGUMENTS[:2], rank, *ARGUMENTS[3:]]
    call = Call(5, "cuTensorMapEncodeTiled", "setup", 1, arguments, 0, inputs=dict(INPUTS))
    maps, notes = maps_for(driver, MEMORY, map_of(call=call))
    assert maps.live(1) == encoded(MEMORY + 512)
    assert notes
    assert "cuTensorMapEncodeTiled" not in driver.symbols()


def test_hostile_maps_and_places_are_refused() -> None:
    with pytest.raises(FormatError):
        map_of(encoded=bytes(127))
    one = map_of()
    census = Census()
    census.add(schema.Census("call_maps", 7, struct.pack("<QQII", 64, 0, 1, 0)), {}, {1: one})
    assert census.calls == {7: Site(maps=[MapPlace(64, 1)])}
    for bad in (bytes(23), struct.pack("<QQII", 64, 0, 2, 0)):
        with pytest.raises(EngineError):
            census.add(schema.Census("call_maps", 7, bad), {}, {1: one})
    call = Call(5, "cuMemFree_v2", "setup", 1, [0], 0)
    maps, _ = maps_for(FakeDriver(), MEMORY, map_of(call=call))
    with pytest.raises(EngineError, match="encodes none"):
        maps.live(1)


def test_maps_in_parameters_and_in_memory_are_found_with_what_they_reach(tmp_path: Path) -> None:
    folder = tmp_path / "x.rcap"
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(MEMORY, 4096)
    writer.allocate(TABLE, 4096)
    first, replaced = encoded(MEMORY + 512), encoded(MEMORY + 1024)
    made = writer.call("cuTensorMapEncodeTiled", ARGUMENTS, dict(INPUTS), {"tensorMap": first})
    writer.call(
        "cuTensorMapReplaceAddress", [0x1000, MEMORY + 1024], {"tensorMap": first}, {"tensorMap": replaced}
    )
    number = writer.open_window()
    table = bytes(1024) + replaced + bytes(4096 - 1024 - 128)
    writer.contents(TABLE, table, Moment.BEFORE, number)
    parameters = word(TABLE) + bytes(56) + first
    assert writer.launch(parameters, [(0, 8), (64, 128)]) == number
    writer.contents(TABLE, table, Moment.AFTER, number)
    writer.close_window()
    writer.close()
    output = tmp_path / "x.rsnap"
    pack(folder, output)
    with Snapshot(output) as opened:
        maps = [from_wire(TensorMap, item) for item in opened.reader.objects("tensor_map")]
        census = [from_wire(schema.Census, item) for item in opened.reader.objects("census")]
        ranges = {item.address: item for item in opened.ranges()}
        setup = [call.function for call in opened.calls() if call.section == "setup"]
    assert {(one.encoded, one.address, one.call.number) for one in maps} == {
        (first, MEMORY + 512, made),
        (replaced, MEMORY + 1024, made),
    }
    ids = {one.encoded: one.id for one in maps}
    assert MEMORY in ranges  # named by a parameter map alone
    found = {
        (item.kind, item.site): struct.unpack("<QQII", item.words) for item in census if "maps" in item.kind
    }
    assert found == {
        ("call_maps", number): (64, 0, ids[first], 0),
        ("range_maps", ranges[TABLE].id): (1024, 0, ids[replaced], 0),
    }
    assert not any("TensorMap" in function for function in setup)
