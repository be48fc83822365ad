"""Words of calls that are columns: with and without numpy they are the same."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from replay.engine import census
from replay.engine.census import CallSites, Word
from replay.errors import EngineError
from replay.snapshot.schema import Range

RANGES = {
    number: Range(number, "device", address, size, device=0, context=0)
    for number, address, size in ((3, 0x7000, 0x100), (1, 0x9000, 0x40))
}


def word(offset: int, inner: int, range_id: int) -> bytes:
    return struct.pack("<QQII", offset, inner, range_id, 0)


@pytest.fixture(params=[0, 2000])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(census, "_FEW", request.param)
    return int(request.param)


def test_words_are_found_by_their_call_in_the_order_of_the_snapshot(few: int) -> None:
    sites = CallSites()
    sites.add(9, word(8, 0x40, 1) + word(0, 0x10, 3))
    sites.add(5, b"")
    sites.add(2, word(16, 0x100, 3))
    sites.settle(RANGES)
    assert sites[9].words == [Word(8, 0x9040), Word(0, 0x7010)]
    assert sites[2].words == [Word(16, 0x7100)]
    assert list(sites) == [2, 9]
    with pytest.raises(KeyError):
        sites[5]
    assert [list(column) for column in sites.between(3, 9)] == [[9, 9], [8, 0], [0x9040, 0x7010]]


def columns(*found: tuple[int, bytes]) -> list[tuple[Any, Any]]:
    """Numbers of calls, and a word of each, as a block gives them."""
    kind = np.dtype([("offset", "<u8"), ("inside", "<u8"), ("range", "<u4"), ("zero", "<u4")])
    return [(np.array([number], "<u8"), np.frombuffer(data, kind)) for number, data in found]


@pytest.mark.parametrize("blocks", [[[4, 6], [8, 12]], [[8, 12], [4, 6]], [[6, 12], [8, 4]]])
def test_words_of_blocks_are_found_with_those_of_single_calls(blocks: list[list[int]]) -> None:
    sites = CallSites()
    sites.add(9, word(8, 0, 1))
    sites.add(7, word(0, 1, 3))
    for numbers in blocks:
        sites.take(columns(*((number, word(0, number, 3)) for number in numbers)), RANGES)
    sites.settle(RANGES)
    expected = {number: 0x7000 + number for number in (4, 6, 8, 12)} | {9: 0x9000, 7: 0x7001}
    assert {number: site.words[0].target for number, site in sites.items()} == expected
    for first, last in ((0, 99), (5, 9), (9, 9), (10, 11), (12, 13)):
        numbers, offsets, targets = sites.between(first, last)
        inside = sorted(number for number in expected if first <= number <= last)
        assert list(numbers) == inside
        assert [(int(at), int(to)) for at, to in zip(offsets, targets, strict=True)] == [
            (8 if number == 9 else 0, expected[number]) for number in inside
        ]
    with pytest.raises(EngineError, match="census of call 14 "):
        sites.take(columns((14, word(0, 0, 2))), RANGES)


@pytest.mark.parametrize(
    "wrong", [word(0, 0x101, 3), word(0, 0, 2), word(0, 0, 0xFFFFFFFF), word(0, (1 << 64) - 1, 1)]
)
def test_a_word_that_points_to_no_range_is_refused(few: int, wrong: bytes) -> None:
    sites = CallSites()
    sites.add(4, word(0, 0, 1))
    sites.add(7, word(8, 0, 1) + wrong)
    with pytest.raises(EngineError, match="census of call 7 "):
        sites.settle(RANGES)


def test_no_words_need_no_ranges(few: int) -> None:
    sites = CallSites()
    sites.settle({})
    assert len(sites) == 0
    assert [len(column) for column in sites.between(0, 9)] == [0, 0, 0]
