"""The pages of a bisection, a history and a gate."""

from __future__ import annotations

import dataclasses
import re

import pytest

from replay.history.series import Change, HistoryView, Point, Series
from replay.report.html import Sources, render_page
from replay.report.html.axis import day_ticks
from replay.report.html.links import is_safe, link
from replay.report.html.plots import Curve, Panel, Plot, draw
from replay.results.bisection import FORMAT, BisectedCandidate, Bisection, SearchRound, Step
from replay.results.check import FORMAT as CHECK_FORMAT
from replay.results.check import Check, CheckedCase, CheckedPoint
from replay.results.comparison import ComparedKernel

HOSTILE = "</title><script>alert(1)</script>"


def bisection(**changes):
    kernels = [ComparedKernel(name=f"flash {HOSTILE}", registers=40, code="ab" * 16)]
    other = [ComparedKernel(name="flash", registers=56, code="cd" * 16)]
    candidates = [
        BisectedCandidate("12.1", "ptxas=12.1", 0, identity="x", kernels=kernels),
        BisectedCandidate("12.2", "ptxas=12.2", 0, identity="x", kernels=kernels, log=f"warning {HOSTILE}"),
        BisectedCandidate("12.3", "ptxas=12.3", 2, identity="y", kernels=other, observations=[0.06, 0.07],
                          probability=0.995, ratio=1.067, low=1.05, high=1.08, time_ns=1067.0),
    ]  # fmt: skip
    course = [SearchRound(0, 2, 2, 0.06, 2, 0.9, 0, 2), SearchRound(0, 2, 2, 0.07, 2, 0.995, 2, 2)]
    made = Bisection(FORMAT, "0", "2026-11-27T10:00:00+00:00", "x.rsnap", "ptxas=12.1..12.3", "slower", candidates,
                     [Step(1, 2, 0.995, "SLOWER", 1.067, 1.05, 1.08)], 12, "measured", course=course,
                     stopped="99.5 % sure, and 99 % are enough")  # fmt: skip
    return dataclasses.replace(made, **changes)


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.split("<body>")[1]))


class TestBisection:
    def test_the_search_is_drawn_and_told_round_by_round(self):
        page = render_page(Sources(bisections=[bisection()]))
        assert page.count('class="likely"') == 2
        assert "After 2 rounds the first bad candidate is 12.3, with a probability of 99.5 %" in page
        text = text_of(page)
        assert "99.5 % sure, and 99 % are enough" in text
        assert "Round by round" in text

    def test_what_all_labels_begin_with_is_said_once(self):
        known = bisection().candidates
        long = [dataclasses.replace(item, label=f"env=A_LONG_NAME:1.00 env=BUILD={at}")
                for at, item in enumerate(known)]  # fmt: skip
        page = render_page(Sources(bisections=[bisection(candidates=long)]))
        text = text_of(page)
        below = text.partition("The candidates in their order")[2]
        assert below.count("env=A_LONG_NAME:1.00") <= 2  # above the table, and of the log
        assert "first bad …2 last good: …1" in text
        assert "the first one is env=A_LONG_NAME:1.00 env=BUILD=0" in text

    def test_a_candidate_has_its_time_and_interval(self):
        page = render_page(Sources(bisections=[bisection()]))
        assert "1.067 us" in page
        assert 'aria-label="+5.00 % to +8.00 %"' in page

    def test_where_nothing_was_searched_there_is_a_table_of_what_was_built(self):
        ended = bisection(steps=[], course=[], stopped="", ended="cannot be executed here")
        text = text_of(render_page(Sources(bisections=[ended])))
        assert "2 kinds of machine code in 3 candidates" in text
        assert "1 candidate was not measured" in text
        assert "cannot be executed here" in text
        assert "abababab" in text

    def test_commits_have_dates_and_subjects(self):
        made = bisection()
        first = dataclasses.replace(made.candidates[0], subject=f"Tune {HOSTILE}", date="2026-10-01")
        page = render_page(
            Sources(bisections=[dataclasses.replace(made, candidates=[first, *made.candidates[1:]])])
        )
        assert "2026-10-01" in text_of(page)
        assert "<script>alert" not in page


def series(name, ratio, days=30, seconds=True):
    points, changes = [], []
    for day in range(1, days + 1):
        level = 1000.0 * (ratio if day > 15 else 1)
        when = f"2026-10-{day:02}T02:00:00+00:00" if seconds else f"some day {day}"
        points.append(
            Point(when, level + day % 3, 12080 if day < 10 else 13000, "match", f"{name}{day}.rres")
        )
        if ratio != 1 and day == 16:
            changes.append(Change(when, points[-1].path, ratio))
    return Series(name, "ab" * 16, 0, "GPU", "measured", "", points, changes, 1000.0)


class TestHistory:
    def test_what_changed_most_comes_first_everywhere(self):
        view = HistoryView("nightly", [series("flat", 1), series("a_little", 1.02), series("much", 0.8)], 90)
        page = render_page(Sources(histories=[view]))
        assert re.findall(r"<h3>(.*?)</h3>", page) == ["much", "a_little", "flat"]
        assert re.findall(r"<summary>(.*?)</summary>", page) == ["much", "a_little", "flat"]
        assert re.findall(r"<details( open)?>", page) == [" open", " open", ""]

    def test_the_axis_is_one_of_time_with_changes_and_versions(self):
        page = render_page(
            Sources(histories=[HistoryView("nightly", [series("one", 1.05), series("two", 1)], 60)])
        )
        assert '"time":true' in page
        assert '"text":"CUDA 13.0"' in page
        assert re.search(r">2026-10-\d\d</text>", page)
        assert 'class="mark"' in page
        assert "from 1.001 us (2026-10-01) to 1.050 us (2026-10-30), 1 change of level" in page

    def test_moments_that_are_none_give_a_plain_order(self):
        odd = series(f"odd {HOSTILE}", 1.05, seconds=False)
        page = render_page(Sources(histories=[HistoryView("nightly", [odd, odd], 60)]))
        assert '"time":false' in page
        assert "<script>alert" not in page

    def test_a_place_on_an_axis_of_time_is_where_its_moment_is(self):
        plot = Plot(
            "x", "result", [Panel("m", "us", [Curve("m", [1.0, 2.0, 3.0])])], seconds=[0.0, 86400.0, 864000.0]
        )
        places = [float(value) for value in re.findall(r'cx="([\d.]+)"', draw(plot).svg)]
        assert (places[1] - places[0]) / (places[2] - places[0]) == pytest.approx(0.1, abs=0.01)

    def test_ticks_are_round_days(self):
        ticks = day_ticks(1_790_000_000, 1_790_000_000 + 40 * 86400)
        assert 2 < len(ticks) <= 6
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for _, text in ticks)
        assert day_ticks(0, 1e15) == []

    @pytest.mark.parametrize("seconds", [7, 40, 200, 1000, 4000, 20_000, 90_000])
    def test_ticks_within_a_day_are_told_apart(self, seconds):
        ticks = day_ticks(1_790_000_000, 1_790_000_000 + seconds)
        assert 2 < len(ticks) <= 7
        assert len({text for _, text in ticks}) == len(ticks)

    @pytest.mark.parametrize(
        ("last", "begin", "end"),
        [("2026-11-28T10:00:00", "2026-11-27", "2026-11-28"), ("2026-11-27T10:04:00", "2026-11-27 10:00", "10:04"),
         ("2026-11-27T10:00:09", "2026-11-27 10:00:00", "10:00:09")],
    )  # fmt: skip
    def test_both_ends_of_a_history_are_as_exact_as_it_takes(self, last, begin, end):
        one = series("one", 1, days=2)
        points = [dataclasses.replace(point, created_utc=f"{when}+00:00")
                  for point, when in zip(one.points, ("2026-11-27T10:00:00", last), strict=True)]  # fmt: skip
        view = HistoryView("nightly", [dataclasses.replace(one, points=points)] * 2, 4)
        page = render_page(Sources(histories=[view]))
        assert f"({begin}) to " in page
        assert re.search(rf">{end}</text>", page)


class TestLinks:
    @pytest.mark.parametrize("address", ["https://example.org/blas", "https://example.org:8443/a?b=1&c=2#d"])
    def test_an_https_address_can_be_clicked(self, address):
        found = link(address, "blas <b>")
        assert found.startswith('<a href="https://example.org')
        assert found.endswith(">blas &lt;b&gt;</a>")

    @pytest.mark.parametrize(
        "address",
        ["javascript:alert(1)", "http://example.org", "https://user@example.org/", "https:///x", "data:text/html,x",
         "HTTPS:/\\example.org", "https://example.org/\"><script>", "https://ex\u0430mple.org", "https://[", "//a.b",
         "https://example.org:0/", " https://example.org", "https://example.org/" + "a" * 3000],
    )  # fmt: skip
    def test_any_other_stays_text(self, address):
        assert not is_safe(address)
        assert "<" not in str(link(address, "team")).replace('"><script>', "")
        case = CheckedCase("x.rsnap", None, "kernel", "SLOWER", team="team", link=address, alert=True)
        page = render_page(
            Sources(checks=[Check(CHECK_FORMAT, "0", "2026-11-27", "nightly", "results", [case])])
        )
        assert "<a " not in page
        assert "<script>" not in page.partition("<footer>")[0]


class TestCheck:
    def test_cases_have_their_course_and_the_largest_change_comes_first(self):
        course = [CheckedPoint(f"2026-10-{day:02}T02:00:00+00:00", 1000.0 + day) for day in range(1, 20)]
        cases = [
            CheckedCase("a.rsnap", None, "a", "SLOWER", "why", 1.03, 1030.0, 1000.0, alert=True, course=course),
            CheckedCase("b.rsnap", None, "b", "SLOWER", "why", 1.30, 1300.0, 1000.0, alert=True,
                        team="blas", link="https://example.org/"),
        ]  # fmt: skip
        page = render_page(
            Sources(checks=[Check(CHECK_FORMAT, "0", "2026-11-27", "nightly", "results", cases)])
        )
        assert page.index(">b.rsnap<") < page.index(">a.rsnap<")
        assert "20 results from 2026-10-01, 1.001 us, to 1.030 us now" in page
        assert '<a href="https://example.org/" rel="noopener noreferrer nofollow">blas</a>' in page
