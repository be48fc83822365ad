"""What a command line asks for, checked before anything starts."""

from __future__ import annotations

import pytest

from replay.capture.selection import (
    LAST_LAUNCH,
    Selection,
    check_expression,
    parse_launches,
    parse_selection,
)
from replay.errors import UsageError


@pytest.mark.parametrize(
    ("words", "environment", "text"),
    [
        ({}, {"LAUNCH": "1-1", "MEMORY": "reachable"}, "--launch 1"),
        (
            {"kernel": "^a|b$", "launch": "3-7"},
            {"KERNEL": "^a|b$", "LAUNCH": "3-7", "MEMORY": "reachable"},
            "--kernel ^a|b$ --launch 3-7",
        ),
        ({"everything": True}, {"ALL": "1", "MEMORY": "reachable"}, "--all"),
        (
            {"kernel": "k", "maximum_launches": 4, "memory": "params", "maximum_bytes": "2M"},
            {"KERNEL": "k", "LAUNCH": "1-4", "MEMORY": "params", "MAX_BYTES": "2097152", "MAX_LAUNCHES": "4"},
            "--kernel k --launch 1-4 --memory params --max-bytes 2097152 --max-launches 4",
        ),
    ],
)
def test_selection_tells_the_interposer_and_can_be_typed_again(words, environment, text):
    selection = parse_selection(**words)
    assert selection.environment() == {f"REPLAY_CAPTURE_{name}": value for name, value in environment.items()}
    assert str(selection) == text


@pytest.mark.parametrize(
    "words",
    [
        {"everything": True, "kernel": "x"},
        {"everything": True, "launch": "1"},
        {"kernel": "("},
        {"kernel": ""},
        {"kernel": "a\0b"},
        {"launch": "0"},
        {"launch": "7-3"},
        {"launch": "-3"},
        {"launch": "1-2-3"},
        {"launch": "9" * 30},
        {"memory": "some"},
        {"maximum_bytes": "0"},
        {"maximum_bytes": "lots"},
        {"maximum_bytes": "99999999T"},
        {"maximum_launches": 0},
        {"launch": "every:0"},
        {"launch": "every:"},
        {"launch": "every:3-5"},
        {"everything": True, "each": True},
        {"everything": True, "nvtx": "step"},
        {"profiler": True, "nvtx": "step"},
        {"nvtx": ""},
        {"operator": ""},
        {"operator": "a\nb"},
        {"source": ""},
        {"source": "k.py:"},
        {"source": ":12"},
        {"source": "k.py:-3"},
        {"source": "k.py:12:13"},
        {"source": "k.py:9-3"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_a_usage_error(words):
    with pytest.raises(UsageError):
        parse_selection(**words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", (1, 1, 0)), ("3-7", (3, 7, 0)), ("5-5", (5, 5, 0)), ("every:100", (100, LAST_LAUNCH, 100))],
)
def test_launches(text, expected):
    assert parse_launches(text) == expected


@pytest.mark.parametrize(
    "pattern", ["saxpy", "^gemm_.*<float, 4>", r"a\(int\)", "x|y", "[[:alpha:]]+", "a{2,3}", "ü"]
)
def test_posix_extended_expressions_are_accepted(pattern):
    check_expression(pattern)


@pytest.mark.parametrize(
    ("pattern", "character"),
    [("(", 1), ("gemm(float", 5), ("a{2", 2), ("*a", 1), ("abc\\", 4), ("ü(x", 2)],
)
def test_expression_that_does_not_compile_says_where(pattern, character):
    with pytest.raises(UsageError, match=f"at character {character},"):
        check_expression(pattern)


def test_default_is_the_first_launch_of_any_kernel():
    assert parse_selection() == Selection(first_launch=1, last_launch=1)


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ({"launch": "3", "each": True}, "--launch 3 --each"),
        ({"launch": "every:5"}, "--launch every:5"),
        ({"each": True}, "--launch every:1 --each"),
        ({"nvtx": "a step"}, "--nvtx 'a step'"),
        ({"nvtx": "a@torch.module"}, "--nvtx a@torch.module"),
        ({"module": "jit_f", "kernel": "x"}, "--module jit_f --kernel x --launch 1"),
        ({"nvtx": "step", "kernel": "x"}, "--nvtx step --kernel x --launch 1"),
        ({"profiler": True}, "--profiler-api"),
    ],
)
def test_selection_is_shown_as_it_could_be_typed(words, typed):
    assert str(parse_selection(**words)) == typed


def test_a_place_in_a_framework_is_looked_for_in_texts_of_each():
    texts = parse_selection(module="jit_f").environment()["REPLAY_CAPTURE_NVTX_TEXTS"].split("\n")
    assert "TSL\t,hlo_module=jit_f#" in texts
    assert "REPLAY_CAPTURE_NVTX_TEXTS" not in parse_selection(nvtx="jit_f@torch.module").environment()
