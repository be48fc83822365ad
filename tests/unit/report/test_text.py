"""Numbers, tables and sentences as every command prints them."""

from __future__ import annotations

import pytest

from replay.errors import UsageError
from replay.harmless import visible
from replay.text import Column, Screen, fields, flow, heading, parse_size, size, table

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


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1048576", 1 << 20),
        ("500M", 500 << 20),
        ("16G", 16 << 30),
        ("16 GiB", 16 << 30),
        ("2t", 2 << 40),
        ("3kB", 3 << 10),
        ("1", 1),
        ("1k", 1024),
        ("3 mb", 3 << 20),
    ],
)
def test_sizes_as_they_are_typed(text, count):
    assert parse_size(text, "--memory-limit") == count


@pytest.mark.parametrize("text", ["", "0", "-1G", "1.5G", "G", "16X", "1e9"])
def test_what_is_no_size_is_a_usage_error(text):
    with pytest.raises(UsageError, match="--memory-limit"):
        parse_size(text, "--memory-limit")


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


TERMINAL = Screen(40, is_terminal=True)
VERDICTS = [Column("kernel"), Column("verdict", verdicts=True)]


def test_verdicts_have_colours_and_other_cells_have_none(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    rows = [("SLOWER", "FASTER"), ("[red]x[/red]", "SAME"), ("[link=x]y", "UNSURE: why"), ("match", "SLOWER")]
    assert table(VERDICTS, rows, TERMINAL).splitlines() == [
        "\x1b[1mkernel        verdict\x1b[0m",
        "SLOWER        \x1b[32mFASTER     \x1b[0m",
        "[red]x[/red]  SAME",
        "[link=x]y     \x1b[33mUNSURE: why\x1b[0m",
        "match         \x1b[31mSLOWER     \x1b[0m",
    ]
    assert heading("all of it", TERMINAL, "FASTER") == "\x1b[1;32mall of it\x1b[0m"
    for line in (*table(VERDICTS, rows, TERMINAL).splitlines(), heading("x", TERMINAL, "UNSURE")):
        assert visible(line) == line


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_style_where_none_is_wanted(monkeypatch, name, value):
    rows = [("k", "SLOWER")]
    plain = table(VERDICTS, rows, Screen(40, is_terminal=False))
    assert "\x1b" not in plain
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    assert table(VERDICTS, rows, TERMINAL) == plain
    assert heading("x", TERMINAL, "SLOWER") == "x"


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
