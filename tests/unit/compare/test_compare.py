"""Comparison of stored results, matching of the two sides, and how it is told."""

from __future__ import annotations

import dataclasses
import math
import random
import re

import pytest

from replay.cli.common import seconds
from replay.compare.machine_code import replayed
from replay.compare.rows import observation
from replay.compare.sides import SnapshotWindow, StoredResult, holds_results, matched, results_at
from replay.compare.stored import compare_results
from replay.errors import UsageError
from replay.history.spread import spread_of
from replay.report.compare import headline, render_comparison
from replay.results.comparison import ComparedKernel, ComparedRow
from replay.results.run.origin import SnapshotFacts
from replay.results.run.variant import CapturedKernel, VariantFacts, VariantImage, VariantKernel
from replay.results.run.verification import OutputDifference, Verification
from replay.results.store import write_result
from replay.text import Screen

from ..helpers.result_factory import make_result, modelled, summary

WIDE = Screen(100_000, False)


def timed(result, *times_ns, **changes):
    timing = dataclasses.replace(result.timing, gpu_time_ns=list(times_ns), gpu=summary(float(times_ns[0])))
    return dataclasses.replace(result, timing=timing, **changes)


def stored(tmp_path, result, name="x.rres"):
    return StoredResult(tmp_path / name, result)


def only(comparison) -> ComparedRow:
    assert len(comparison.rows) == 1
    return comparison.rows[0]


def test_of_more_results_on_one_side_none_is_left_out(tmp_path):
    before = [stored(tmp_path, timed(modelled(), 1000)) for _ in range(3)]
    after = [stored(tmp_path, timed(modelled(), 1000 if at < 3 else 1040)) for at in range(10)]
    assert only(compare_results(before, after, 0.01)).verdict == "UNSURE"
    assert only(compare_results(after, before, 0.01)).verdict == "UNSURE"
    assert only(compare_results(before, after[3:], 0.01)).verdict == "SLOWER"
    assert only(compare_results(before, after[:3], 0.01)).verdict == "SAME"


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


def test_results_of_few_different_times_need_a_large_change(tmp_path):
    """Levels that processes fall into may lie 20 % apart, and three days may share one."""
    before = days(tmp_path, 0.005, 1, 3)
    assert only(compare_results(before, days(tmp_path, 0.005, 1.3, 3), 0.01)).verdict == "SLOWER"
    small = compare_results(before, days(tmp_path, 0.005, 1.2, 3), 0.01)
    assert only(small).verdict == "UNSURE"
    assert "different times" in small.notes[0]
    assert only(compare_results(before, days(tmp_path, 0.0, 1, 3), 0.01)).verdict == "UNSURE"


def days(tmp_path, spread, ratio=1.0, count=12, seed=7, **changes):
    """A result a day; no two of them share the state of the device."""
    generator = random.Random(seed)
    return [
        stored(
            tmp_path,
            timed(
                make_result(created_utc=f"2026-01-{n + 1:02}T03:00:00+00:00", **changes),
                round(1e6 * ratio * math.exp(generator.gauss(0, spread))),
            ),
            f"{n}.rres",
        )
        for n in range(count)
    ]


def spread_in(results):
    return lambda result: spread_of([(r.result.created_utc, observation(r.result).time_ns) for r in results])


def test_a_history_shows_what_one_result_of_another_day_is_worth(tmp_path):
    a, b, c = (days(tmp_path, 0, ratio, 2) for ratio in (1, 1.03, 1.003))
    known = spread_in(days(tmp_path, 0.004))
    found = compare_results(a, b, 0.01, known_spread=known)
    assert only(found).verdict == "SLOWER"
    assert "spread between such times is 0." in found.notes[0]
    assert only(compare_results(b, a, 0.01, known_spread=known)).verdict == "FASTER"
    noisy = only(compare_results(a, b, 0.01, known_spread=spread_in(days(tmp_path, 0.03))))
    assert noisy.verdict == "UNSURE"
    assert noisy.smallest_effect > 0.05
    assert "smallest slow-down" in noisy.reason
    assert only(compare_results(a, c, 0.02, known_spread=known)).verdict == "SAME"


def test_one_result_may_be_of_a_level_that_a_history_of_days_does_not_show(tmp_path):
    (a,), (b,) = (days(tmp_path, 0, ratio, 1) for ratio in (1, 1.05))
    row = only(compare_results([a], [b], 0.01, known_spread=spread_in(days(tmp_path, 0.004))))
    assert row.verdict == "UNSURE"
    assert "1 different times on a side may be of a rare level; 2 would tell" in row.reason


def test_two_folders_of_many_days_show_their_own_spread(tmp_path):
    before, after = days(tmp_path, 0.003), days(tmp_path, 0.003, 1.02, seed=8)
    assert only(compare_results(before, after, 0.01)).verdict == "SLOWER"
    assert only(compare_results(before, days(tmp_path, 0.003, 1.0, seed=8), 0.01)).verdict == "SAME"


def test_results_of_one_hour_are_one_occasion(tmp_path):
    """Thirty in a row know nothing of tomorrow."""
    results = [(f"2026-01-01T03:{n:02}:00+00:00", 1000.0 + n) for n in range(30)]
    assert spread_of(results) is None
    days_ = [(f"2026-01-{n + 1:02}T03:00:00+00:00", 1000.0 + n % 2) for n in range(8)]
    assert spread_of(days_).occasions == 8


def test_a_step_in_a_history_is_no_spread():
    level = [(f"2026-0{month}-{n + 1:02}T03:00:00+00:00", base + n % 3) for month, base in ((1, 1000), (2, 1300))
             for n in range(15)]  # fmt: skip
    assert spread_of(level).deviation < 0.002


def test_kernels_of_one_name_are_told_apart_by_their_images(tmp_path):
    """Triton calls many kernels the same."""

    def window(name, number, image):
        return SnapshotWindow(tmp_path / name, number, ("f",), (ComparedKernel("f", image=image),))

    pairs, unmatched = matched(
        [window("a", 1, "x"), window("a", 2, "y")], [window("b", 1, "y"), window("b", 2, "x")]
    )
    assert [(left.window, right.window) for left, right in pairs] == [(1, 2), (2, 1)]
    assert unmatched == []


def test_a_side_whose_outputs_are_unsure_is_no_verdict(tmp_path):
    """Neither of its time nor of its outputs; the memory in doubt is named."""
    reason = "HOST_WRITES_UNKNOWN 4 bytes at 0x10"
    doubtful = Verification("unsure", 1, 100, 4, [OutputDifference("range 3", 0, 100, 100, 4)], reason=reason)
    a = stored(tmp_path, timed(modelled(), 1000))
    b = stored(tmp_path, timed(modelled(), 500, verification=doubtful))
    row = only(compare_results([a], [b], 0.01))
    assert row.verdict == "UNSURE"
    assert row.reason.startswith("B: outputs differ")
    assert reason in row.reason
    assert row.ratio is None


def test_faster_but_wrong_is_wrong(tmp_path):
    bad = Verification("wrong", 1, 100, 4, [OutputDifference("range 3", 0, 100, 100, 4)])
    a = stored(tmp_path, timed(modelled(), 1000))
    b = stored(tmp_path, timed(modelled(), 500, verification=bad))
    row = only(compare_results([a], [b], 0.01))
    assert row.verdict == "WRONG"
    assert "B: outputs differ" in row.reason
    assert "range 3" in row.reason
    assert "faster (-50.00 %), but wrong" in row.reason
    assert row.ratio is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"snapshot": SnapshotFacts("y.rsnap", 1, "cd" * 16)}, "different snapshots"),
        ({"device": dataclasses.replace(make_result().device, name="Other GPU")}, "different devices"),
        (
            {"driver": dataclasses.replace(make_result().driver, version=12080)},
            "different driver versions .*12.8",
        ),
        ({"tool_version": "9.9"}, "different versions of replay"),
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


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("2d", 172800)]
)
def test_times_have_units(text, expected):
    assert seconds(text, "--budget") == expected


@pytest.mark.parametrize("text", ["", "x", "-1s", "1w", "nan", "inf"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is no time"):
        seconds(text, "--budget")


def test_each_side_says_what_its_kernels_are_made_of():
    """Of a variant that put one of two images in, the other kernel stays what it was."""
    kernels = [CapturedKernel("f", 40, code="aa", image="x"), CapturedKernel("g", 20, code="bb", image="y")]
    image = VariantImage("x", "z", "cubin", 1, "f.cubin", kernels=[VariantKernel("f", 56, 0, 0, 8, 16, "cc")])
    found = replayed(kernels, VariantFacts("swap=f.cubin", [image]))
    assert [(item.name, item.registers, item.code, item.image) for item in found] == [
        ("f", 56, "cc", "z"), ("g", 20, "bb", "y")]  # fmt: skip
    assert [item.registers for item in replayed(kernels, None)] == [40, 20]


def test_each_kernel_is_what_replaces_it_also_under_another_name():
    kernels = [CapturedKernel("f", image="x"), CapturedKernel("g", image="x"), CapturedKernel("h", image="x")]
    images = [
        VariantImage("x", "z", "ptx", 1, "f.ptx", kernels=[VariantKernel("g", 1, replaces="f")]),
        VariantImage("x", "w", "ptx", 1, "g.ptx", kernels=[VariantKernel("k", 2, replaces="g")]),
    ]
    found = replayed(kernels, VariantFacts("swap=...", images))
    assert [(item.name, item.image) for item in found] == [("g", "z"), ("k", "w"), ("h", "x")]
    # A result that does not say what is replaced
    old = VariantImage("x", "z", "ptx", 1, "f.ptx", kernels=[VariantKernel("k")])
    assert replayed(kernels[:1], VariantFacts("swap=...", [old]))[0].image == "z"


def test_results_show_registers_and_code_of_both_sides(tmp_path):
    a = stored(tmp_path, timed(modelled(), 1000, kernels=[CapturedKernel("f", 40, code="a" * 32)]))
    b = stored(tmp_path, timed(modelled(), 1030, kernels=[CapturedKernel("f", 56, code="b" * 32)]))
    text = render_comparison(compare_results([a], [b], 0.01), WIDE)
    assert "40 -> 56" in text
    assert "aaaaaaaa -> bbbbbbbb" in text
    assert "spill" not in text


def test_cycles_stand_beside_the_times(tmp_path):
    def with_cycles(ns, cycles):
        result = timed(modelled(), ns)
        return stored(
            tmp_path, dataclasses.replace(result, timing=dataclasses.replace(result.timing, cycles=[cycles]))
        )

    found = compare_results([with_cycles(1000, 15000)], [with_cycles(1030, 15000)], 0.01)
    wide, narrow = (render_comparison(found, Screen(width, False)) for width in (200, 80))
    assert re.search(r"cycles A +B +B / A", wide)
    assert re.search(r"15,000 +15,000 +1\.0000", wide)
    assert "SM cycles of" in narrow
    assert "cycles A" not in narrow
