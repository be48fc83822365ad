"""Reading what the CPU driver counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.drivers import Driver
from replay.engine.measuring.counters import SCHEMA, read_counters
from replay.errors import EngineError
from replay.run import parent


def line(kernel: str, ok: bool = True, **counters: int) -> str:
    return json.dumps({"schema": SCHEMA, "kernel": kernel, "ok": ok, "modelled_ns": 10, "counters": counters})


def test_counters_are_summed_by_kernel_and_failed_launches_count_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(
        "\n".join([line("a", x=1), line("b", x=2, y=3), line("a", x=4), line("c", ok=False)]) + "\n"
    )
    window = read_counters(file, 1)
    assert [(item.kernel, item.launches, item.counters) for item in window.kernels] == [
        ("a", 2, {"x": 5}),
        ("b", 1, {"x": 2, "y": 3}),
    ]
    assert (window.total.launches, window.total.modelled_ns, window.total.counters) == (
        3,
        30,
        {"x": 7, "y": 3},
    )
    assert window.failed == 1


def test_counters_of_a_window_replayed_twice_are_those_of_the_first_time(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("\n".join([line("a", x=1), line("a", x=9)]) + "\n")
    assert read_counters(file, 2).total.counters == {"x": 1}


def test_counters_in_an_unknown_schema_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(line("a").replace(SCHEMA, "replay.emulator.counters/2"))
    with pytest.raises(EngineError, match="counters/2"):
        read_counters(file, 1)


def test_counters_of_a_real_driver_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = Driver("system", tmp_path / "libcuda.so.1", None, False, "")
    monkeypatch.setattr(parent, "find_driver", lambda choice: driver)
    with pytest.raises(EngineError, match="only the built-in CPU driver"):
        parent.run_snapshot(tmp_path / "x.rsnap", parent.RunOptions(counters=True))
