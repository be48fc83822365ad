"""Claims that tests/gpu/claims.py asks the driver about: all answer, whatever their programs come to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from claims import CLAIMS  # noqa: E402
from questions import driver  # noqa: E402

# What the CPU driver checks more strictly than a device, keeps in memory of the process, lacks, or does not time.
NOT_OF_THE_CPU_DRIVER = {"GT-PAST-END", "GT-HOST-WRITES", "GT-PLANE-FORMATS", "GT-SHARED-PASSES"}
FACTS = {"GT-CAPTURE-UNSAFE"}


def test_the_page_names_the_step_for_what_it_asks() -> None:
    page = (HERE.parents[1] / "docs" / "ground-truth.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (GT-\S+)\n", page, flags=re.M)
    asked = {name for name, text in zip(parts[1::2], parts[2::2], strict=True) if "`claims`" in text}
    assert asked == CLAIMS.keys()


@pytest.mark.parametrize("devices", ["2", "0"])
def test_each_claim_answers_on_the_cpu_driver(emulator_dir: Path, devices: str) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(emulator_dir),
        "REPLAY_EMULATOR_DEVICES": devices,
        "REPLAY_EMULATOR_QUIET": "1",
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "claims.py")], env=environment, capture_output=True, text=True
    )
    answers = {answer["claim"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers.keys() == CLAIMS.keys()
    if devices == "0":
        assert not any(answer["holds"] for answer in answers.values())
        assert "cuInit gives 100" in json.dumps(answers)
        return
    holding = {name for name, answer in answers.items() if answer["holds"]}
    assert holding == CLAIMS.keys() - NOT_OF_THE_CPU_DRIVER - FACTS
    assert all(isinstance(answer, dict) for answer in answers["GT-CAPTURE-UNSAFE"]["answers"].values())


def test_a_question_that_crashes_or_hangs_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WAIT_S", 1)
    assert driver.apart(lambda: os.kill(os.getpid(), signal.SIGSEGV)) == "signal 11"
    assert driver.apart(time.sleep, 60) == "signal 14"
    assert driver.apart(lambda: 1 // 0).startswith("ZeroDivisionError")
    assert driver.apart(lambda: {"a": [1, None]}) == {"a": [1, None]}
