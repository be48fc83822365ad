"""Contents of arrays without a driver: where a byte is, which copies move a stretch, and what hostile shapes do."""

from __future__ import annotations

import ctypes
import random
import struct

import pytest

from replay.api.structs import CUDA_MEMCPY3D
from replay.engine.census import Census
from replay.engine.contents.arrays import LiveArrays, boxes, texel_at
from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError, FormatError
from replay.pack.contents.properties import read_array
from replay.planning.spans import plan_spans
from replay.snapshot import schema
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import ArrayPart, ArrayShape, Range, from_wire, to_wire

from ...helpers.fake_driver import FakeDriver
from ...helpers.snapshot_factory import SnapshotFactory
from ..wiring import Engine

FLOAT, UINT8 = 0x20, 0x01


def shape_of(
    *parts: tuple[int, int, int, int, int], handle_type: str = "CUarray", **fields: int
) -> ArrayShape:
    described = {"width": 8, "height": 4, "depth": 0, "format": FLOAT, "channels": 2, "flags": 0, **fields}
    return ArrayShape(handle_type, parts=[ArrayPart(*part) for part in parts], **described)  # type: ignore[arg-type]


def range_of(shape: ArrayShape, **fields: object) -> Range:
    return Range(**{"id": 1, "kind": "array", "address": 0xA77A << 48, "size_bytes": shape.size_bytes, "device": 0,
                    "context": 0, "owner": 0x77, "array": shape, **fields})  # type: ignore[arg-type]  # fmt: skip


class ArrayDriver(FakeDriver):
    """Holds the parts of one array as bytes; cuMemcpy3D moves boxes of them. The handle of part n is 0x5000 + n."""

    def __init__(self, shape: ArrayShape) -> None:
        super().__init__()
        self.shape = shape
        self.parts = [bytearray(part.size_bytes) for part in shape.parts]
        self.answers["cuMemcpy3D_v2"] = self.copy
        self.answers["cuMipmappedArrayGetLevel"] = self.level

    def level(self, out: int, handle: int, level: int) -> int:
        assert handle == 0x5000
        self.next_handle = 0x5000 + level  # what is given out
        return 0

    def copy(self, address: int) -> int:
        copy = CUDA_MEMCPY3D.from_address(address)
        into = copy.dstMemoryType == 3
        side, other = ("dst", "src") if into else ("src", "dst")
        number = getattr(copy, f"{side}Array") - 0x5000
        part, data = self.shape.parts[number], self.parts[number]
        x, y, z = (getattr(copy, side + name) for name in ("XInBytes", "Y", "Z"))
        assert x + copy.WidthInBytes <= part.width_bytes
        assert y + copy.Height <= part.rows
        assert z + copy.Depth <= part.slices
        assert copy.WidthInBytes
        assert copy.Height
        assert copy.Depth
        pitch, height = getattr(copy, f"{other}Pitch"), getattr(copy, f"{other}Height")
        host = getattr(copy, f"{other}Host")
        for slice_ in range(copy.Depth):
            for row in range(copy.Height):
                at = ((z + slice_) * part.rows + y + row) * part.width_bytes + x
                place = host + (slice_ * height + row) * pitch
                if into:
                    data[at : at + copy.WidthInBytes] = ctypes.string_at(place, copy.WidthInBytes)
                else:
                    ctypes.memmove(place, bytes(data[at : at + copy.WidthInBytes]), copy.WidthInBytes)
        return 0


@pytest.mark.parametrize("seed", range(20))
def test_any_stretch_of_an_array_is_read_and_written_as_it_lies(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 5)
    parts = [(n, 0, rng.randrange(1, 40), rng.randrange(1, 9), rng.randrange(1, 6)) for n in range(count)]
    shape = shape_of(*parts, handle_type="CUmipmappedArray")
    driver, item = ArrayDriver(shape), range_of(shape)
    arrays = LiveArrays(
        driver, lambda c_type, captured: {("CUmipmappedArray", 0x77): 0x5000}.get((c_type, captured))
    )
    expected = bytearray(shape.size_bytes)
    for _ in range(12):
        offset = rng.randrange(shape.size_bytes)
        size = rng.randrange(1, shape.size_bytes - offset + 1)
        data = rng.randbytes(size)
        held = ctypes.create_string_buffer(data, size)
        arrays.write(item, offset, size, ctypes.addressof(held))
        expected[offset : offset + size] = data
        assert b"".join(map(bytes, driver.parts)) == expected
        at = rng.randrange(shape.size_bytes)
        wanted = rng.randrange(1, shape.size_bytes - at + 1)
        back = ctypes.create_string_buffer(wanted)
        arrays.read(item, at, wanted, ctypes.addressof(back))
        assert back.raw == expected[at : at + wanted]


def test_whole_slices_are_moved_by_one_copy() -> None:
    shape = shape_of((0, 0, 32, 4, 6))
    assert [(box.z, box.rows, box.slices) for box in boxes(shape, 128, 384)] == [(1, 4, 3)]
    with pytest.raises(EngineError, match="past the end"):
        list(boxes(shape, 700, 100))


def test_an_array_that_nothing_makes_is_named() -> None:
    shape = shape_of((0, 0, 32, 4, 1))
    arrays = LiveArrays(ArrayDriver(shape), lambda c_type, captured: None)
    with pytest.raises(EngineError, match="0x77"):
        arrays.read(range_of(shape), 0, 8, 0)


def test_a_mismatch_is_placed_by_its_element() -> None:
    flat = shape_of((0, 0, 64, 4, 3))
    assert texel_at(flat, 2 * 256 + 3 * 64 + 8 + 4) == "x 1, y 3, z 2, channel 1"
    levels = shape_of((0, 0, 64, 4, 1), (1, 0, 32, 2, 1), handle_type="CUmipmappedArray")
    assert texel_at(levels, 256 + 32 + 16) == "x 2, y 1, z 0, channel 0, level 1"
    planes = shape_of((0, 0, 8, 4, 1), (0, 1, 8, 2, 1), format=0xB0, channels=3)
    assert texel_at(planes, 32 + 9) == "byte 1, y 1, z 0, plane 1"
    packed = shape_of((0, 0, 32, 4, 1), format=0x50, channels=4)
    assert texel_at(packed, 32 + 9) == "x 2, y 1, z 0"


def test_arrays_take_no_addresses() -> None:
    shape = shape_of((0, 0, 32, 4, 1))
    assert plan_spans([range_of(shape)]) == []


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(0, 0, 0, 1, 1)],
        [(0, 0, -8, 1, 1)],
        [(0, 0, 1 << 60, 1, 1)],
        [(0, 0, 1 << 30, 1 << 30, 1)],
        [(99, 0, 8, 1, 1)],
        [(0, -1, 8, 1, 1)],
        [(0, 0, 8, 1, 1)] * 65,
    ],
)
def test_hostile_shapes_are_refused(parts: list[tuple[int, int, int, int, int]]) -> None:
    with pytest.raises(FormatError):
        shape_of(*parts)


@pytest.mark.parametrize(
    "change",
    [
        {"size_bytes": 127},
        {"array": None},
        {"kind": "device"},
        {"array": {"handle_type": "CUmodule"}},
        {"array": {"parts": [{"level": 0}]}},
    ],
)
def test_a_range_and_its_array_must_agree(change: dict[str, object]) -> None:
    wire = to_wire(range_of(shape_of((0, 0, 32, 4, 1))))
    assert from_wire(Range, wire).array is not None
    for name, value in change.items():
        if isinstance(value, dict):
            wire[name].update(value)
        elif value is None:
            del wire[name]
        else:
            wire[name] = value
    with pytest.raises(FormatError):
        from_wire(Range, wire)


def test_what_the_shim_attached_is_checked_against_its_own_counts() -> None:
    described = struct.pack("<QQQIII4x", 8, 4, 0, FLOAT, 2, 0)
    part = struct.pack("<IIQQQ", 0, 0, 64, 4, 1)
    base, shape = read_array("CUarray", described, struct.pack("<QQQ", 0xA77A << 48, 256, 1) + part)
    assert (base, shape.size_bytes, str(shape)) == (0xA77A << 48, 256, "2D 8 x 4, float x 2")
    for bad in (
        struct.pack("<QQQ", 0, 256, 2) + part,
        struct.pack("<QQQ", 0, 255, 1) + part,
        struct.pack("<QQQ", (1 << 64) - 8, 256, 1) + part,
        struct.pack("<QQQ", 0, 256, 1 << 60) + part,
        struct.pack("<QQ", 0, 256),
    ):
        with pytest.raises((FormatError, struct.error)):
            read_array("CUarray", described, bad)


def test_handles_of_an_unknown_sort_are_refused() -> None:
    good = struct.pack("<QQII", 8, 0x99, 0, 2)
    census = Census()
    census.add(schema.Census("call_handles", 1, good), {}, ())
    (word,) = census.calls[1].handles
    assert (word.offset, word.c_type, word.captured) == (8, "CUsurfObject", 0x99)
    for bad in (good[:-1], struct.pack("<QQII", 8, 0x99, 0, 3)):
        with pytest.raises(EngineError):
            census.add(schema.Census("call_handles", 1, bad), {}, ())


def test_a_snapshot_with_arrays_is_written_and_read(tmp_path) -> None:
    factory = SnapshotFactory()
    shape = shape_of((0, 0, 32, 4, 1))
    factory.range(0xA77A << 48, bytes(range(128)), bytes(128), kind="array", owner=0x77, array=shape)
    path = factory.write(tmp_path / "x.rsnap")
    with Snapshot(path) as opened:
        (item,) = opened.ranges()
        assert item.array == shape
        assert opened.verify().good


def test_an_array_is_filled_compared_and_its_mismatch_placed(tmp_path) -> None:
    shape = shape_of((0, 0, 64, 4, 1))
    before, after = bytes(range(256)), bytes(reversed(range(256)))
    factory = SnapshotFactory()
    factory.range(0xA77A << 48, before, after, kind="array", owner=0x77, array=shape)
    path = factory.write(tmp_path / "x.rsnap")
    driver, addresses = ArrayDriver(shape), AddressMap()
    with Snapshot(path) as opened:
        (item,) = opened.ranges()
        addresses.bind(item.address, item.size_bytes, item.address)
        engine = Engine(driver, addresses, reader=opened.reader, ranges={1: item})
        engine.handles.bind("CUarray", 0x77, 0x5000)
        store, comparing = engine.contents()
        store.load(item)
        assert driver.parts == [before]
        driver.parts[0][:] = after
        assert comparing.compare(item, {}).equal
        driver.parts[0][64 + 12] ^= 1
        result = comparing.compare(item, {})
    assert (result.differing_bytes, result.address) == (1, 0)
    assert result.label == "array 0x77 (2D 8 x 4, float x 2, 256 bytes)"
    assert [(place.offset, place.place) for place in result.mismatches] == [(76, "x 1, y 1, z 0, channel 1")]
