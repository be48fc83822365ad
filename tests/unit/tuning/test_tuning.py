"""Configurations as they are written, grids from expressions, and who wins a contest."""

from __future__ import annotations

import json
import random

import pytest

from replay.bisect.stages import SkippedError
from replay.compare.rounds import Observation, RoundLimits
from replay.errors import FormatError, ReplayError, UsageError
from replay.report.tuning import render_tuning, tuning_headline
from replay.results.tuning import FORMAT, Tuned, Tuning, require_consistent
from replay.snapshot.schema import Kernel
from replay.text import Screen
from replay.tuning.configurations import distinct, parse_configuration, read_configurations, shown
from replay.tuning.contest import hold, ratio_of
from replay.tuning.grids import grid_of
from replay.tuning.question import Question
from replay.variants.model import make_variant

# -- configurations -----------------------------------------------------------------------------------------------


def test_configurations_of_a_command_line_and_of_files(tmp_path):
    assert parse_configuration("BLOCK=128, num_warps=4") == {"BLOCK": "128", "num_warps": "4"}
    assert shown(parse_configuration("num_warps=4,BLOCK=128")) == "BLOCK=128 num_warps=4"
    file = tmp_path / "c.json"
    file.write_text(
        '[{"BLOCK": 64, "EVEN": true}, {"kwargs": {"BLOCK": 64}, "num_ctas": 1, "maxnreg": null}]'
    )
    assert read_configurations(file) == [{"BLOCK": "64", "EVEN": "True"}, {"BLOCK": "64"}]
    # As Triton keeps what it found.
    known = {"kwargs": {"BLOCK": 32}, "num_warps": 2, "num_ctas": 1, "num_stages": 3, "maxnreg": None}
    file.write_text(json.dumps({"key": ["x"], "configs_timings": [[known, [0.1, 0.1, 0.1]]]}))
    assert read_configurations(file) == [{"BLOCK": "32", "num_warps": "2", "num_stages": "3"}]
    assert distinct([{"a": "1", "b": "2"}, {"b": "2", "a": "1"}], "") == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    "text",
    [
        "BLOCK", "=4", "BLOCK=", "1a=4", "A=1,A=2", "num_warps=many", "", " , ", "num_warps=0",
        "num_stages=0", "num_ctas=0", "maxnreg=64;env=A=1", "num_ctas=two", "pre_hook=yes", "x" * 300 + "=1",
        "num_warps=４",
        ",".join(f"A{number}=1" for number in range(40)),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(UsageError):
        parse_configuration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"configs_timings": 3}',
        '[{"kwargs": 3}]',
        '[{"A": [1]}]',
        '[{"A": ""}]',
        "[" * 100_000,
    ],
)
def test_a_file_that_holds_none_is_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ReplayError) as told:
        read_configurations(tmp_path / "c.json")
    assert "c.json" in str(told.value)


def test_more_than_can_be_tried_are_refused():
    with pytest.raises(UsageError, match="at most") as told:
        distinct(({"BLOCK": str(number)} for number in range(300)), "c.json")
    assert "c.json" in str(told.value)
    assert "leave some out" in str(told.value)


# -- grids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cdiv(n, BLOCK)", (8, 1, 1)),
        ("(triton.cdiv(n, BLOCK), 2)", (8, 2, 1)),
        ('lambda META: (triton.cdiv(n, META["BLOCK"]) * min(2, 3), n % 7, 4)', (16, 6, 4)),
        ("n // BLOCK + 1 - max(1, 0)", (7, 1, 1)),
    ],
)
def test_grids_as_programs_write_them(expression, expected):
    assert grid_of(expression, {"n": 1000, "BLOCK": 128}) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "", "m", "n ** n", "n << 9", "n / BLOCK", "0", "-1", "n, n, n, n", "cdiv(n)", "cdiv(n, 0)", "open('x')", "1.5",
        "n if n else 1", "[n for n in (1,)]", "__import__('os')", "n.bit_length()", "True", "n" + " * n" * 20, "((((",
        "1" * 500, "cdiv(n, BLOCK=3)", "'a' * 9", "n and 1", "lambda: 0 or 1", "-n",
    ],
)  # fmt: skip
def test_what_is_no_grid_is_refused_and_nothing_is_run(expression):
    with pytest.raises(UsageError):
        grid_of(expression, {"n": 1000, "BLOCK": 128})


# -- contests -----------------------------------------------------------------------------------------------------


def observer(times, noise=0.0, seed=1):
    """times: of each candidate in ns, or what ends it."""
    lots = random.Random(seed)

    def observe(at):
        time = times[at]
        if isinstance(time, SkippedError):
            raise time
        if isinstance(time, str):
            return Observation(1.0, wrong=time)
        return Observation(time * (1 + lots.gauss(0, noise)), exact=noise == 0)

    return observe


def test_with_an_exact_clock_two_rounds_are_enough():
    found = hold(observer([100.0, 90.0, 80.0]), range(3), RoundLimits())
    assert (found.best, found.rounds) == (2, 2)
    assert {at: one.verdict.value for at, one in found.judged.items()} == {0: "SLOWER", 1: "SLOWER"}
    assert ratio_of(found, 0, 2)[0] == pytest.approx(0.8)


def test_the_fastest_wins_under_noise_and_what_is_beaten_leaves():
    found = hold(observer([100.0, 90.0, 150.0, 200.0], noise=0.01), range(4), RoundLimits())
    assert found.best == 1
    assert {one.verdict.value for one in found.judged.values()} == {"SLOWER"}
    assert len(found.observed[3]) <= len(found.observed[1])


def test_what_is_within_noise_is_a_tie():
    found = hold(observer([100.0, 80.0, 80.1], noise=0.003), range(3), RoundLimits())
    assert {found.best, *(at for at, one in found.judged.items() if one.verdict.value == "SAME")} == {1, 2}
    assert found.judged[0].verdict.value == "SLOWER"


def test_equal_ones_have_no_winner_as_often_as_is_promised():
    """Of four equal candidates one would have to beat three: far fewer false winners than 1 %."""
    winners = 0
    for seed in range(200):
        found = hold(
            observer([100.0] * 4, noise=0.02, seed=seed),
            range(4),
            RoundLimits(),
            shuffle=random.Random(seed).shuffle,
        )
        winners += all(one.verdict.value == "SLOWER" for one in found.judged.values())
    assert winners <= 2


def test_wrong_and_broken_ones_never_win():
    found = hold(observer([100.0, "outputs differ", SkippedError("no code")]), range(3), RoundLimits())
    assert found.best == 0
    assert found.ended == {1: ("WRONG", "outputs differ"), 2: ("FAILED", "no code")}


def test_a_budget_and_a_number_of_rounds_end_it_undecided():
    clock = iter(range(100))
    limits = RoundLimits(budget_s=3)
    found = hold(observer([100.0, 100.4], noise=0.05), range(2), limits, now_s=lambda: float(next(clock)))
    assert found.rounds == 3
    assert "budget" in next(iter(found.judged.values())).reason
    found = hold(observer([100.0, 100.4], noise=0.05), range(2), RoundLimits(exactly=3))
    assert found.rounds == 3
    assert next(iter(found.judged.values())).verdict.value == "UNSURE"


# -- texts --------------------------------------------------------------------------------------------------------


def tuning(*found, best=1, ties=()):
    return Tuning(
        FORMAT, "1", "", "x.rsnap", "k", "TIE" if ties else "BEST", best, list(ties), list(found), 0.01
    )


CAPTURED = Tuned("", "", "SLOWER", time_ns=100.0, rounds=8)
FAST = Tuned("BLOCK=64", "", "BEST", time_ns=90.0, ratio=0.9, low=0.89, high=0.91, rounds=8)


def test_a_tie_is_called_one():
    other = Tuned("BLOCK=32", "", "SAME", "within 1 %", time_ns=90.1, rounds=8)
    result = tuning(CAPTURED, FAST, other, ties=[2])
    assert tuning_headline(result).startswith("TIE: BLOCK=64 and BLOCK=32, -10.00 % [-11.00 %, -9.00 %]")
    assert tuning_headline(tuning(CAPTURED, FAST)).startswith("BEST: BLOCK=64, -10.00 %")
    assert "tie" in render_tuning(result, Screen(120, False))


def test_the_captured_kernel_has_the_name_of_the_configuration_of_its_code():
    same = Tuned("BLOCK=16", "", "MERGED", same_as=0)
    text = render_tuning(tuning(CAPTURED, FAST, same), Screen(120, False))
    assert "BLOCK=16 (as captured)" in text
    assert "same code as captured" in text


def test_a_document_with_places_that_are_none_is_refused():
    for wrong in (
        tuning(CAPTURED, best=1),
        tuning(CAPTURED, FAST, ties=[7]),
        tuning(Tuned("", "", "", same_as=-1)),
        tuning(CAPTURED, FAST, CAPTURED),
        tuning(CAPTURED, FAST, ties=[0] * 100),
        tuning(CAPTURED, *[FAST] * 257),
    ):
        with pytest.raises(FormatError):
            require_consistent(wrong)
    require_consistent(tuning(CAPTURED, *[FAST] * 256))


# -- variants -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["64,env=LD_PRELOAD=/x.so", "64;driver=/x", "1,swap=/x.ptx", "1,--device=1"]
)
def test_a_value_with_another_word_of_a_variant_is_refused(value):
    question = Question(Kernel("k", "", "", [], 1, [1, 1, 1], [32, 1, 1], 0), (1, 1, 1), {}, "")
    with pytest.raises(UsageError):
        question.variant({"maxnreg": value, "num_warps": "8"}, None, "", "captured")
    with pytest.raises(UsageError, match="another word"):
        make_variant(constant=[f"fast={value}"])
