"""Occupancy, worked out by hand from the limits of the devices."""

from __future__ import annotations

import pytest

from replay.inspection.occupancy import occupancy


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "warps", "limit"),
    [
        ("9.0", 256, 32, 0, 64, "warps"),
        (
            "9.0",
            256,
            33,
            0,
            48,
            "registers",
        ),  # 40 a thread are given: 51 warps, in fours 48, which are 6 blocks
        ("8.0", 1024, 65, 0, 0, ""),  # 72 a thread: 28 warps, and a block has 32
        (
            "8.0",
            128,
            32,
            40 * 1024,
            16,
            "shared memory",
        ),  # 41 KiB a block with the KiB of the system: 4 in 164
        ("9.0", 32, 16, 0, 32, "blocks"),
        ("8.6", 1024, None, 0, 32, "warps"),
    ],
)
def test_what_there_is_too_little_of_decides(capability, threads, registers, shared, warps, limit):
    found = occupancy(capability, threads, registers, shared)
    if not warps:
        assert found is None
    else:
        assert (found.warps, found.limit, found.exact) == (warps, limit, registers is not None)


def test_an_unknown_device_has_none():
    assert occupancy("5.2", 256, 32, 0) is None
    assert occupancy("9.0", 0, 32, 0) is None
    assert occupancy("9.0", 256, 32, 300 << 10) is None
