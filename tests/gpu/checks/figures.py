"""Steps whose figures go into docs/measured: fidelity of many kernels, restoring, a held stream, the rate of equal
addresses. `page.py` makes the page of them."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from machine import HERE, Machine, importable, json_of
from record import StepFailed, StepSkipped

CAPTURES_AT_ONCE = 5
SAMPLES = "60"  # of each mode of a replay: seconds, however short the kernel is


def fidelity_steps(machine: Machine) -> None:
    """Kernels between 5 us and 5 ms: what the application's own events say, beside what a replay says. The goal, 2 %
    for kernels over 20 us, is judged on the page; a step fails where there is no figure."""
    for family, needs in (("plain", ()), ("torch", ("torch", "triton"))):
        program = [sys.executable, str(HERE / "programs" / f"kernels_{family}.py")]
        measured: dict[str, Any] = {}
        with machine.record.step(f"kernels in the application: {family}") as step:
            (machine.need_real_gpu if needs else machine.need_gpu)()
            if missing := [name for name in needs if not importable(name)]:
                raise StepSkipped(f"{missing[0]} is not installed")
            measured = step.facts["cases"] = _last_line(machine, [*program, "--measure"], 240)
        cases = [name for name, times in measured.items() if "error" not in times]
        if not cases:
            continue
        problems = dict.fromkeys(cases, "the time was used up")
        with machine.record.step(f"captures: {family}") as step:
            step.facts["problems"] = problems = _capture_all(machine, program, cases)
            if problems:
                raise StepFailed(f"{len(problems)} of {len(cases)} were not captured")
        for name in cases:
            with machine.record.step(f"fidelity {name}") as step:
                if name in problems:
                    raise StepFailed(f"not captured: {problems[name]}")
                step.facts.update(_replay(machine, name))
                step.facts["application"] = measured[name]
                if step.facts["verdict"] != "match":
                    raise StepFailed(f"outputs: {step.facts['verdict']}")


def _last_line(machine: Machine, command: list[str], timeout_s: float) -> Any:
    text = machine.record.command(command, timeout_s=timeout_s, environment=machine.environment)
    return json.loads(text.strip().splitlines()[-1])


def _capture_all(machine: Machine, program: list[str], cases: list[str]) -> dict[str, str]:
    """Several at a time, since most of it is the start of Python. Gives what went wrong, by case."""
    problems: dict[str, str] = {}

    def capture(name: str) -> None:
        application = [*program, "--case", name]
        options = ("--driver", "system", "--profiler-api", "-o", f"kernel_{name}.rsnap")
        try:
            machine.replay("capture", *options, "--", *application, timeout_s=180)
        except (StepFailed, StepSkipped) as problem:
            problems[name] = str(problem)

    with ThreadPoolExecutor(CAPTURES_AT_ONCE) as pool:
        list(pool.map(capture, cases))
    return problems


def _replay(machine: Machine, name: str) -> dict[str, Any]:
    command = ("run", f"kernel_{name}.rsnap", "--driver", "system", "--quick", "--samples", SAMPLES, "--json")
    result = json_of(machine.replay(*command, timeout_s=90, statuses=(0, 1)))
    facts: dict[str, Any] = {
        "verdict": result["verification"]["verdict"],
        "kernels": [kernel["name"] for kernel in result["kernels"]],
        "relocated": result["placement"]["relocated_ranges"],
        "under_capture_ns": result["application"].get("gpu_ns"),
        "notes": result["notes"],
    }
    for mode, key in (("cold", "timing"), ("hot", "hot")):
        timing = result[key]
        if timing and timing["gpu"]:
            facts[mode] = {
                "median_us": timing["gpu"]["median_ns"] / 1000,
                "noise": timing["gpu"]["noise"],
                "held": timing["held"],
                "held_reason": timing["held_reason"],
                "restored_bytes": timing["restored_bytes"],
                "restore_ns": timing["restore_ns"],
                "batch": timing["batch"],
                "sm_clock_mhz": timing["effective_clock_mhz"][-1:] or timing["sm_clock_mhz"][-1:],
                "warnings": [warning["code"] for warning in timing["warnings"]],
            }
    return facts


def hold_step(machine: Machine) -> None:
    """A short kernel between two events: not held, after a wait for a value, after a spinning kernel."""
    with machine.record.step("held stream") as step:
        machine.need_gpu()
        step.facts["quartiles_us"] = _last_line(
            machine, [sys.executable, str(HERE / "programs" / "hold.py")], 60
        )


def rate_step(machine: Machine) -> None:
    """Facts: how often all ranges are at their captured addresses in 200 fresh workers."""
    with machine.record.step("same addresses") as step:
        machine.need_gpu()
        snapshots = sorted(str(path) for path in machine.work.glob("*.rsnap"))[:20]
        if not snapshots:
            raise StepSkipped("no snapshot was made")
        count = 8 if machine.emulated else 200
        command = [sys.executable, str(HERE / "probes" / "starts.py"), "system", str(count), *snapshots]
        step.facts.update(_last_line(machine, command, 240))


def noise_step(machine: Machine) -> None:
    """The same snapshot against itself, round by round."""
    for name in ("plain_vector_1M", "plain_reduce_32M", "cublas_bf16_2048", "triton_softmax_8Kx8K"):
        with machine.record.step(f"noise {name}") as step:
            machine.need_gpu()
            snapshot = f"kernel_{name}.rsnap"
            if not (machine.work / snapshot).exists():
                raise StepSkipped("its snapshot was not made")
            options = ("--quick", "--budget", "12s", "--json")
            output = machine.replay("compare", snapshot, snapshot, *options, timeout_s=90, statuses=(0, 1))
            row = json_of(output)["rows"][0]
            step.facts.update({key: row[key] for key in ("verdict", "reason", "ratio", "low", "high")})
            step.facts["ratios"] = [item["b_ns"] / item["a_ns"] for item in row["rounds"]]
            if row["verdict"] in ("SLOWER", "FASTER", "WRONG"):
                raise StepFailed(f"{row['verdict']} against itself: {row['reason']}")
