"""The reader of launches.<pid>.bin, on files that no interposer would write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.capture.launches import FILE_BYTES, HEADER, ROW, read_launches
from replay.errors import FormatError
from replay.pack.origins import KeptOrigins
from replay.pack.survey.stacks import Stacks
from replay.pack.texts import Texts
from replay.snapshot.schema import Frame

NAMES_OFFSET = 64 + 4 * 128


def list_bytes(rows, names=b"first\0second\0", capacity=4, names_offset=NAMES_OFFSET, version=1):
    header = HEADER.pack(b"RCAPLIST", version, 77, 128, capacity, names_offset, 10, 0, 0)
    body = b"".join(ROW.pack(*row) for row in rows).ljust(capacity * 128, b"\0")
    return (header + body + names).ljust(4096, b"\0")


def row(launches=3, timed=2, total=20, shortest=9, longest=11, first=1, name=0, block=32, stack=0, whole=1):
    return (launches, timed, total, shortest, longest, first, 1, 1, 1, block, 1, 1, 0, name, 1, stack, whole)


def test_layout_is_the_interposers():
    assert (HEADER.size, ROW.size, FILE_BYTES) == (64, 128, 2 << 20)


def test_rows_are_sorted_by_total_time():
    found = read_launches(list_bytes([row(name=0), row(launches=5, name=6)]))
    assert [(item.name, item.launches, item.mean_ns) for item in found.rows] == [
        ("second", 5, 10.0),
        ("first", 3, 10.0),
    ]


def test_equal_names_of_two_modules_are_one_row():
    found = read_launches(list_bytes([row(first=4), row(launches=1, timed=1, total=40, longest=40)]))
    (item,) = found.rows
    assert (item.launches, item.timed, item.mean_ns, item.first, item.longest_ns) == (4, 3, 20.0, 1, 40)


def test_rows_of_different_places_stay_apart_and_those_of_one_are_one_row():
    here, there = Frame("a.py", 1, "f"), Frame("b.py", 2, "g")
    known = Stacks({1: here, 2: there}, {1: (1,), 2: (2,), 3: (1,)})  # the first place in two stacks
    rows = [row(stack=1), row(stack=2, total=90), row(stack=3), row(stack=9)]
    found = read_launches(list_bytes(rows), KeptOrigins(known, Texts(keep=True)))
    assert [(item.origin, item.launches) for item in found.rows] == [((there,), 3), ((here,), 6), ((), 3)]
    assert [(item.origin, item.launches, item.total_ns) for item in found.places] == [
        ((there,), 3, 135.0),
        ((here,), 6, 60.0),
        ((), 3, 30.0),
    ]
    assert len(read_launches(list_bytes(rows)).rows) == 1


def test_row_that_was_being_written_is_not_read():
    assert read_launches(list_bytes([row(), row(whole=0, block=64)])).rows[1:] == []


def test_launches_that_were_not_timed_have_no_time():
    (item,) = read_launches(list_bytes([row(timed=0, shortest=(1 << 64) - 1)])).rows
    assert (item.mean_ns, item.total_ns, item.shortest_ns) == (None, None, None)


def test_empty_file_is_an_empty_list():
    assert read_launches(bytes(FILE_BYTES)).rows == []
    assert read_launches(b"").rows == []


@pytest.mark.parametrize(
    "data",
    [
        b"RCAPCALL" + bytes(200),
        list_bytes([], version=2),
        list_bytes([row(name=1 << 20)]),
        list_bytes([], names_offset=80),
        list_bytes([], capacity=1 << 20, names_offset=NAMES_OFFSET)[:4096],
        list_bytes([])[:40],
    ],
)
def test_damaged_list_is_refused(data):
    with pytest.raises(FormatError):
        read_launches(data)


@given(st.binary(max_size=600), st.integers(0, 4095))
def test_random_damage_gives_a_list_or_an_error(noise, place):
    data = bytearray(list_bytes([row(), row(name=6)]))
    data[place : place + len(noise)] = noise
    try:
        found = read_launches(bytes(data))
    except FormatError:
        return
    assert len(found.rows) <= 4
