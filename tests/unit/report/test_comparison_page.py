"""The page of a comparison: intervals, rounds, launches, counters and code of both sides."""

from __future__ import annotations

import dataclasses
import re

import pytest

from replay.compare.moved import moved_counters
from replay.report.html import read_sources, render_page
from replay.report.html.model import Listing
from replay.results import comparison, documents
from replay.results.comparison import ComparedLaunch, ComparedRound, ComparedRow, ComparedSide, Comparison
from replay.results.json import document
from replay.results.run.timing import KernelCounters, WindowCounters

from .test_report import checked

A = KernelCounters("scan", 1, 11_000, {"warp_instructions": 110, "warp_integer": 100, "warp_float64": 10,
                                       "global_load_sectors": 400, "global_load_requests": 100},
                   {"launch": 1000, "compute": 10_000, "memory": 4000, "latency": 10})  # fmt: skip
B = KernelCounters("scan", 1, 13_000, {"warp_instructions": 125, "warp_integer": 110, "warp_float64": 15,
                                       "global_load_sectors": 800, "global_load_requests": 100},
                   {"launch": 1000, "compute": 12_000, "memory": 8000, "latency": 10})  # fmt: skip


def compared(**changes):
    rounds = [
        ComparedRound(412_000.0 + 900 * (at % 3), 437_000.0 + 700 * (at % 4), bool(at % 2)) for at in range(8)
    ]
    times = {"": 412_000.0, "swap=x": 437_000.0}
    sides = [
        ComparedSide(
            "scan.rsnap", None, variant, device="Test GPU", driver="system", driver_version=13000, time_ns=time,
            outputs="match",
        )
        for variant, time in times.items()
    ]  # fmt: skip
    row = ComparedRow("scan", *sides, "SLOWER", "", 1.06, 1.05, 1.07, rounds=rounds)
    return dataclasses.replace(row, **changes)


def page_of(folder, *rows):
    found = Comparison(comparison.FORMAT, "1", "2026-01-01T00:00:00", 0.01, list(rows))
    (folder / "c.json").write_text(document(documents.COMPARISON, found))
    return render_page(read_sources([folder / "c.json"]))


def test_it_begins_with_verdict_times_and_device(tmp_path):
    text = checked(page_of(tmp_path, compared()).partition("<body>")[2].partition("</body>")[0]).text
    order = ["SLOWER", "412.0 us", "437.0 us", "On Test GPU, system, CUDA 13.0"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_what_changed_most_comes_first(tmp_path):
    same = [compared(kernel=f"same{at}", verdict="SAME", ratio=1.0, low=1.0, high=1.0) for at in range(3)]
    slower = [compared(kernel="little"), compared(kernel="much", ratio=1.2, low=1.19, high=1.21)]
    text = checked(page_of(tmp_path, *same, *slower)).text
    table = text[text.index("interval", text.index("smallest change that counts")) :]
    places = [table.index(name) for name in ("much", "little", "same0")]
    assert places == sorted(places)


def test_the_p_value_stands_beside_the_interval(tmp_path):
    text = checked(page_of(tmp_path, compared(chance=0.0123), compared(chance=1e-9))).text
    for part in ("p-value", "0.012", "< 0.0001", "all looks at the rounds counted"):
        assert part in text
    exact = [ComparedRound(412_000.0, 437_000.0, False)] * 2
    assert "p-value" not in checked(page_of(tmp_path, compared(chance=0.0, rounds=exact))).text
    assert "p-value" not in checked(page_of(tmp_path, compared())).text


def test_intervals_are_drawn_against_the_smallest_effect(tmp_path):
    page = page_of(
        tmp_path, compared(), compared(kernel="copy", verdict="SAME", ratio=1.0, low=0.995, high=1.005)
    )
    assert 'class="band"' in page
    assert page.count('class="interval SLOWER"') == page.count('class="interval SAME"') == 1
    assert "1 % on either side" in page


def test_rounds_of_both_sides_are_drawn(tmp_path):
    assert "Where the medians of the rounds lie. A: median 412.9 us" in page_of(tmp_path, compared())


def test_launches_are_a_waterfall_with_their_share(tmp_path):
    launches = [ComparedLaunch(3, "fill", 1000.0, 1900.0), ComparedLaunch(5, "copy", 1000.0, 1100.0)]
    page = page_of(tmp_path, compared(launches=launches))
    assert "call 3, fill: +900 ns, 90 % of the change" in page
    assert page.count('class="change slower"') == 2


def test_counters_that_explain_the_change_come_first(tmp_path):
    moved = moved_counters(A, B)
    assert [item.name for item in moved] == ["warp_float64", "warp_integer", "global_load_sectors"]
    # A double counts as four of the others: 5 * 4 of 5 * 4 + 10 weighted instructions more.
    assert [item.explains for item in moved] == pytest.approx([2 / 3, 1 / 3, 0.0])
    sides = {
        name: dataclasses.replace(getattr(compared(), name), counters=WindowCounters(side, [side]))
        for name, side in (("a", A), ("b", B))
    }
    text = checked(page_of(tmp_path, compared(**sides))).text
    assert "warp float64" in text
    assert "67 %" in text


def test_equal_counters_are_said_to_be_equal(tmp_path):
    sides = {
        name: dataclasses.replace(getattr(compared(), name), counters=WindowCounters(A, [A])) for name in "ab"
    }
    assert "Every counter is the same" in page_of(tmp_path, compared(**sides))


def test_where_the_bound_changes_both_parts_explain(tmp_path):
    b = dataclasses.replace(B, parts_ns={"launch": 1000, "compute": 10_000, "memory": 14_000})
    explained = {item.name: item.explains for item in moved_counters(A, b)}
    assert explained["global_load_sectors"] > 0


def test_two_sides_stand_beside_each_other():
    listing = Listing(
        "PTX", ["@ line 1", "  same", "- old", "- older", "+ new", "  end"], ["", "5 %", "", "", "9 %", ""]
    )
    rows = [(kind, a.text, b.text) for kind, a, b in listing.sides]
    assert rows == [("place", "line 1", ""), ("same", "same", "same"), ("changed", "old", "new"),
                    ("changed", "older", ""), ("same", "end", "end")]  # fmt: skip
    assert [row[2].heat for row in listing.sides] == ["", "5 %", "9 %", "", ""]
    assert Listing("source", ["  only", "  one side"]).sides == []


def test_headings_follow_one_another(tmp_path):
    levels = [int(level) for level in re.findall(r"<h(\d)", page_of(tmp_path, compared()))]
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_the_title_of_the_tab_begins_with_the_verdict(tmp_path):
    assert "<title>SLOWER +6.00 % [" in page_of(tmp_path, compared())


def test_the_band_runs_through_no_words(tmp_path):
    drawing = (
        page_of(tmp_path, compared(), compared(kernel="other"))
        .split("Change of B against A, with")[1]
        .split("</svg>")[0]
    )
    bands = [(float(y), float(y) + float(height)) for y, height in
             re.findall(r'class="band"[^>]* y="([\d.]+)"[^>]*height="([\d.]+)"', drawing)]  # fmt: skip
    words = [
        (float(y), float(y) + 18) for y in re.findall(r'<foreignObject x="0.000%" y="([\d.]+)"', drawing)
    ]
    words += [(float(y) - 12, float(y)) for y in re.findall(r'<text class="label[^>]* y="([\d.]+)"', drawing)]
    assert len(bands) == 2
    assert len(words) == 4
    assert not [(word, band) for word in words for band in bands if word[0] < band[1] and band[0] < word[1]]


def test_a_caption_says_what_is_drawn_and_nothing_else(tmp_path):
    few = [ComparedRound(1000.0, 1030.0, False), ComparedRound(1000.0, 1030.0, True)]
    page = page_of(tmp_path, compared(rounds=few))
    assert "Medians of the rounds. Every sample of a side is the same." in page
    assert "quartile" not in page.split("Medians of the rounds.")[1].split("</figcaption>")[0]
    drawn = page_of(tmp_path, compared())
    assert "each sample a dot; a bar from quartile to quartile, thick where the median lies" in drawn
