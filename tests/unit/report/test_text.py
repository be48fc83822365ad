"""Numbers, tables and sentences as every command prints them."""

from __future__ import annotations

import pytest

from replay.text import Column, Screen, fields, flow, size, table

NARROW = Screen(40, False)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1025, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (3 << 20, "3 MiB"),
        ((3 << 20) + 12, "3.0 MiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_a_size_without_a_decimal_is_exact(count, text):
    assert size(count) == text


def test_a_number_and_its_unit_stay_in_one_line():
    sentence = "  it copied a great deal of memory (23.4 KiB) in 1,180.7 us, and 25.0 % of it twice"
    for text in (flow(sentence, NARROW), fields([("perturbation", sentence)], NARROW)):
        lines = text.splitlines()
        assert len(lines) > 1
        assert "\xa0" not in text
        for unit in ("23.4 KiB", "1,180.7 us", "25.0 %"):
            assert sum(unit in line for line in lines) == 1


def test_a_column_that_is_empty_is_left_out_where_it_may_be():
    columns = [Column("a"), Column("b", if_filled=True), Column("c")]
    assert table(columns, [("1", "", "")], NARROW).split() == ["a", "c", "1"]
    assert table(columns, [("1", "", ""), ("2", "x", "")], NARROW).split() == ["a", "b", "c", "1", "2", "x"]
    assert table(columns, [], NARROW).split() == ["a", "b", "c"]


def test_the_widest_columns_give_way_first():
    columns = [
        Column("id", "right"),
        Column("item", cut=True),
        Column("needed", cut=True),
        Column("short", cut=True),
    ]
    screen = Screen(60, False)
    lines = table(columns, [("1", "i" * 40, "n" * 50, "s" * 14)], screen).splitlines()
    assert max(map(len, lines)) == 60
    item, needed, short = lines[1].split()[1:]
    assert abs(len(item) - len(needed)) <= 1
    assert short == "s" * 14
    assert (
        len(table(columns, [("1", "i" * 40, "n" * 50, "s" * 14)], Screen(20, False)).splitlines()[1])
        == 3 * 12 + 8
    )
