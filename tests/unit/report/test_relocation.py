"""What `replay run --shift` and `--placement` print."""

from __future__ import annotations

from dataclasses import replace

from replay.report.run import WindowResult, render_run, render_window_results, verdicts
from replay.report.run.relocation import fails_to_move
from replay.results.run.placement import (
    MovedWord,
    PlacedRange,
    Placement,
    Relocation,
    ShiftedReplay,
    SuspectWord,
)
from replay.results.store import read_result, write_result
from replay.text import Screen

from ..helpers.result_factory import make_result

WIDE = Screen(400, False)
MATCH = ShiftedReplay(1, "match", 3, 0, 1 << 44, 1 << 45, 4096, following_words=2)
WORD = MovedWord("device buffer 0x7000 (64 bytes)", 1, 16, 5, 5, 9)
FAULT = ShiftedReplay(1, "failed", reason="illegal read at 0x7010", touched=0x7010)
WRONG = ShiftedReplay(2, "wrong", 3, words=[WORD])
MISSED = SuspectWord("missed", "memory", "device buffer 0x8000", 0, 2, 4, 0x7010, "device buffer 0x7000", "unaligned",
                     confirmed=True)  # fmt: skip
NUMBER = SuspectWord(
    "false", "host", "host memory that call 5 reads", 5, 0, 8, 0x7010, "device buffer 0x7000"
)
RANGES = [
    PlacedRange(1, "device", 0x7000, 64, 0x7000, "same_address", "device"),
    PlacedRange(2, "managed", 0x8000, 64, 0x9000, "relocated", "device", reason="taken; not managed here"),
    PlacedRange(3, "global", 0xA000, 8, 0, "loaded", "module", name="counter"),
]


def proven(reason=""):
    return make_result(relocation=Relocation("proven", reason, [MATCH, replace(MATCH, number=2)]))


def failed(*suspects):
    return make_result(
        relocation=Relocation("failed", "illegal read", [FAULT, WRONG], list(suspects)),
        placement=Placement(1, 64, ranges=RANGES, more_ranges=4),
    )


def test_a_proof_is_one_line_and_says_what_moved_along():
    text = render_run(proven(), WIDE)
    assert (
        "proven relocatable: outputs match with 3 ranges moved, in two ways, 2 addresses in them moved along"
        in text
    )
    assert "Why memory" not in text
    assert "outputs are the same with" in render_run(proven("they differ alike"), WIDE)
    assert verdicts(proven()).count("\n") == 0
    assert "proven relocatable" in verdicts(proven())
    assert not fails_to_move(proven())


def test_a_failed_proof_names_memory_words_and_how_sure_it_is():
    text = render_run(failed(MISSED, NUMBER), WIDE)
    assert "NOT RELOCATABLE" in text
    assert (
        "at 0x7010 was device buffer 0x7000 (64 B) in the application: a pointer to it was not patched"
        in text
    )
    assert "offset 16: expected 0x0000000000000005, got 0x0000000000000009" in text
    assert (
        "missed pointer (confirmed: patched, the outputs match): device buffer 0x8000, offset 4, not aligned"
        in text
    )
    assert "number taken for a pointer (likely): host memory that call 5 reads, offset 8" in text
    assert "no word of parameters or memory explains it" in render_run(failed(), WIDE)
    assert "no replay that" not in text
    assert "the kernels compute with addresses" in render_run(failed(NUMBER), WIDE)
    guessed = render_run(failed(replace(MISSED, confirmed=False), NUMBER), WIDE)
    assert "no replay that patched some of these words gave the captured outputs" in guessed
    assert fails_to_move(failed())


def test_each_range_is_printed_with_its_place_and_reason():
    text = render_run(failed(), WIDE, placement=True)
    lines = {
        line.split()[0]: line for line in text.splitlines() if line.strip()[:1] in "123" and "0x" in line
    }
    assert lines["1"].endswith("same")
    assert "managed as device" in lines["2"]
    assert lines["2"].endswith("RELOCATED  taken; not managed here")
    assert "not loaded" in lines["3"]
    assert lines["3"].endswith("counter")
    assert "... and 4 more ranges" in text


def test_several_windows_have_a_column_for_the_proof_where_it_was_asked():
    results = [
        WindowResult(1, proven()),
        WindowResult(2, failed(MISSED)),
        WindowResult(3, None, "no such memory"),
    ]
    text = render_window_results("x.rsnap", results, WIDE, quiet=False)
    assert "memory moved" in text
    assert "proven" in text
    assert "failed" in text
    assert "memory moved" not in render_window_results(
        "x.rsnap", [WindowResult(1, make_result())], WIDE, quiet=False
    )


def test_the_proof_is_in_the_result_file(tmp_path):
    result = failed(MISSED, NUMBER)
    write_result(tmp_path / "r.rres", result)
    assert read_result(tmp_path / "r.rres") == result


def test_windows_that_were_not_replayed_say_why_below_their_table_and_without_it():
    why = [WindowResult(number, None, f"call {number} uses a stream") for number in range(2, 12)]
    for quiet in (False, True):
        text = render_window_results("x.rsnap", [WindowResult(1, make_result()), *why], WIDE, quiet=quiet)
        assert "window 2 was not replayed: call 2 uses a stream\n" in text
        assert text.count("uses a stream") == 8
        assert "2 further windows not replayed" in text
        assert text.count("NOT REPLAYED") == (0 if quiet else 10)
