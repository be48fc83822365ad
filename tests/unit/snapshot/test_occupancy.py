"""Occupancy, worked out by hand from the limits of the devices."""

from __future__ import annotations

import pytest

from replay.inspection.occupancy import less_than_a_wave, occupancy
from replay.snapshot.schema import Kernel


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


@pytest.mark.parametrize(
    ("capability", "blocks", "registers", "room"),
    [
        ("9.0", 132 * 8 - 1, 32, 1056),  # 8 blocks of 256 threads on each of 132
        ("9.0", 132 * 8, 32, None),
        ("9.0", 131, None, 132),  # of a kernel whose registers are not known: one on each at least
        ("9.0", 132, None, None),
        ("7.0", 131, 32, 132),
    ],
)
def test_what_leaves_a_part_of_the_device_idle_is_less_than_a_wave(capability, blocks, registers, room):
    known = {} if registers is None else {"registers": registers}
    kernel = Kernel("k", "k()", "", [], 1, [blocks, 1, 1], [256, 1, 1], 0, known)
    found = less_than_a_wave([kernel], capability, 132)
    expected = (
        f"less than one wave: {blocks:,} blocks, and the device holds {room:,} at once" if room else None
    )
    assert found.get("k") == expected
