"""Comparison of stored results, matching of the two sides, and how it is told."""

from __future__ import annotations

import dataclasses
import random

import pytest

from replay.cli.common import seconds
from replay.compare.run import compare_results
from replay.compare.sides import SnapshotWindow, StoredResult, holds_results, matched, results_at
from replay.errors import UsageError
from replay.report.compare import headline, render_comparison
from replay.report.text import Screen
from replay.results.comparison import ComparedRow
from replay.results.schema import OutputDifference, SnapshotFacts, Verification
from replay.results.store import write_result

from .test_results import make_result, modelled, summary

WIDE = Screen(100_000, False)


def timed(result, *times_ns, **changes):
    timing = dataclasses.replace(result.timing, gpu_time_ns=list(times_ns), gpu=summary(float(times_ns[0])))
    return dataclasses.replace(result, timing=timing, **changes)


def stored(tmp_path, result, name="x.rres"):
    return StoredResult(tmp_path / name, result)


def only(comparison) -> ComparedRow:
    assert len(comparison.rows) == 1
    return comparison.rows[0]


def test_modelled_results_are_exact(tmp_path):
    a, b = (stored(tmp_path, timed(modelled(), ns, ns, ns)) for ns in (1000, 1030))
    row = only(compare_results([a], [b], 0.01))
    assert (row.verdict, row.source) == ("SLOWER", "modelled")
    assert row.ratio == pytest.approx(1.03)
    assert only(compare_results([b], [a], 0.01)).verdict == "FASTER"
    assert only(compare_results([a], [a], 0.01)).verdict == "SAME"


def test_one_measured_result_a_side_is_no_evidence(tmp_path):
    a, b = (stored(tmp_path, timed(make_result(), ns)) for ns in (1000, 1300))
    row = only(compare_results([a], [b], 0.01))
    assert row.verdict == "UNSURE"
    assert "different times" in row.reason
    assert "1.3000" in row.reason


def many(tmp_path, ratio, count=8):
    generator = random.Random(7)
    return [
        stored(
            tmp_path, timed(make_result(), round(1e6 * ratio * (1 + generator.gauss(0, 0.005)))), f"{n}.rres"
        )
        for n in range(count)
    ]


def test_results_of_different_times_need_a_large_change(tmp_path):
    assert only(compare_results(many(tmp_path, 1), many(tmp_path, 1.2), 0.01)).verdict == "SLOWER"
    small = compare_results(many(tmp_path, 1), many(tmp_path, 1.03), 0.01)
    assert only(small).verdict in ("SAME", "UNSURE")
    assert "different times" in small.notes[0]


def test_faster_but_wrong_is_wrong(tmp_path):
    bad = Verification("wrong", 1, 100, 4, [OutputDifference("range 3", 0, 100, 100, 4)])
    a = stored(tmp_path, timed(modelled(), 1000))
    b = stored(tmp_path, timed(modelled(), 500, verification=bad))
    row = only(compare_results([a], [b], 0.01))
    assert row.verdict == "WRONG"
    assert "B: outputs differ" in row.reason
    assert "range 3" in row.reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"snapshot": SnapshotFacts("y.rsnap", 1, "cd" * 16)}, "different snapshots"),
        ({"device": dataclasses.replace(make_result().device, name="Other GPU")}, "different devices"),
    ],
)
def test_results_that_do_not_belong_together_are_refused_unless_asked_for(tmp_path, change, says):
    a, b = stored(tmp_path, make_result()), stored(tmp_path, make_result(**change))
    with pytest.raises(UsageError, match=says):
        compare_results([a], [b], 0.01)
    assert only(compare_results([a], [b], 0.01, across=True)).verdict == "UNSURE"


def test_measured_and_modelled_are_never_compared(tmp_path):
    with pytest.raises(UsageError, match="modelled"):
        compare_results([stored(tmp_path, make_result())], [stored(tmp_path, modelled())], 0.01)


def test_a_result_without_times_is_refused(tmp_path):
    untimed = stored(tmp_path, make_result(timing=None))
    with pytest.raises(UsageError, match="without timing"):
        compare_results([untimed], [untimed], 0.01)


def test_windows_are_matched_by_their_kernels(tmp_path):
    def window(name, number, *kernels):
        return SnapshotWindow(tmp_path / name, number, kernels)

    a = [window("a", 1, "f"), window("a", 2, "g"), window("a", 3, "f")]
    b = [window("b", 1, "h"), window("b", 2, "f"), window("b", 3, "f")]
    pairs, unmatched = matched(a, b)
    assert [(left.window, right.window) for left, right in pairs] == [(1, 2), (3, 3)]
    assert unmatched == ["only in A: a, window 2 (g)", "only in B: b, window 1 (h)"]


def test_folders_of_results_are_read_oldest_first(tmp_path):
    for name, when in (("a.rres", "2026-01-02T00:00:00+00:00"), ("b.rres", "2026-01-01T00:00:00+00:00")):
        write_result(tmp_path / name, make_result(created_utc=when))
    assert holds_results(tmp_path)
    assert [item.path.name for item in results_at(tmp_path)] == ["b.rres", "a.rres"]


def test_a_folder_of_neither_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"neither \.rsnap nor \.rres"):
        holds_results(tmp_path)


def test_many_rows_are_summed_up(tmp_path):
    rows_a, rows_b = [], []
    for number, ratio in enumerate((1.0, 1.0, 1.1)):
        facts = dataclasses.replace(make_result().window, kernels=[f"kernel{number}"])
        rows_a.append(stored(tmp_path, timed(modelled(), 1000, 1000, window=facts)))
        rows_b.append(
            stored(tmp_path, timed(modelled(), round(1000 * ratio), round(1000 * ratio), window=facts))
        )
    result = compare_results([*rows_a, *rows_a], [*rows_b, *rows_b], 0.01)
    assert headline(result) == "3 rows: 1 SLOWER, 2 SAME"
    assert result.mean.ratio == pytest.approx(1.1 ** (1 / 3))
    text = render_comparison(result, WIDE)
    assert "kernel2" in text
    assert "+3.33 %" in text  # the total
    assert "modelled" in text


def test_names_of_strangers_reach_no_terminal_raw(tmp_path):
    facts = dataclasses.replace(make_result().window, kernels=["\x1b[31mred"])
    item = stored(tmp_path, timed(modelled(), 1000, window=facts))
    assert "\x1b" not in render_comparison(compare_results([item], [item], 0.01), WIDE)


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400)])
def test_times_have_units(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "x", "-1s", "1d", "nan", "inf"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is no time"):
        seconds(text)
