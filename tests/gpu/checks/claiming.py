"""A step for each claim of docs/ground-truth.md that one short program can settle (claims.py)."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

from claims import CLAIMS
from machine import HERE, Machine
from record import StepFailed, StepSkipped


def _asked(machine: Machine, name: str, environment: dict[str, str]) -> dict[str, Any]:
    text = machine.record.command(
        [sys.executable, str(HERE / "claims.py"), name], environment=environment, timeout_s=60
    )
    answer: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return answer


def claim_steps(machine: Machine) -> None:
    """Facts: the answers of this driver, and those of the CPU driver beside them. A step fails where a claim does not
    hold, or where the CPU driver should answer alike and does not."""

    def one(name: str) -> None:
        with machine.record.step(f"claim {name}") as step:
            if not machine.gpu:
                raise StepSkipped(machine.why_no_gpu)
            step.facts.update(_asked(machine, name, machine.environment))
            if machine.emulated:
                return  # which was made to be as claimed
            if machine.built:
                emulated = {
                    **machine.environment,
                    "LD_LIBRARY_PATH": str(machine.stage / "replay" / "_native" / "emulator"),
                    "REPLAY_EMULATOR_QUIET": "1",
                }
                step.facts["cpu_driver"] = _asked(machine, name, emulated)["answers"]
            if step.facts.get("compare") and step.facts["answers"] != step.facts.get("cpu_driver"):
                raise StepFailed("the CPU driver answers otherwise")
            if step.facts["holds"] is False:
                raise StepFailed("the claim does not hold here")
            if step.facts["holds"] is None and not step.facts.get("compare"):
                raise StepSkipped("the answers do not settle it")

    machine.together(partial(one, name) for name in CLAIMS)
