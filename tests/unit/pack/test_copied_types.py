"""Element types follow copies."""

from __future__ import annotations

from replay.engine.checking.copied_types import part, spread
from replay.outputs.elements import TYPES, Region
from replay.snapshot.schema import Call, Range

F32, F64 = TYPES["f32"], TYPES["f64"]


def region(start, end, type_=F32):
    return Region(start, end, type_, "inferred from PTX", "scale, parameter at byte 0")


def range_(number, address, size_bytes, kind="device", **words):
    return Range(number, kind, address, size_bytes, 0, 0, **words)


def copy(function, target, source, size_bytes):
    return Call(9, function, "window", 1, [target, source, size_bytes, 0], 0)


def test_part_keeps_whole_elements():
    assert [(item.start, item.end) for item in part([region(0, 64)], 6, 20, 0)] == []  # would be unaligned
    assert [(item.start, item.end) for item in part([region(0, 64)], 8, 21, 0)] == [(0, 20)]
    assert [(item.start, item.end) for item in part([region(16, 64, F64)], 0, 40, 128)] == [(144, 168)]


def test_copies_bring_types_to_host_and_device_and_on_from_there():
    ranges = [
        range_(1, 0x1000, 256), range_(2, 0x2000, 256),
        range_(3, 0x9000, 256, "host", host_address=0x7000), range_(4, 0x3000, 64),
    ]  # fmt: skip
    calls = [
        copy("cuMemcpyDtoD_v2", 0x2000 + 64, 0x1000, 128),
        copy("cuMemcpyDtoHAsync_v2", 0x7000, 0x2000 + 64, 64),
        copy("cuMemcpyDtoH_v2", 0xDEAD0000, 0x2000, 64),  # to memory that is in no range
    ]
    found = spread({1: [region(0, 256)]}, ranges, calls)
    assert [(item.start, item.end) for item in found[2]] == [(64, 192)]
    assert [(item.start, item.end) for item in found[3]] == [(0, 64)]
    assert found[3][0].origin.endswith("copied")
    assert 4 not in found


def test_what_kernels_say_is_kept_and_the_last_copy_counts():
    ranges = [range_(1, 0x1000, 64), range_(2, 0x2000, 64), range_(3, 0x3000, 64)]
    known = {1: [region(0, 64)], 2: [region(0, 64, F64)]}
    calls = [copy("cuMemcpyDtoD_v2", 0x2000, 0x1000, 64)]
    assert spread(known, ranges, calls) == known
    calls = [copy("cuMemcpyDtoD_v2", 0x3000, source, 64) for source in (0x1000, 0x2000)]
    assert [item.type for item in spread(known, ranges, calls)[3]] == [F64]
