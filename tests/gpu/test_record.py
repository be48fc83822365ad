"""What tests/gpu/run.sh writes can be trusted: failures, timeouts and skips all end up in the file."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def module():
    return load("record")


def written(folder):
    return json.loads((folder / "results.json").read_text())


def test_failing_command_fails_its_step_and_keeps_the_end_of_its_output(module, tmp_path):
    record = module.Record(tmp_path, 60)
    with record.step("bad"):
        record.command([sys.executable, "-c", "print('before the end'); raise SystemExit(5)"])
    with record.step("good"):
        assert record.command([sys.executable, "-c", "print('fine')"]) == "fine\n"
    content = written(tmp_path)
    assert record.failed
    assert content["counts"] == {"passed": 1, "failed": 1, "skipped": 0}
    bad, good = content["steps"]
    assert "status 5" in bad["reason"]
    assert "before the end" in bad["tail"]
    assert good["tail"] == ""


def test_command_that_hangs_is_killed_with_its_children(module, tmp_path):
    record = module.Record(tmp_path, 60)
    started = time.monotonic()
    with record.step("hang"):
        # The pipe stays open as long as the grandchild lives, so this returns early only if that was killed too.
        record.command(["sh", "-c", "sleep 50 & sleep 50"], timeout_s=1)
    assert time.monotonic() - started < 20
    assert "ran longer" in written(tmp_path)["steps"][0]["reason"]


def test_missing_program_fails_its_step(module, tmp_path):
    record = module.Record(tmp_path, 60)
    with record.step("missing"):
        record.command([str(tmp_path / "nothing")])
    assert record.failed


def test_defect_in_a_step_is_a_failure_not_a_crash(module, tmp_path):
    record = module.Record(tmp_path, 60)
    with record.step("defect"):
        raise KeyError("nothing")
    assert written(tmp_path)["steps"][0]["outcome"] == "failed"


def test_steps_after_the_time_limit_are_skipped_with_that_reason(module, tmp_path):
    record = module.Record(tmp_path, 0)
    with record.step("late"):
        record.command(["touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists()
    step = written(tmp_path)["steps"][0]
    assert step["outcome"] == "skipped"
    assert "time" in step["reason"]


def test_run_sh_writes_its_file_on_this_machine(tmp_path):
    done = subprocess.run(
        [
            "env",
            f"OUT={tmp_path}",
            f"PYTHON={sys.executable}",
            str(HERE / "run.sh"),
            "--only",
            "environment,driver,addresses",
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    content = written(tmp_path)
    assert content["schema"] == "replay-gpu-check/1"
    assert [step["name"] for step in content["steps"]] == ["environment", "driver", "addresses"]
    assert done.returncode == int(any(step["outcome"] == "failed" for step in content["steps"]))


def test_page_has_a_row_for_every_kernel_and_says_what_failed(tmp_path):
    page = load("page").page
    cold = {"median_us": 51.0, "held": True, "held_reason": "", "restored_bytes": 1 << 30, "restore_ns": 5e5}
    known = {
        "application": {"cold_us": 50.0, "hot_us": 40.0},
        "cold": cold,
        "hot": {"median_us": 40.1},
        "verdict": "match",
    }

    def step(title, outcome="passed", reason="", **facts):
        return {"name": title, "outcome": outcome, "reason": reason, "facts": facts}

    steps = [
        step("driver", name="NVIDIA H200", driver_version=13000),
        step("fidelity add", **known),
        step("fidelity lost", "failed", "not captured: it ended", verdict="?"),
        step("claim GT-PEER", holds=True, answers={"without": 700}, cpu_driver={"without": 700}),
        step("claim GT-PAST-END", "failed", "the claim does not hold here", holds=False, answers=0),
        step("held stream", quartiles_us={"not held": [1.0, 2.0, 3.0]}),
    ]
    text = page([{"started_utc": "2026-12-01T00:00:00Z", "steps": steps}])
    assert text.startswith("# 2026-12-01, NVIDIA H200\n")
    assert "| `add` | 50.00 | 51.00 | +2.00 % | 40.00 | 40.10 | +0.25 % | yes | match |" in text
    assert "2 of 2 figures are within 2 %" in text
    assert "| lost | no figure |" in text
    assert "| GT-PEER | yes | yes |\n| GT-PAST-END | no |  |" in text
    assert "| `add` | 1024 MiB | 500.0 | 2147 |" in text
    assert "- failed: fidelity lost: not captured: it ended" in text
