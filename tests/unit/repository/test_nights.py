"""The verdict on a night of `benchmarks/all.py`: by the rule that `replay` has for results of several days."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
SCATTER = (0.0, 0.4, -0.3, 0.2, -0.5, 0.1, 0.5, -0.2, 0.3, -0.4)  # % of the figure, night by night


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    specification = importlib.util.spec_from_file_location("nightly_benchmarks", BENCHMARKS / "all.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def night(nightly, tmp_path, monkeypatch, capsys):
    """Runs a night in which the only benchmark measures what it is given; its exit status and what it printed."""
    nights, table = tmp_path / "nights.jsonl", tmp_path / "table.txt"
    for number, scatter in enumerate(SCATTER):
        figures = {"x: time, s": 2 + scatter / 50, "x: times as fast": 2 + scatter / 50}
        line = {"created_utc": f"2026-11-{number + 1:02}T03:00:00+00:00", "figures": figures}
        with nights.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def run(seconds: float, ratio: float):
        figures = [
            nightly.Figure("time, s", seconds, 3),
            nightly.Figure("times as fast", ratio, 1, at_most=False),
        ]
        monkeypatch.setattr(nightly, "BENCHMARKS", {"x": ["x.py"]})
        monkeypatch.setattr(nightly, "measure", lambda name, output: figures)
        monkeypatch.setattr(sys, "argv", ["all.py", "--nights", str(nights), "--table", str(table)])
        code = nightly.main()
        assert table.read_text() in capsys.readouterr().out
        return code, table.read_text(), nights.read_text().splitlines()

    return run


def test_a_night_like_those_before_passes_and_is_added(night):
    code, table, nights = night(2.0, 2.0)
    assert code == 0
    assert "SLOWER" not in table
    assert len(nights) == len(SCATTER) + 1
    assert json.loads(nights[-1])["figures"] == {"x: time, s": 2.0, "x: times as fast": 2.0}


def test_a_figure_that_became_worse_fails_the_night(night):
    code, table, _ = night(2.2, 2.0)
    assert code == 1
    assert "SLOWER" in table.splitlines()[1]
    assert "SLOWER" not in table.splitlines()[2]


def test_a_ratio_that_became_smaller_is_worse_where_more_is_better(night):
    code, table, _ = night(2.0, 1.8)
    assert code == 1
    assert "SLOWER" in table.splitlines()[2]


def test_a_figure_that_became_better_passes(night):
    code, table, _ = night(1.8, 2.2)
    assert code == 0
    assert table.count("FASTER") == 2


def test_the_first_nights_say_nothing_yet(nightly):
    assert (
        nightly.verdict(nightly.Figure("x", 2.0, 3), "x", {"x": [("2026-11-01", 1.0)]})
        == nightly.Verdict.UNSURE
    )
