"""Which words of a snapshot may be why moved memory gives other outputs."""

from __future__ import annotations

import random
import struct

import pytest

from replay.engine.relocation.known import Known
from replay.engine.relocation.suspects import find_false, find_followed, find_missed, touched_address
from replay.results.run.placement import MovedWord, PlacedRange, Placement
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, Census

from ..helpers.small_snapshots import u64
from ..helpers.snapshot_factory import SnapshotFactory

TABLE, DATA, FAR = 0x7F3A_1000_0000, 0x7F3A_2000_0000, 0x7E55_4000_0000
GIB = 1 << 30


@pytest.fixture
def searched(tmp_path):
    """(known, missed words around `touched`) of a snapshot with a table of these bytes."""

    def search(table: bytes, census=(), parameters=b"", touched=0):
        factory = SnapshotFactory()
        factory.set_up(b".version 7.0", "kernel")
        first = factory.range(TABLE, table, None)
        second = factory.range(DATA, bytes(4096), None)
        factory.range(FAR, bytes(64), None)
        launch = factory.launch(parameters or u64(TABLE), [(0, 8)], 1, 1)
        words = b"".join(struct.pack("<QQII", offset, inside, second.id, 0) for offset, inside in census)
        factory.census += [Census("range", first.id, words)] if words else []
        factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, first.id, 0)))
        path = factory.write(tmp_path / "x.rsnap")
        with SnapshotReader(path) as reader:
            known = Known.of(reader)
            return known, find_missed(reader, known, touched)

    return search


def found(missed):
    return [(word.form, word.place, word.offset_bytes, word.value) for word in missed]


def test_words_of_the_census_are_not_missed_and_others_are(searched):
    _, missed = searched(u64(DATA, 5, DATA + 8, 2**63), census=[(0, 0)])
    assert found(missed) == [("word", "memory", 16, DATA + 8)]


def test_the_end_of_a_range_is_looked_for_and_what_follows_it_is_not(searched):
    _, missed = searched(u64(DATA + 4096, DATA + 4097, DATA - 1))
    assert found(missed) == [("word", "memory", 0, DATA + 4096)]


@pytest.mark.parametrize("offset", [1, 4, 6, CHUNK_BYTES - 3, CHUNK_BYTES - 4])
def test_unaligned_words_are_found_also_across_the_border_of_two_chunks(searched, offset):
    table = bytearray(b"\x11" * (CHUNK_BYTES + 64))
    table[offset : offset + 8] = u64(DATA + 12)
    _, missed = searched(bytes(table))
    assert found(missed) == [("unaligned", "memory", offset, DATA + 12)]


def test_halves_are_found_where_both_are_there(searched):
    high, low = DATA >> 32, (DATA & 0xFFFFFFFF) + 16
    _, missed = searched(struct.pack("<7I", 1, high, 2, 3, low, 4, 5))
    (word,) = missed
    assert (word.form, word.offset_bytes, word.high_offset_bytes, word.value) == ("halves", 16, 4, DATA + 16)
    assert searched(struct.pack("<7I", 1, 2, 2, 3, low, 4, 5))[1] == []


def test_halves_of_known_pointers_are_no_suspects(searched):
    _, missed = searched(u64(DATA, DATA + 8), census=[(0, 0), (8, 8)])
    assert missed == []


def test_parameters_are_searched_and_the_touched_memory_comes_first(searched):
    table = u64(FAR, DATA)
    parameters = u64(TABLE, FAR + 8)
    _, missed = searched(table, parameters=parameters)
    assert found(missed) == [
        ("word", "parameters", 8, FAR + 8),
        ("word", "memory", 0, FAR),
        ("word", "memory", 8, DATA),
    ]
    _, missed = searched(table, parameters=parameters, touched=DATA + 400)
    assert found(missed)[0] == ("word", "memory", 8, DATA)


def test_random_memory_has_no_suspects(searched):
    _, missed = searched(random.Random(7).randbytes(300_000))
    assert missed == []


def test_an_error_names_captured_addresses_only(searched):
    known, _ = searched(u64(0))
    assert touched_address(f"illegal read of 4 bytes at {DATA + 4:#x}, block 0", known) == DATA + 4
    assert (
        touched_address(f"at 0xdeadbeef00 and {DATA + 4096 + 100:#x}", known) == DATA + 4096 + 100
    )  # just past the end
    assert touched_address("CUDA_ERROR_ILLEGAL_ADDRESS at 0xdeadbeef00", known) == 0


# -- outputs that moved along -------------------------------------------------------------------------------------

MOVES = (
    {1: 3 * GIB + (2 << 20), 2: -5 * GIB - (6 << 20), 3: 0},
    {1: 9 * GIB + (8 << 20), 2: 7 * GIB - (4 << 20), 3: 0},
)


def placements():
    addresses = {1: TABLE, 2: DATA, 3: FAR}
    return [
        Placement(
            0, 0, ranges=[
                PlacedRange(number, "device", address, 64, address + moves[number], "shifted", "device")
                for number, address in addresses.items()
            ],
        )
        for moves in MOVES
    ]  # fmt: skip


def differing(captured, change):
    """The word in both replays; `change` says what became of it when its range moved so far."""
    return [[MovedWord("out", 9, 16, captured, captured, change(moves) % 2**64)] for moves in MOVES]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda moves: 7 + moves[1], (8, 16, 1, 1)),
        (lambda moves: 7 - moves[2], (8, 16, 2, -1)),
        (lambda moves: 7 + 24 * moves[2], (8, 16, 2, 24)),
        (lambda moves: (7 + moves[2]) % 2**32, (4, 16, 2, 1)),
        (lambda moves: 7 + (moves[1] % 2**32 << 32), (4, 20, 1, 1)),
        (lambda moves: 7 + moves[1] ** 2 + 13, None),
        (lambda moves: 8, None),
    ],
)
def test_what_an_output_followed_is_known_from_two_distances(change, expected):
    (first, second) = differing(7, change)
    followed = find_followed(first, second, placements())
    got = [(one.size_bytes, one.offset_bytes, one.range_id, one.factor) for one in followed]
    assert got == ([expected] if expected else [])


def test_numbers_are_ranked_by_what_the_outputs_followed(searched):
    known, _ = searched(u64(DATA + 8, DATA + 400, TABLE), census=[(0, 8), (8, 400)])
    first, second = differing(DATA + 401, lambda moves: DATA + 401 + moves[2])
    words = find_false(known, find_followed(first, second, placements()), placements()[0])
    assert [(word.place, word.offset_bytes, word.kind) for word in words] == [
        ("memory", 8, "false"), ("memory", 0, "false"), ("parameters", 0, "false"),
    ]  # fmt: skip


def test_ranges_at_the_end_of_all_addresses_break_nothing(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(b".version 7.0", "kernel")
    factory.range(2**64 - 8, bytes(64), None, kind="global", name="table", owner=1)
    factory.range(DATA, u64(DATA, 2**64 - 8), None)
    factory.launch(u64(DATA), [(0, 8)], 1, 1)
    with SnapshotReader(factory.write(tmp_path / "x.rsnap")) as reader:
        known = Known.of(reader)
        assert {word.value for word in find_missed(reader, known, 2**64 - 1)} == {DATA}
        assert known.range_at(2**64 - 1) is None
