"""Nights without snapshots, and devices that say what they are told to."""

from __future__ import annotations

import dataclasses

from replay.compare.rounds import Observation
from replay.fleet.laboratory import Device, Found
from replay.fleet.night import Who, begin_night
from replay.fleet.planning import unit_id
from replay.fleet.worker import Worker
from replay.results.comparison import ComparedRound, ComparedRow, ComparedSide
from replay.results.fleet import PLAN_FORMAT, FleetPlan, FleetUnit

MATRIX = """
[limits]
attempts = 3
[[kind]]
name = "cpu"
driver = "emulator"
[[compare]]
name = "driver"
b = "env=X=1"
[[owner]]
kernel = "gemm"
team = "blas"
"""


def unit(number, kernel="k"):
    made = FleetUnit(
        "", f"{number}.rsnap", f"{number:032x}", None, [f"{kernel}{number}"], "cpu", "driver", "", "env=X=1"
    )
    return dataclasses.replace(made, id=unit_id(made))


def night_of(folder, units=12, confirm=True, matrix=MATRIX, kernel="k", canary="", owner=-1):
    file = folder / "matrix.toml"
    file.write_text(matrix)
    plan = FleetPlan(PLAN_FORMAT, "1", "2026-11-27T20:00:00+00:00", str(folder), confirm,
                     [dataclasses.replace(unit(number, kernel), owner=owner) for number in range(units)],
                     canary)  # fmt: skip
    return begin_night(folder / "results" / "night", plan, file)


def row_of(asked, ratio=1.0, verdict="SAME", rounds=8):
    sides = [ComparedSide(asked.snapshot, None, text, time_ns=1000.0 * times) for text, times in
             ((asked.a, 1.0), (asked.b, ratio))]  # fmt: skip
    taken = [ComparedRound(1000.0, 1000.0 * ratio * (1 + 0.001 * (n % 3 - 1)), False) for n in range(rounds)]
    return ComparedRow(
        asked.kernel, *sides, verdict, ratio=ratio, low=ratio * 0.999, high=ratio * 1.001, rounds=taken
    )


class Laboratory:
    """What a device says: verdicts by kernel, errors that are raised, canaries."""

    def __init__(self, night, answers=None, canaries=(1000.0,)):
        self.kind = night.matrix.kind("cpu")
        self.answers, self.canaries = answers or {}, list(canaries)
        self.measured = []

    def measure(self, asked, effect):
        self.measured.append(asked.id)
        answer = self.answers.get(asked.kernel, (1.0, "SAME"))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, BaseException):
            raise answer
        return Found(row_of(asked, *answer), {}, [])

    def canary(self):
        return Observation(self.canaries.pop(0) if len(self.canaries) > 1 else self.canaries[0])


def worker(night, claims, name="cpu-0", node="n1", stopping=lambda: False, **of):
    laboratory = Laboratory(night, **of)
    made = Worker(night, claims, laboratory, Device(Who(node, name)), stopping)
    return made, laboratory


def run(night, name="cpu-0", node="n1", **of):
    with night.claims() as claims:
        made, laboratory = worker(night, claims, name, node, **of)
        return made.run(), laboratory
