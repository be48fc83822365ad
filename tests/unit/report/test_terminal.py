"""What a terminal shows: pictures beside numbers, tables that fit, lists that end before the screen does."""

from __future__ import annotations

import dataclasses
import re

import pytest
from unit.helpers.result_factory import make_result, modelled

from replay.report.bisect import render_bisection
from replay.report.compare import render_comparison
from replay.report.pictures import box, course, interval, sparkline
from replay.report.run import render_run, render_window_results
from replay.results.bisection import FORMAT as BISECTION
from replay.results.bisection import BisectedCandidate, Bisection, Step
from replay.results.comparison import FORMAT, ComparedRow, ComparedSide, Comparison
from replay.results.run.timing import LaunchTime
from replay.results.schema import WindowResult
from replay.text import Column, Screen, table
from replay.timing.by_kernel import by_kernel
from replay.timing.statistics import summarize

WIDE = Screen(200, False)
NARROW = Screen(80, False)
WHOLE = Screen(200, False, verbose=True)
ASCII = Screen(200, False, has_blocks=False)


class TestPictures:
    def test_a_box_has_its_quartiles_where_they_are(self):
        assert box((0, 2, 4, 6, 10), (0, 10), WIDE, 11) == "├─▒▒█▒▒───┤"
        assert box((5, 5, 5, 5, 5), (0, 10), WIDE, 11) == "     █     "
        assert box((1, 1, 1, 1, 1), (1, 1), WIDE, 11) == ""

    def test_an_interval_stands_before_no_change_and_the_smallest_effect(self):
        assert interval((1.2, 1.4, 1.6), (0, 2), (1.0, 0.5, 1.5), WIDE, 21) == "     ┊    │ ├─●─┤    "
        assert interval((1.2, 3.4, 5.6), (0, 2), (1.0,), WIDE, 21)[-1] == "▶"
        assert interval((-3.0, 0.1, 0.2), (0, 2), (1.0,), WIDE, 21)[0] == "◀"

    def test_a_course_is_nothing_where_nothing_varies(self):
        assert course([3, 3, 3], WIDE) == ""
        assert course([1, 2], WIDE) == "▁█"
        assert len(course(range(1, 1000), WIDE, 16)) == 16
        assert sparkline([1000, 1001]) == "▁▁"  # scatter

    def test_an_encoding_without_blocks_has_no_pictures(self):
        assert course([1, 2], ASCII) + box((0, 2, 4, 6, 10), (0, 10), ASCII, 11) == ""
        assert interval((1.2, 1.4, 1.6), (0, 2), (1.0,), ASCII, 21) == ""


class TestTables:
    COLUMNS = (Column("name", cut="middle"), Column("ns", "right"), Column("more", spare=True))

    def test_what_can_be_spared_goes_before_names_are_cut(self):
        row = ("n" * 30, "1", "m" * 30)
        assert table(self.COLUMNS, [row], Screen(80, False)).splitlines()[1] == "  ".join(
            ["n" * 30, " 1", "m" * 30]
        )
        assert table(self.COLUMNS, [row], Screen(50, False)).splitlines() == [
            f"{'name':30}  ns",
            f"{'n' * 30}   1",
        ]

    def test_a_name_keeps_its_beginning_and_its_end(self):
        assert table(self.COLUMNS[:1], [("gemm_kernel_of_half_128x64",)], Screen(12, False)).endswith(
            "\ngemm…_128x64"
        )

    def test_a_sentence_goes_on_in_the_next_line_and_words_stay_whole(self):
        columns = [Column("item", wrap=True), Column("state")]
        text = table(
            columns, [("CUDA 7.0 for cuDevicePrimaryCtxRetain", "ok"), ("x", "ok")], Screen(31, False)
        )
        assert text.splitlines() == [
            f"{'item':24}  state",
            f"{'CUDA 7.0 for':24}  ok",
            "cuDevicePrimaryCtxRetain",
            f"{'x':24}  ok",
        ]


def launch(call, kernel, cold_ns, hot_ns=None):
    return LaunchTime(call, "cuLaunchKernel", kernel, 0, cold_ns, cold_ns if hot_ns is None else hot_ns)


def timed(count, kernels):
    launches = [launch(call, f"kernel_{call % kernels}", 1000.0 + call % kernels) for call in range(count)]
    result = make_result()
    window = dataclasses.replace(result.window, launches=5 * count)
    return dataclasses.replace(result, window=window, launch_times=launches)


class TestRun:
    def test_the_time_is_in_the_second_line(self):
        assert render_run(make_result(), WIDE).splitlines()[1].split() == [
            "time",
            *["5.100", "us", "with", "cold", "caches"],
        ]
        assert ", modelled" in render_run(modelled(), WIDE).splitlines()[1]
        untimed = dataclasses.replace(make_result(), timing=None)
        assert "time" not in render_run(untimed, WIDE).splitlines()[1]

    def test_equal_rows_with_cold_and_hot_caches_are_one(self):
        result = modelled()
        hot = dataclasses.replace(result.timing, mode="hot")
        text = render_run(dataclasses.replace(result, hot=hot), WIDE)
        assert "5.100 us with cold and hot caches" in text.splitlines()[1]
        assert text.count("replay, cold and hot caches") == 1
        assert "replay, hot caches" not in text
        other = dataclasses.replace(hot, gpu=dataclasses.replace(hot.gpu, median_ns=5000.0))
        text = render_run(dataclasses.replace(result, hot=other), WIDE)
        assert "replay, cold caches" in text
        assert "replay, hot caches" in text

    def test_samples_that_vary_are_drawn(self):
        samples = [5000, 5400, 5100, 5200]
        timing = dataclasses.replace(make_result().timing, gpu_time_ns=samples, gpu=summarize(samples))
        text = render_run(dataclasses.replace(make_result(), timing=timing), WIDE)
        assert "▁█▃▅" in text
        assert "├" in text
        assert "┤" not in render_run(dataclasses.replace(make_result(), timing=timing), NARROW)

    def test_a_long_window_is_one_screen_by_kernel_and_verbose_has_each_launch(self):
        result = timed(4000, 14)
        text = render_run(result, NARROW)
        assert len(text.splitlines()) < 40
        assert "14 kernels by GPU time, of 4,000 of 20,000 launches timed one by one" in text
        assert "... and 4 more kernels, 28.5 % of the time" in text
        assert "each cold, hot" in text  # equal in every row: one column
        whole = render_run(result, WHOLE)
        assert len(whole.splitlines()) > 4014
        assert "more kernels" not in whole

    def test_kernels_that_take_longest_together_come_first(self):
        found = by_kernel(
            [launch(1, "a", 100.0), launch(2, "b", 60.0), launch(3, "b", 80.0), launch(4, "", 1.0)]
        )
        assert [(item.kernel, item.total_ns, item.cold_ns, len(item.launches)) for item in found] == [
            ("b", 140.0, 70.0, 2),
            ("a", 100.0, 100.0, 1),
            ("", 1.0, 1.0, 1),
        ]
        assert sum(item.share for item in found) == pytest.approx(1)

    def test_of_many_windows_those_that_do_not_match_are_shown(self):
        good = make_result()
        wrong = dataclasses.replace(
            good, verification=dataclasses.replace(good.verification, verdict="wrong"), restore=None
        )
        results = [WindowResult(number, good, "") for number in range(1, 101)]
        results[76] = WindowResult(77, wrong, "")
        text = render_window_results("x.rsnap", results, NARROW, quiet=False)
        rows = [line.split()[0] for line in text.splitlines()[2:22]]
        assert rows == [*map(str, range(1, 20)), "77"]
        assert "... and 80 more windows: --verbose shows all" in text
        assert len(render_window_results("x.rsnap", results, WHOLE, quiet=False).splitlines()) > 100


def row(kernel, verdict, ratio, reason=""):
    side = ComparedSide("x.rsnap", None, "", time_ns=1000.0)
    return ComparedRow(kernel, side, side, verdict, reason, ratio, ratio - 0.01, ratio + 0.01)


def comparison(rows):
    return Comparison(FORMAT, "0", "2026-01-01T00:00:00+00:00", 0.01, rows)


class TestCompare:
    def test_what_changed_comes_first_and_what_is_the_same_ends_soon(self):
        rows = [row(f"same_{at}", "SAME", 1.0) for at in range(100)]
        rows[30:30] = [
            row("a_little", "SLOWER", 1.02),
            row("faster", "FASTER", 0.9),
            row("much", "SLOWER", 1.5),
        ]
        text = render_comparison(comparison(rows), WIDE)
        lines = text.splitlines()
        title = next(at for at, line in enumerate(lines) if line.startswith("kernel"))
        assert [line.split()[0] for line in lines[title + 1 : title + 5]] == [
            "much",
            "a_little",
            "faster",
            "same_0",
        ]
        assert "  ... and 83 more rows that are SAME: --verbose shows all" in lines
        assert "same_99" in render_comparison(comparison(rows), WHOLE)

    def test_an_identical_reason_is_said_once(self):
        rows = [row(f"kernel_{at}", "UNSURE", 1.0, "the clock has coarse steps") for at in range(5)]
        rows.append(row("other", "UNSURE", 1.0, "another"))
        text = render_comparison(comparison(rows), NARROW)
        assert text.count("coarse") == 1
        assert "UNSURE 5 rows (kernel_0, kernel_1, kernel_2 and 2 more): the clock has coarse" in text
        assert "UNSURE other: another" in text

    def test_an_axis_ends_where_no_time_is_left(self):
        text = render_comparison(comparison([row("a", "SLOWER", 52.0)]), WIDE)
        titles = next(line for line in text.splitlines() if "rounds" in line)
        assert re.search(r"-100 % +\+51\d\d % +rounds", titles)

    def test_intervals_share_an_axis_that_one_row_does_not_flatten(self):
        rows = [row("a", "SLOWER", 1.05), row("b", "SAME", 1.0), row("huge", "SLOWER", 9.0)]
        text = render_comparison(comparison(rows), WIDE)
        pictures = {line.split()[0]: line for line in text.splitlines() if "●" in line or "▶" in line}
        assert set(pictures) == {"a", "b", "huge"}
        assert "▶" in pictures["huge"]
        assert "●" not in pictures["huge"]
        assert pictures["b"].index("●") < pictures["a"].index("●")
        assert "●" not in render_comparison(comparison(rows), NARROW)


def test_a_search_has_intervals_where_there_is_room():
    seen = [0.02, 0.03]
    candidates = [
        BisectedCandidate("a", "", 0, subject="Start", date="2026-10-01"),
        BisectedCandidate("b", "", 1, observations=seen, probability=1.0, ratio=1.025, low=1.01, high=1.04),
    ]
    result = Bisection(
        BISECTION, "0", "", "x.rsnap", "list=x", "slower", candidates, [Step(0, 1, 1.0, "SLOWER")], 4
    )
    assert "+1.00 % .. +4.00 %" in render_bisection(result, WIDE)
    assert "a 2026-10-01 Start" in render_bisection(result, WIDE)
    assert "+1.00 % .." not in render_bisection(result, Screen(60, False))
