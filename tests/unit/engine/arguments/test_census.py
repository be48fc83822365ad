"""Words of calls that are columns: with and without numpy they are the same."""

from __future__ import annotations

import struct

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
