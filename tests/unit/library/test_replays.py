"""Replays, comparisons and what they found, as Python sees them; the same as the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import replay
from replay.library.options import run_options, variant_of
from replay.variants.model import make_variant

from ..helpers.command import run
from .increments import SLOW, WRONG


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    path = tmp_path / "slow.ptx"
    path.write_text(SLOW)
    return path


def test_a_replay_says_outputs_and_time(increment_snapshot: Path, emulator: str, tmp_path: Path) -> None:
    with replay.open(increment_snapshot) as snapshot:
        steps: list[str] = []
        result = snapshot.run(driver=emulator, samples=2, progress=steps.append)
    assert result.outputs.match
    assert result.holds
    assert result.modelled
    assert result.time.median_ns == result.data.timing.gpu.median_ns  # type: ignore[union-attr]
    assert result.timing("hot") is not None
    assert any("placing memory" in step for step in steps)
    assert str(result).splitlines()[0].endswith("outputs match")
    result.save(tmp_path / "r.rres")
    assert "replay.run/1" in result.json()
    result.page(tmp_path / "r.html")
    assert "<!doctype html>" in (tmp_path / "r.html").read_text()


def test_the_command_and_the_library_find_the_same(
    increment_snapshot: Path, emulator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", increment_snapshot, "--driver", emulator, "--samples", "2", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    found = json.loads(replay.open(increment_snapshot).run(driver=emulator, samples=2).json())
    for each in (printed, found):  # what no two replays have in common, and how it was asked for
        for name in ("created_utc", "wall_s", "command", "placement", "restore"):
            each.pop(name)
        for name in ("timing", "hot"):
            each[name] = each[name]["gpu_time_ns"]
        each["fidelity"] = None
    assert printed == found


def test_without_a_time_there_is_an_error(increment_snapshot: Path, emulator: str) -> None:
    result = replay.open(increment_snapshot).run(driver=emulator, timing=False)
    assert result.outputs.match
    with pytest.raises(replay.errors.UsageError, match="the replay has no time"):
        _ = result.time


def test_a_swapped_kernel_that_errs_is_seen(increment_snapshot: Path, emulator: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.ptx").write_text(WRONG)
    result = replay.open(increment_snapshot).run(
        swap={"increment": tmp_path / "wrong.ptx"}, driver=emulator, timing=False
    )
    assert not result.outputs.match
    assert result.outputs.verdict == "wrong"
    assert result.outputs.differences[0].differing_bytes == 1


def test_a_comparison_has_verdict_ratio_and_interval(
    increment_snapshot: Path, slow: Path, emulator: str, tmp_path: Path
) -> None:
    snapshot = replay.open(increment_snapshot)
    verdict = snapshot.compare(b={"swap": {"increment": slow}}, driver=emulator, samples=2)
    assert verdict.verdict == "SLOWER"
    assert verdict.ratio is not None
    assert verdict.ratio > 2
    assert verdict.interval is not None
    assert verdict.interval[0] <= verdict.ratio <= verdict.interval[1]
    assert str(verdict).startswith("SLOWER +")
    assert "SLOWER" in verdict._repr_html_()
    verdict.save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["schema"] == "replay.comparison/1"
    same = replay.compare(increment_snapshot, increment_snapshot, driver=emulator, samples=2)
    assert (same.verdict, same.ratio) == ("SAME", 1.0)


def test_a_search_finds_the_first_slower_module(
    increment_snapshot: Path, slow: Path, emulator: str, tmp_path: Path
) -> None:
    fast = tmp_path / "fast.ptx"
    fast.write_text(SLOW.replace("20000", "1"))
    found = replay.open(increment_snapshot).bisect(f"module={fast},{slow}", driver=emulator, quick=True)
    assert found.first_bad == f"swap={slow}"
    assert found.last_good == f"swap={fast}"
    with pytest.raises(replay.errors.EngineError):
        replay.open(increment_snapshot).bisect(f"module={fast},{fast}", driver=emulator, quick=True)


def test_a_gate_and_a_history(increment_snapshot: Path, emulator: str, tmp_path: Path) -> None:
    corpus, results = tmp_path / "corpus", tmp_path / "results"
    corpus.mkdir()
    increment_snapshot.rename(corpus / "x.rsnap")
    for number in range(3):
        results.mkdir(exist_ok=True)
        replay.open(corpus / "x.rsnap").run(driver=emulator, caches="cold").save(results / f"{number}.rres")
    gate = replay.check(corpus, results, driver=emulator)
    assert gate.passed
    assert gate.data.cases[0].kernel == "increment"
    view = replay.history(results)
    assert [item.kernel for item in view.data.series] == ["increment"]
    assert "increment" in str(view)


@pytest.mark.parametrize(
    ("choices", "what"),
    [
        ({"quick": True, "rigorous": True}, "exclude each other"),
        ({"timing": False, "samples": 3}, "takes no samples"),
        ({"profile": True, "shift": True}, "replay once"),
        ({"save_all": True}, "--save-all needs"),
        ({"caches": "warm"}, "'warm' is no choice"),
        ({"speed": 3}, "there is no choice 'speed'"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: dict[str, object], what: str) -> None:
    with pytest.raises(replay.errors.UsageError, match=what):
        run_options(**choices)  # type: ignore[arg-type]


def test_variants_are_the_same_however_they_are_written(slow: Path) -> None:
    wanted = make_variant(
        swap=[f"attn={slow}"], grid=["4,2"], block=["attn=32"], shared=["1024"], jit=["opt-level=2"]
    )
    for given in (
        {
            "swap": {"attn": slow},
            "grid": (4, 2),
            "block": {"attn": 32},
            "shared": 1024,
            "jit": {"opt-level": 2},
        },
        {
            "swap": f"attn={slow}",
            "grid": "4,2",
            "block": ["attn=32"],
            "shared": {"": 1024},
            "jit": "opt-level=2",
        },
        str(wanted),
        wanted,
    ):
        assert variant_of(given) == wanted  # type: ignore[arg-type]
    assert variant_of(None).changes_nothing
    with pytest.raises(replay.errors.UsageError, match="there is no choice 'clock'"):
        variant_of({"clock": 3})  # type: ignore[typeddict-unknown-key]
