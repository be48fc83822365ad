"""What `--over` names, what is kept of a bisection, and how its answer reads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from replay.bisect.candidates import Candidate, candidates
from replay.bisect.laboratory import CommandLaboratory
from replay.bisect.progress import Progress
from replay.bisect.stages import SkippedError
from replay.bisect.state_file import StateFile
from replay.errors import EngineError, FormatError, UsageError
from replay.report.bisect import answer, render_bisection, short
from replay.results.bisection import FORMAT, BisectedCandidate, Bisection, Step
from replay.results.comparison import ComparedKernel
from replay.text import Screen

VERSIONS = ["11.8.89", "12.4.131", "12.6.20", "12.6.85", "12.10.5", "13.0.88"]


def labels(over, given=""):
    return [item.label for item in candidates(over, lambda name, majors: VERSIONS, given)[1]]


def variants(over):
    return [item.variant for item in candidates(over, lambda name, majors: VERSIONS)[1]]


def test_a_range_of_versions_takes_what_begins_with_its_ends():
    assert labels("ptxas=12.4..12.6") == ["ptxas 12.4.131", "ptxas 12.6.20", "ptxas 12.6.85"]
    assert labels("ptxas=12.6.85..13") == ["ptxas 12.6.85", "ptxas 12.10.5", "ptxas 13.0.88"]


def test_named_versions_need_not_be_there():
    assert variants("ptxas=12.1,12.2") == ["ptxas=12.1", "ptxas=12.2"]


@pytest.mark.parametrize(
    "over", ["ptxas:12.1,12.2", "ptxas 12.1,12.2", "--ptxas 12.1,12.2", " ptxas = 12.1,12.2"]
)
def test_candidates_are_written_as_variants_are(over):
    assert variants(over) == ["ptxas=12.1", "ptxas=12.2"]
    assert variants("swap=x.ptx,y.ptx") == variants("module=x.ptx,y.ptx")


def test_every_kind_makes_variants(tmp_path):
    assert variants("driver=/a b,/c") == ["driver='/a b'", "driver=/c"]
    assert variants("module=x.ptx,y.ptx") == ["swap=x.ptx", "swap=y.ptx"]
    assert variants("jit=opt-level=4..2") == ["jit=opt-level=4", "jit=opt-level=3", "jit=opt-level=2"]
    (tmp_path / "list").write_text("# the good end\nptxas=12.1\n\nptxas=12.2 jit=lineinfo\n")
    assert variants(f"list={tmp_path / 'list'}") == ["ptxas=12.1", "ptxas=12.2 jit=lineinfo"]


def test_commands_have_arguments(tmp_path):
    (tmp_path / "commits").write_text("aaa\nbbb\n")
    assert labels("exec=./check", f"@{tmp_path / 'commits'}") == ["aaa", "bbb"]
    assert labels("exec=./check", "a,b,c") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ("nonsense", "names no candidates"),
        ("ptxas=", "names no candidates"),
        ("ptxas=14.0..15.0", "0 versions"),
        ("ptxas=a..b", "no range of versions"),
        ("jit=opt-level", "names no values"),
        ("jit=opt-level=a..b", "names no values"),
        ("driver=/only", "1 candidate"),
        ("exec=./check", "needs --candidates"),
    ],
)
def test_what_names_no_candidates_is_refused(over, says):
    with pytest.raises(UsageError, match=says):
        candidates(over, lambda name, majors: VERSIONS)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [("exit 0", False), ("exit 1", True), ("exit 124", True), ('[ "$REPLAY_CANDIDATE" = b ]', False)],
)
def test_the_status_of_a_command_is_its_answer(script, outcome):
    laboratory = CommandLaboratory(f"sh -c '{script}'", [Candidate("b", argument="b")])
    assert laboratory.shows_symptom(0) is outcome


def test_what_a_command_said_before_it_gave_up_is_kept():
    laboratory = CommandLaboratory("sh -c 'echo no compiler >&2; exit 125'", [Candidate("b", argument="b")])
    with pytest.raises(SkippedError) as raised:
        laboratory.shows_symptom(0)
    assert raised.value.details == "no compiler\n"


def test_the_end_of_what_a_command_said_is_kept():
    logs = {}
    script = "seq 1 5000; echo it is slow; exit 1"
    assert CommandLaboratory(f"sh -c '{script}'", [Candidate("b", argument="b")], logs).shows_symptom(0)
    assert logs[0].endswith("5000\nit is slow\n")
    assert len(logs[0]) <= 4000


def test_a_command_may_not_know():
    with pytest.raises(SkippedError, match="125"):
        CommandLaboratory("sh -c 'exit 125'", [Candidate("b", argument="b")]).shows_symptom(0)


@pytest.mark.parametrize(
    ("command", "says"), [("/nowhere/x", "cannot be started"), ("sh -c 'exit 200'", "status 200")]
)
def test_a_command_that_says_neither_is_an_error(command, says):
    with pytest.raises(EngineError, match=says):
        CommandLaboratory(command, [Candidate("b", argument="b")]).shows_symptom(0)


def test_a_state_is_kept_and_read(tmp_path):
    file = StateFile(tmp_path / "s.json", {"snapshot": "x"})
    progress = Progress(3, groups=[0, 1, 2], skipped={1: "no"}, observations={2: [0.5]})
    file.save(progress)
    assert file.load(3) == progress
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
    file.remove()
    assert file.load(3) == Progress(3)


def test_a_state_of_another_search_is_refused(tmp_path):
    StateFile(tmp_path / "s.json", {"snapshot": "x", "symptom": "slower"}).save(Progress(3))
    with pytest.raises(UsageError, match=r"another bisection \(symptom\)"):
        StateFile(tmp_path / "s.json", {"snapshot": "x", "symptom": "wrong"}).load(3)
    with pytest.raises(UsageError, match="3 candidates, not 4"):
        StateFile(tmp_path / "s.json", {"snapshot": "x", "symptom": "slower"}).load(4)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "replay.bisection.state/1", "question": {}, "progress": []}']
)
def test_what_is_no_state_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(FormatError, match="no state"):
        StateFile(tmp_path / "s.json", {}).load(3)


def result(steps, **changes):
    found = [BisectedCandidate(f"ptxas {at}", f"ptxas={at}", at, observations=[0.03]) for at in range(4)]
    found[2] = BisectedCandidate("ptxas \x1b2", "", 1, skipped="does not build")
    return Bisection(
        FORMAT, "1", "", "x.rsnap", "ptxas=0..3", "slower", found, steps, 20, "modelled", 1.09, **changes
    )


def test_the_answer_is_one_plain_line():
    step = Step(1, 3, 0.995, "SLOWER", 1.062, 1.057, 1.068, 1.0, [2])
    assert answer(result([step])) == "first bad: ptxas 3 (last good ptxas 1): +6.20 % [+5.70 %, +6.80 %]"
    text = render_bisection(result([step]), Screen(100_000, False))
    assert "skipped: does not build" in text
    assert "modelled" in text
    assert "\x1b" not in text


def test_several_steps_are_all_told():
    steps = [
        Step(0, 1, 0.99, "SLOWER", 1.03, 1.02, 1.04, 0.34),
        Step(1, 3, 0.99, "SLOWER", 1.06, 1.05, 1.07, 0.66),
    ]
    text = render_bisection(result(steps), Screen(100_000, False))
    assert text.startswith("first bad: ptxas 3")
    assert "another step, first bad: ptxas 1 (last good ptxas 0): +3.00 %" in text


def test_results_are_plain_json():
    from replay.results.documents import BISECTION
    from replay.results.json import document

    assert json.loads(document(BISECTION, result([])))["candidates"][3]["label"] == "ptxas 3"


def built(label, registers, code, **changes):
    kernel = ComparedKernel("gemm", registers, code=code, spill_store_bytes=0)
    return BisectedCandidate(label, f"ptxas={label}", 0, identity=code, kernels=[kernel], **changes)


def test_the_answer_says_what_the_kernels_are_made_of():
    found = [built("ptxas 12.6.85", 40, "aaaa"), built("ptxas 12.8.61", 56, "bbbb")]
    step = Step(0, 1, 0.99, "SLOWER", 1.062, 1.057, 1.068, 1.0)
    result = Bisection(FORMAT, "0", "", "x.rsnap", "ptxas=12..13", "slower", found, [step], 20, ratio=1.062)
    assert answer(result) == (
        "first bad: ptxas 12.8.61 (last good ptxas 12.6.85): +6.20 % [+5.70 %, +6.80 %], 40 -> 56 registers"
    )


def test_without_a_search_the_kinds_of_machine_code_are_told():
    found = [
        built("ptxas 12.6.85", 40, "aaaa"),
        built("ptxas 12.8.61", 40, "aaaa"),
        replace(built("ptxas 13.0.88", 56, "bbbb"), group=2),
        BisectedCandidate("ptxas 14", "", 3, "refused", log="line 1\nline 2"),
    ]
    result = Bisection(
        FORMAT, "0", "", "x", "ptxas=12..13", "slower", found, [], 0, ended="executes PTX alone"
    )
    text = render_bisection(result, Screen(200, False))
    assert text.startswith("nothing was searched: 2 kinds of machine code in 3 candidates")
    assert "same code as ptxas 12.6.85" in text
    assert "    line 2" in text


def test_labels_that_differ_at_their_ends_are_not_cut_there():
    labels = [f"env=REPLAY_EMULATOR_SLOWDOWN=scan:1.0 env=N={n}" for n in range(3)]
    assert short(labels) == ["…0", "…1", "…2"]
    assert short(["ptxas 12.6.85", "ptxas 12.8.61"]) == ["ptxas 12.6.85", "ptxas 12.8.61"]
