"""`replay explain`: whoever reads only this knows what was found, how, and what was not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from replay.cli import main
from replay.errors import FormatError
from replay.history.store import append
from replay.report.explain import WIDEST, explain, paragraph, render_explanation
from replay.results import documents
from replay.results.bisection import BisectedCandidate, Bisection, Step
from replay.results.check import Check, CheckedCase
from replay.results.comparison import ComparedKernel, ComparedRound, ComparedRow, ComparedSide, Comparison
from replay.results.json import document
from replay.results.run.placement import Placement
from replay.results.run.verification import OutputDifference, Verification
from replay.results.schema import WindowResult
from replay.results.store import write_result
from replay.text import Screen

from ..helpers.command import plain
from ..helpers.result_factory import make_result, modelled

HOSTILE = "\x1b]0;owned\x07<script>"
PARTS = ("evidence", "conditions", "checked", "unchecked", "next")


def comparison(verdict="SLOWER", **changes):
    sides = [
        ComparedSide(f"{name}.rsnap", None, "", "ab", "H100", "/lib/libcuda.so.1", 13000, time_ns, "match",
                     [ComparedKernel("gemm", registers=registers, code=name)])
        for name, time_ns, registers in (("a", 1000.0, 40), ("b", 1062.0, 56))
    ]  # fmt: skip
    row = ComparedRow(
        "gemm", *sides, verdict, ratio=1.062, low=1.057, high=1.068, smallest_effect=0.012,
        rounds=[ComparedRound(1000.0, 1062.0, bool(at % 2)) for at in range(8)],
    )  # fmt: skip
    row = dataclasses.replace(row, **changes)
    return Comparison("replay.comparison/1", "0.1.0", "2026-01-02T03:04:05+00:00", 0.01, [row])


def bisection(**changes):
    found = [
        BisectedCandidate(
            f"ptxas 12.{at}", f"ptxas=12.{at}", at, observations=[0.05] * (at > 1), probability=at / 3
        )
        for at in range(3)
    ]
    result = Bisection(
        "replay.bisection/1", "0.1.0", "2026-01-02T03:04:05+00:00", "x.rsnap", "ptxas=12.0..12.2", "slower", found,
        [Step(1, 2, 0.995, "SLOWER", 1.05, 1.04, 1.06, 1.0)], 20, "measured", 1.05, device="H100",
        driver="/lib/libcuda.so.1", driver_version=13000,
    )  # fmt: skip
    return dataclasses.replace(result, **changes)


def gate():
    cases = [
        CheckedCase("gemm.rsnap", None, "gemm", "SLOWER", "a change of at least 0.05 counts", 1.2, 1200.0, 1000.0,
                    "measured", 3, True, team="blas", link="https://example.org/blas", device="H100",
                    driver_version=13000, outputs="match"),
        CheckedCase("scan.rsnap", 2, "scan", "PASS", "", 1.001, 1001.0, 1000.0, "measured", 1, device="H100",
                    driver_version=13000, outputs="match"),
        CheckedCase("new.rsnap", None, "new", "NEW", "no baseline", device="H100", outputs="not_compared"),
    ]  # fmt: skip
    return Check("replay.check/1", "0.1.0", "2026-01-02T03:04:05+00:00", "nightly", "results", cases)


def explained(tmp_path, kind, value):
    path = tmp_path / "x.json"
    path.write_text(document(kind, value))
    return explain([path])


def everything(item):
    return " ".join([item.title, item.verdict, *(text for part in PARTS for text in getattr(item, part))])


def test_a_replay_says_what_was_compared_and_what_was_not(tmp_path):
    (item,) = explained(tmp_path, documents.RUN, make_result())
    assert item.verdict.startswith("outputs match (3 buffers, 3 MiB compared bit by bit); cold 5.100 us")
    assert "measured GPU time is 5.100 us (median of 3 samples" in " ".join(item.evidence)
    assert "Warning noisy" in " ".join(item.evidence)
    for part in (
        "2026-01-01 00:00:00 UTC",
        "replay 0.1.0",
        "Test GPU",
        "CUDA 13.0",
        "x.rsnap",
        "abababababababab",
    ):
        assert part in " ".join(item.conditions)
    assert "3 buffers" in " ".join(item.checked)
    assert "application's own outputs" in " ".join(item.unchecked)
    assert "lock the clocks" in item.next
    assert not item.modelled


def test_modelled_times_are_never_called_measured(tmp_path):
    (item,) = explained(tmp_path, documents.RUN, modelled())
    assert item.modelled
    assert "No time here is a measurement" in " ".join(item.unchecked)
    assert "measured" not in everything(item).replace("No time here is a measurement", "")


@pytest.mark.parametrize(
    ("changes", "says", "advises"),
    [
        (
            {
                "verification": Verification(
                    "wrong", 3, 192, 2, [OutputDifference("device buffer", 1, 64, 64, 2)]
                )
            },
            "outputs DIFFER",
            "--save-outputs DIR",
        ),
        (
            {"verification": Verification("nondeterministic", 3, 192, 2)},
            "NONDETERMINISTIC",
            "look for a race",
        ),
        (
            {"verification": Verification("not_compared", 0, 0, reason="the window was open")},
            "the window was open",
            "ls x.rsnap notes",
        ),
        ({"placement": Placement(2, 1024, 1, 512)}, "1 elsewhere", "--shift"),
        ({"timing": None}, "nothing was timed", ""),
        (
            {"best_effort": True, "notes": ["cuGreenCtxCreate was left out"]},
            "cuGreenCtxCreate was left out",
            "",
        ),
    ],
)
def test_what_a_replay_lacks_is_said_with_what_to_do(tmp_path, changes, says, advises):
    (item,) = explained(tmp_path, documents.RUN, make_result(**changes))
    assert says in everything(item)
    assert advises in " ".join(item.next)


def test_a_comparison_has_both_times_the_interval_and_the_rounds(tmp_path):
    (item,) = explained(tmp_path, documents.COMPARISON, comparison())
    assert item.verdict == "SLOWER +6.20 % [+5.70 %, +6.80 %]: gemm"
    text = everything(item)
    for part in ("A takes 1.000 us and B 1.062 us (measured GPU time", "medians over 8 rounds", "40 -> 56 registers",
                 "A on H100, driver /lib/libcuda.so.1 (CUDA 13.0)", "2026-01-02 03:04:05", "Times were measured",
                 "B: its outputs match", "less than 1 % of comparisons", "replay bisect"):  # fmt: skip
        assert part in text, part


@pytest.mark.parametrize(
    ("verdict", "advises"),
    [
        ("UNSURE", "UNSURE is no verdict"),
        ("WRONG", "means nothing"),
        ("FAILED", "Replay the side"),
        ("SAME", "Nothing"),
    ],
)
def test_each_verdict_has_its_advice(tmp_path, verdict, advises):
    (item,) = explained(
        tmp_path, documents.COMPARISON, comparison(verdict, reason="28 rounds were not enough")
    )
    assert item.next[0].startswith(advises) or advises in item.next[0]


def test_outputs_of_a_side_that_were_not_compared_are_named(tmp_path):
    result = comparison()
    side = dataclasses.replace(result.rows[0].b, outputs="not_compared")
    (item,) = explained(tmp_path, documents.COMPARISON, comparison(b=side))
    assert "outputs of B" in " ".join(item.unchecked).replace("Outputs", "outputs")
    assert [text for text in item.checked if text.startswith("B")] == []


def test_a_bisection_says_what_it_inferred_and_what_it_skipped(tmp_path):
    result = bisection(steps=[Step(2, 3, 0.995, "SLOWER", 1.05, 1.04, 1.06, 1.0)])
    result.candidates.insert(1, BisectedCandidate("ptxas 12.0.1", "ptxas=12.0.1", 1))
    result.candidates[2] = dataclasses.replace(
        result.candidates[2], skipped="ptxas does not know the .version"
    )
    (item,) = explained(tmp_path, documents.BISECTION, result)
    assert item.verdict == "first bad: ptxas 12.2 (last good ptxas 12.1): +5.00 % [+4.00 %, +6.00 %]"
    text = everything(item)
    for part in ("99.5 % sure", "1 candidate did not need to be observed", "ptxas does not know the .version", "H100",
                 "--a ptxas=12.1 --b ptxas=12.2"):  # fmt: skip
        assert part in text, part


def test_a_gate_names_alerts_owners_and_what_has_no_baseline(tmp_path):
    (item,) = explained(tmp_path, documents.CHECK, gate())
    assert item.verdict == "1 alert in 3 cases: 1 SLOWER, 1 NEW, 1 PASS"
    text = everything(item)
    for part in ("ALERT: 1.000 us before, 1.200 us now (+20.00 %, measured)", "seen in 3 independent replays",
                 "owner blas", "https://example.org/blas", "1 case without a baseline",
                 "Outputs of 1 case: none were captured", "replay bisect gemm.rsnap"):  # fmt: skip
        assert part in text, part


def test_a_history_is_explained_as_a_folder_and_as_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for at in range(10):
        append(tmp_path / "history", make_result(created_utc=f"2026-01-{at + 1:02}T00:00:00+00:00"))
    assert main(["history", "history", "--json"]) == 0
    (tmp_path / "h.json").write_text(capsys.readouterr().out)
    folder, file = explain([Path("history"), Path("h.json")])
    assert dataclasses.replace(file, source=folder.source) == folder
    assert "no change of level in 10 results" in everything(folder)
    assert "From 2026-01-01 to 2026-01-10" in everything(folder)
    assert "baseline set" in " ".join(folder.next)


def test_windows_and_files_are_explained_one_by_one(tmp_path):
    windows = [
        WindowResult(1, make_result()),
        WindowResult(2, None, "no such device"),
        WindowResult(3, modelled()),
    ]
    items = explained(tmp_path, documents.RUN_WINDOWS, windows)
    assert [item.modelled for item in items] == [False, True, False]
    assert items[2].verdict == "could not be replayed: window 2: no such device"
    write_result(tmp_path / "r.rres", make_result())
    assert [item.source for item in explain([tmp_path / "r.rres", tmp_path / "x.json"])] == [
        str(tmp_path / "r.rres"), *[str(tmp_path / "x.json")] * 3,
    ]  # fmt: skip


def test_numbers_that_json_lacks_are_refused(tmp_path):
    text = document(documents.RUN, make_result()).replace('"wall_s": 0.0', '"wall_s": NaN')
    assert "NaN" in text
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError):
        explain([tmp_path / "x.json"])


def test_json_that_lost_its_points_is_read(tmp_path):
    """`jq` writes 1.0 as 1."""
    (tmp_path / "x.json").write_text(document(documents.COMPARISON, comparison()).replace("1000.0", "1000"))
    (item,) = explain([tmp_path / "x.json"])
    assert "A takes 1.000 us" in everything(item)


SOURCES = [
    (documents.RUN, make_result(notes=[HOSTILE * 30])),
    (documents.COMPARISON, comparison(kernel=HOSTILE * 30, reason=HOSTILE)),
    (documents.BISECTION, bisection(snapshot=HOSTILE, over=HOSTILE * 30)),
    (documents.CHECK, dataclasses.replace(gate(), corpus=HOSTILE)),
]


@pytest.mark.parametrize(("kind", "value"), SOURCES, ids=lambda value: getattr(value, "schema", ""))
@pytest.mark.parametrize("width", [60, 80, 200])
def test_text_is_narrow_and_harmless(tmp_path, kind, value, width):
    (item,) = explained(tmp_path, kind, value)
    text = plain(render_explanation(item, Screen(width, True)))
    assert "\x1b" not in text + paragraph(item)
    assert max(map(len, text.splitlines())) <= min(width, WIDEST)


def test_the_command_prints_text_a_line_or_json(tmp_path, capsys):
    (tmp_path / "c.json").write_text(document(documents.COMPARISON, comparison()))
    name = str(tmp_path / "c.json")
    assert main(["explain", name, "-q"]) == 0
    assert capsys.readouterr().out == f"{name}: SLOWER +6.20 % [+5.70 %, +6.80 %]: gemm\n"
    assert main(["explain", name]) == 0
    assert "  Not checked  " in capsys.readouterr().out
    assert main(["explain", name, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["items"][0]["kind"] == "comparison"
    assert value["paragraphs"][0].startswith("c.json: B (b.rsnap) against A (a.rsnap): SLOWER +6.20 %")
