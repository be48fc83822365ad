"""The nightly gate: what it decides, who is told, and what it writes for other programs."""

from __future__ import annotations

import dataclasses
import datetime
import html
import itertools
import random
import xml.etree.ElementTree as xml

import pytest

from replay.check.config import Config, read_config
from replay.check.gate import Baseline, CheckState, check, corpus_of, read_baseline
from replay.compare.sides import SnapshotWindow
from replay.errors import FormatError, UsageError, WorkerError
from replay.history.store import append
from replay.report.check import github_annotations, github_summary, headline, junit, render_check
from replay.results.comparison import ComparedKernel
from replay.results.run.origin import SnapshotFacts
from replay.results.run.verification import Verification
from replay.run.parent import RunOptions
from replay.text import Screen, shown

from ..helpers.result_factory import make_result, modelled, summary

WIDE = Screen(100_000, False)
DAY = datetime.date(2026, 11, 21)


def timed(ns, *, base=None, spread=0, **changes):
    result = base or modelled()
    timing = dataclasses.replace(result.timing, gpu_time_ns=[ns, ns + spread], gpu=summary(float(ns)))
    return dataclasses.replace(result, timing=timing, **changes)


def key_of(result):
    return (", ".join(result.window.kernels), result.snapshot.identity, result.snapshot.window or 0, result.device.name,
            result.timing.source, "")  # fmt: skip


@pytest.fixture
def window(tmp_path):
    path = tmp_path / "corpus" / "a.rsnap"
    path.parent.mkdir()
    path.write_bytes(b"")
    return SnapshotWindow(path, None, ("vector_add",))


def gate(window, answers, *, accepted_ns=1000.0, config=None, state=None, windows=None):
    """Checks one window whose replays give `answers`, the last of them for ever."""
    calls = itertools.chain(answers, itertools.repeat(answers[-1]))

    def replay(chosen, options):
        answer = next(calls)
        if isinstance(answer, Exception):
            raise answer
        return answer

    baseline = Baseline("b", {key_of(modelled()): accepted_ns, key_of(make_result()): accepted_ns})
    return check(window.path.parent, windows or [window], baseline, config or Config(), RunOptions(),
                 state or CheckState(None), replay=replay, today=DAY)  # fmt: skip


def only(result):
    assert len(result.cases) == 1
    return result.cases[0]


WRONG = timed(500, verification=Verification("wrong", 1, 100, 4))
DOUBTFUL = timed(
    1000, verification=Verification("unsure", 1, 100, 4, reason="HOST_WRITES_UNKNOWN 4 bytes at 0x10")
)


@pytest.mark.parametrize(
    ("answers", "verdict", "alert", "replays"),
    [
        ([timed(1000)], "PASS", False, 1),
        ([DOUBTFUL], "UNSURE", True, 3),
        ([timed(1009)], "PASS", False, 1),
        ([timed(1020)], "SLOWER", True, 3),
        ([timed(900)], "FASTER", False, 1),
        ([timed(1020), timed(1000)], "NOISY", False, 2),
        ([timed(1020), timed(1020), timed(1000)], "NOISY", False, 3),
        ([WRONG], "WRONG", True, 3),
        ([WRONG, timed(1000)], "NOISY", False, 2),
        ([WorkerError("died")], "FAILED", True, 3),
        ([WorkerError("died"), timed(1000)], "NOISY", False, 2),
        ([timed(1000, snapshot=SnapshotFacts("y", 1, "cd"))], "NEW", False, 1),
    ],
)
def test_a_finding_is_an_alert_when_independent_replays_agree(window, answers, verdict, alert, replays):
    case = only(gate(window, answers))
    assert (case.verdict, case.alert, case.replays) == (verdict, alert, replays)


def test_one_measured_time_of_another_day_is_sure_of_large_changes_alone(window):
    assert only(gate(window, [timed(1040, base=make_result(), spread=3)])).verdict == "PASS"
    case = only(gate(window, [timed(1060, base=make_result(), spread=3)]))
    assert (case.verdict, case.alert) == ("UNSURE", False)
    assert "six different times" in case.reason
    case = only(gate(window, [timed(1260, base=make_result(), spread=3)]))
    assert (case.verdict, case.alert) == ("SLOWER", True)


def history_of(folder, times_ns, base=None):
    """A result a day."""
    for day, ns in enumerate(times_ns):
        append(
            folder,
            timed(
                ns, base=base or make_result(), spread=3, created_utc=f"2026-01-{day + 1:02}T00:00:00+00:00"
            ),
        )


def test_a_history_says_which_change_the_day_alone_brings(tmp_path, window):
    """0.3 % between days: 3 % is a change; 3 % between days: 6 % is none."""
    generator = random.Random(3)
    for spread, now, verdict in ((0.003, 1030, "SLOWER"), (0.03, 1060, "PASS")):
        folder = tmp_path / str(spread)
        history_of(folder, [round(1000 * (1 + generator.gauss(0, spread))) for _ in range(12)])
        found = read_baseline(folder)
        found = dataclasses.replace(found, times_ns=dict.fromkeys(found.times_ns, 1000.0))
        today = timed(now, base=make_result(), spread=3)
        checked = check(
            window.path.parent, [window], found, Config(), RunOptions(), CheckState(None),
            replay=lambda *_, today=today: today, today=DAY,
        )  # fmt: skip
        case = only(checked)
        assert case.verdict == verdict
        if verdict == "SLOWER":
            assert "12 different times" in case.reason


def config_of(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    return read_config(tmp_path / "c.toml")


def test_owners_limits_and_quarantine(tmp_path, window):
    owned = config_of(
        tmp_path,
        """
        [[owner]]
        kernel = "^vector"
        team = "vectors"
        link = "https://example.org"
        minimum_effect = 0.5
        [[quarantine]]
        kernel = "add"
        reason = "known"
        until = 2026-11-21
        """,
    )
    assert only(gate(window, [timed(1400)], config=owned)).verdict == "PASS"
    case = only(gate(window, [timed(1600)], config=owned))
    assert (case.verdict, case.alert, case.team, case.quarantined) == ("SLOWER", False, "vectors", "known")
    ended = config_of(tmp_path, '[[quarantine]]\nkernel = "add"\nuntil = 2026-11-20')
    assert only(gate(window, [timed(1600)], config=ended)).alert


def test_an_owner_is_chosen_by_where_a_kernel_comes_from(tmp_path, window):
    owned = config_of(
        tmp_path,
        """
        [[owner]]
        kernel = "^other"
        source = "attention"
        team = "others"
        [[owner]]
        source = "models/.*attention\\\\.py:120"
        team = "attention"
        minimum_effect = 0.5
        [[owner]]
        kernel = "^vector"
        team = "vectors"
        """,
    )
    made = ComparedKernel(
        "vector_add", launched_from="models/a/attention.py:120 (forward), called by main.py:3"
    )
    known = dataclasses.replace(window, made_of=(made,))
    assert only(gate(known, [timed(1600)], config=owned)).team == "attention"
    assert only(gate(known, [timed(1400)], config=owned)).verdict == "PASS"  # by the limit of its owner
    defined = dataclasses.replace(
        window, made_of=(ComparedKernel("k", defined_at="models/attention.py:120"),)
    )
    assert only(gate(defined, [timed(1600)], config=owned)).team == "attention"
    # Where nothing is known of it, no source fits.
    assert only(gate(window, [timed(1600)], config=owned)).team == "vectors"


def test_kernel_and_source_of_an_owner_fit_the_same_kernel(tmp_path, window):
    owned = config_of(
        tmp_path,
        """
        [[owner]]
        kernel = "^norm"
        source = "attention"
        team = "attention"
        [[owner]]
        kernel = "^norm"
        source = "norms"
        team = "norms"
        """,
    )
    made = (
        ComparedKernel("attend", launched_from="attention.py:120"),
        ComparedKernel("norm", defined_at="norms.py:3"),
    )
    both = dataclasses.replace(window, kernels=("attend", "norm"), made_of=made)
    assert only(gate(both, [timed(1600)], config=owned)).team == "norms"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "no TOML"),
        ("unknown = 1", "means nothing"),
        ("[[owner]]\nteam = 'x'", "has no kernel"),
        ("[[owner]]\nkernel = '('", "no regular expression"),
        ("[[owner]]\nkernel = 'x'\nlink = 'javascript:alert(1)'", "expected https"),
        ("[limits]\nminimum_effect = 5", "expected a fraction"),
        ("[[quarantine]]\nkernel = 'x'\nuntil = 'soon'", "is no date"),
        ("[[owner]]\nsource = '('", "no regular expression"),
        ("[[owner]]\nsource = 3", "no regular expression"),
        ("owner = 3", "c.toml"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(tmp_path, text, says):
    with pytest.raises(UsageError, match=says):
        config_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[limits]\n\nminimum_effect = 5", 3),
        ("# x\n[[owner]]\nkernel = 'a'\n\n[[owner]]\nteam = 't'\nkernel = '('", 7),
        ("[[owner]]\nkernel = 'a'\n[[owner]]  # of what\nteam = 'x'", 3),
        ("[[quarantine]]\nkernel = 'a'\n[[quarantine]]\nkernel = 'b'\nuntil = 'soon'", 5),
        ("\nunknown = 1", 2),
        ("[limits]\nminimum_effect = 0.1\n[unknown]\nx = 1", 3),
        ("[[owner]]\nkernel = 'x'\ntaem = 'typo'", 3),
        ("\nowner = 3", 2),
        ("[[owner]]\nkernel = 'a'\n[owner.x]\nkernel = 1\n[[owner]]\nkernel = 3", 3),
    ],
)
def test_a_mistake_is_named_by_its_line(tmp_path, text, line):
    with pytest.raises(UsageError) as raised:
        config_of(tmp_path, text)
    assert raised.value.where.endswith(f"c.toml:{line}")


def test_a_mistake_of_the_language_is_named_by_its_line(tmp_path):
    with pytest.raises(UsageError, match="line 2"):
        config_of(tmp_path, "[limits]\nminimum_effect = =")


def test_a_stopped_check_goes_on(tmp_path, window):
    other = dataclasses.replace(window, window=2)
    state = tmp_path / "state.json"
    calls = []

    def count(answer):
        class Counting:
            def __iter__(self):
                return self

            def __next__(self):
                calls.append(1)
                if len(calls) == 2:
                    raise KeyboardInterrupt
                return answer

        return Counting()

    def run(windows, answers):
        baseline = Baseline("b", {key_of(modelled()): 1000.0})
        return check(window.path.parent, windows, baseline, Config(), RunOptions(), CheckState(state),
                     replay=lambda *_: next(answers), today=DAY)  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        run([window, other], count(timed(1000)))
    result = run([window, other], iter([timed(1020)] * 3))
    assert [case.verdict for case in result.cases] == ["PASS", "SLOWER"]
    window.path.write_bytes(b"changed since")
    assert [case.verdict for case in run([window], iter([timed(1020)] * 3)).cases] == ["SLOWER"]


def test_the_state_of_another_check_is_refused(tmp_path, window):
    state = tmp_path / "state.json"
    kept = CheckState(state, {"baseline": "monday", "variant": ""})
    kept.keep("a", only(gate(window, [timed(1000)])))
    assert list(CheckState(state, {"baseline": "monday", "variant": ""}).done) == ["a"]
    with pytest.raises(UsageError, match="another check .baseline."):
        CheckState(state, {"baseline": "tuesday", "variant": ""})


@pytest.mark.parametrize("text", ["", "[]", '{"format": "replay.check.state/1", "done": {"x": 1}}'])
def test_what_is_no_state_is_refused(tmp_path, text):
    (tmp_path / "s").write_text(text)
    with pytest.raises(FormatError, match="no state"):
        CheckState(tmp_path / "s")


def test_a_baseline_is_what_was_chosen_or_the_newest_right_result(tmp_path):
    for day, (ns, verdict) in enumerate(((1000, "match"), (1100, "match"), (5, "wrong"))):
        checked = dataclasses.replace(make_result().verification, verdict=verdict)
        append(tmp_path, timed(ns, created_utc=f"2026-01-0{day + 1}T00:00:00+00:00", verification=checked))
    assert list(read_baseline(tmp_path).times_ns.values()) == [1100]
    with pytest.raises(UsageError):
        read_baseline(tmp_path / "nowhere")


def test_an_empty_corpus_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no snapshots"):
        corpus_of(tmp_path)


HOSTILE = "bad\x00\x1b[31m<b>\n::error::x|`code`"


def test_other_programs_get_what_they_can_read(window):
    hostile = dataclasses.replace(window, kernels=(HOSTILE,))
    result = gate(hostile, [WorkerError(HOSTILE)])
    suite = xml.fromstring(junit(result))
    assert suite.get("errors") == "1"
    assert suite.find("testcase/error") is not None
    annotations = list(github_annotations(result))
    assert len(annotations) == 1
    assert "\n" not in annotations[0]
    assert annotations[0].startswith("::error title=FAILED")
    assert "\n::error" not in annotations[0]
    text = github_summary(result)
    assert "<b>" not in text
    assert html.unescape(text.splitlines()[4].split(" | ")[1]) == shown(HOSTILE)
    assert text.count("\n|") == 3
    assert "\x1b" not in render_check(result, WIDE) + text
    assert headline(result) == "1 alert in 1 case: 1 FAILED"


def test_alerts_are_failures_and_the_quarantined_are_skipped(tmp_path, window):
    suite = xml.fromstring(junit(gate(window, [timed(1020)])))
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    quarantined = config_of(tmp_path, '[[quarantine]]\nkernel = "."')
    suite = xml.fromstring(junit(gate(window, [timed(1020)], config=quarantined)))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert "quarantined (quarantined)" in suite.find("testcase/skipped").get("message")


def test_a_reason_that_the_table_cannot_hold_is_below_it_in_full(window):
    result = gate(window, [WorkerError("the worker was killed while it was " + "busy " * 30)])
    narrow = render_check(result, Screen(80, False))
    assert max(map(len, narrow.splitlines())) <= 80
    assert " ".join(narrow.split()).count("busy " * 29 + "busy") == 1
    assert "team" not in narrow


def test_a_budget_ends_the_check_and_the_next_one_goes_on(tmp_path, window):
    """One snapshot a second, and two seconds."""
    windows = []
    for name in "abcd":
        path = window.path.with_name(f"{name}.rsnap")
        path.write_bytes(b"")
        windows.append(SnapshotWindow(path, None, ("vector_add",)))
    clock, replayed = [0.0], []

    def replay(chosen, options):
        clock[0] += 1
        replayed.append(chosen.path.stem)
        return timed(1000)

    def run():
        state = CheckState(tmp_path / "state.json")
        return check(window.path.parent, windows, Baseline("b", {key_of(modelled()): 1000.0}), Config(), RunOptions(),
                     state, replay=replay, today=DAY, budget_s=2, now_s=lambda: clock[0])  # fmt: skip

    first = run()
    assert [case.verdict for case in first.cases] == ["PASS", "PASS", "UNSURE", "UNSURE"]
    assert [case.alert for case in first.cases] == [False, False, True, True]
    assert "budget of 2 s was over" in first.cases[2].reason
    second = run()
    assert [case.verdict for case in second.cases] == ["PASS"] * 4
    assert replayed == list("abcd")
