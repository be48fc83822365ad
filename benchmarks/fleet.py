#!/usr/bin/env python3
"""A night of a simulated fleet: devices that die, drift, and a corpus with planted slow-downs.

usage: python benchmarks/fleet.py [--units N] [--devices N] [--folder DIR]

What is simulated is time and what a device measures. All else is the real thing: the plan, the folder with its locks,
who takes which unit, canaries, rounds, the rule of `compare`, and the verdict of the night. 0.7 % of the units have a
slow-down of 2 % planted; a round has 0.9 % of noise. Each device dies 5 times in 100 hours, in the middle of what it
does, and is back after ten minutes; one in forty becomes 3 % slower as a whole at some time, which its canary shows.
--folder: keeps the results, for `replay dashboard`.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import itertools
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from replay.compare.rounds import Observation, RoundLimits, take_rounds
from replay.compare.rows import compared_rounds, judged
from replay.fleet.canaries import Canaries
from replay.fleet.night import Night, Taken, Who, begin_night
from replay.fleet.planning import unit_id
from replay.fleet.sharing.claims import Claims
from replay.fleet.verdicts import verdicts
from replay.fleet.worker import Taking
from replay.results.comparison import ComparedRow, ComparedSide
from replay.results.fleet import PLAN_FORMAT, UNIT_FORMAT, FleetDevice, FleetMeasured, FleetPlan, FleetUnit
from replay.text import now_utc

UNIT_S, SPREAD = 60.0, 0.2
DEATHS_AN_HOUR, BACK_AFTER_S = 0.05, 600.0
ASKS_EVERY_S = 5.0
PLANTED_SHARE, STEP = 0.007, 1.02
ROUND_NOISE, DAY_NOISE, DRIFT, DRIFTING = 0.009, 0.003, 1.03, 40
HISTORY_DAYS = 20
KINDS = ("h100", "h200")
NAMES, KERNELS_OF_A_NAME = ("gemm", "scan", "softmax", "copy"), 500
MATRIX = """
[canary]
snapshot = "canary.rsnap"
[[kind]]
name = "h100"
[[kind]]
name = "h200"
[[compare]]
name = "compiler"
b = "ptxas=13.0"
[[owner]]
kernel = "^gemm"
team = "blas"
link = "https://example.org/blas"
[[owner]]
kernel = "^scan"
team = "sums"
"""


@dataclass
class SimulatedDevice:
    """drifts_s: when it becomes slower, None never. dies_s: when it dies next."""

    who: Who
    kind: str
    claims: Claims
    taking: Taking
    drifts_s: float | None
    dies_s: float
    level: float
    canaries: Canaries | None = None
    busy_s: float = 0.0


@dataclass
class Simulation:
    """finished: unit -> how often somebody finished it for the first time. excluded: device -> when."""

    night: Night
    lots: random.Random
    planted: frozenset[str]
    devices: list[SimulatedDevice] = field(default_factory=list)
    finished: Counter[str] = field(default_factory=Counter)
    deaths: int = 0
    excluded: dict[Who, float] = field(default_factory=dict)
    end_s: float = 0.0

    @property
    def lost_s(self) -> float:
        """Time of devices after they were excluded."""
        return sum(self.end_s - at_s for at_s in self.excluded.values())

    def run(self) -> None:
        """Until every device has nothing left to do."""
        order = itertools.count()
        events: list[tuple[float, int, SimulatedDevice, str, Taken | None]] = [
            (self.lots.random(), next(order), device, "begin", None) for device in self.devices
        ]
        heapq.heapify(events)
        while events:
            now_s, _, device, what, taken = heapq.heappop(events)
            after: tuple[float, str, Taken | None] | None = None
            if what == "end" and taken is not None:
                if self._end(device, taken, now_s):
                    after = now_s, "begin", None
                self.end_s = max(self.end_s, now_s)
            elif what == "die":
                self.deaths += 1
                device.claims.close()
                device.claims = self.night.claims()
                device.taking = Taking(self.night, device.claims, device.kind, device.who)
                device.dies_s = now_s + BACK_AFTER_S + self._life_s()
                after = now_s + BACK_AFTER_S, "begin", None
            else:
                after = self._begin(device, now_s)
            if after is not None:
                heapq.heappush(events, (after[0], next(order), device, after[1], after[2]))

    def _begin(self, device: SimulatedDevice, now_s: float) -> tuple[float, str, Taken | None] | None:
        taken = device.taking.next()
        if taken is None:
            return None if device.taking.is_over() else (now_s + ASKS_EVERY_S, "begin", None)
        lasts_s = UNIT_S * self.lots.uniform(1 - SPREAD, 1 + SPREAD)
        if device.dies_s < now_s + lasts_s:
            return max(now_s, device.dies_s), "die", taken
        device.busy_s += lasts_s
        return now_s + lasts_s, "end", taken

    def _end(self, device: SimulatedDevice, taken: Taken, now_s: float) -> bool:
        """Whether the device goes on."""
        slow = DRIFT if device.drifts_s is not None and now_s > device.drifts_s else 1.0
        device.level = slow
        assert device.canaries is not None
        canary = device.canaries.look()
        if canary.reason:
            self.night.give_back(taken)
            device.claims.let_go(taken.number)
            state = FleetDevice(device.who.node, device.who.device, device.kind, state="excluded")
            self.night.exclude(device.who, replace(state, reason=canary.reason))
            self.excluded[device.who] = now_s
            return False
        row = self._row(taken.unit, slow)
        found = FleetMeasured(UNIT_FORMAT, "0", now_utc(), taken.unit.id, device.who.node, device.who.device, row,
                              canary.ratio, canary.limit, [], UNIT_S)  # fmt: skip
        self.night.finish(taken, found, {})
        device.claims.let_go(taken.number)
        self.finished[taken.unit.id] += not taken.again
        return True

    def _row(self, unit: FleetUnit, slow: float) -> ComparedRow:
        step = STEP if unit.id in self.planted else 1.0

        def side(times: float) -> Observation:
            return Observation(100_000.0 * slow * times * (1 + self.lots.gauss(0, ROUND_NOISE / 2**0.5)))

        taken = take_rounds(
            lambda: side(1.0), lambda: side(step), RoundLimits(), toss=lambda: self.lots.random() < 0.5
        )
        a, b = (
            ComparedSide(unit.snapshot, None, text, time_ns=100_000.0 * times, device=unit.kind.upper())
            for text, times in ((unit.a, slow), (unit.b, slow * step))
        )
        return ComparedRow(unit.kernel, a, b, taken.judgement.verdict.value, rounds=compared_rounds(taken.rounds),
                           **judged(taken.judgement))  # fmt: skip

    def _life_s(self) -> float:
        return self.lots.expovariate(DEATHS_AN_HOUR / 3600)


def simulation(folder: Path, units: int, devices: int, seed: int) -> Simulation:
    """A plan and its devices, with the canaries of earlier nights."""
    lots = random.Random(seed)
    (folder / "night.toml").write_text(MATRIX)
    asked = []
    for number in range(units):
        kernel = f"{NAMES[number // 2 % len(NAMES)]}_{number // 8 % KERNELS_OF_A_NAME}"
        kind = KINDS[number % len(KINDS)]
        unit = FleetUnit("", f"{number // 2}.rsnap", f"{number // 2:032x}", None, [kernel], kind, "compiler", "",
                         "ptxas=13.0")  # fmt: skip
        asked.append(replace(unit, id=unit_id(unit)))
    plan = FleetPlan(PLAN_FORMAT, "0", now_utc(), str(folder), True, asked, "canary.rsnap")
    night = begin_night(folder / "results" / "tonight", plan, folder / "night.toml")
    planted = frozenset(unit.id for unit in lots.sample(asked, int(PLANTED_SHARE * units)))
    found = Simulation(night, lots, planted)
    ideal_s = units * UNIT_S / devices
    for number in range(devices):
        who, kind = Who(f"node{number // 8:02}", f"gpu{number % 8}"), KINDS[number % len(KINDS)]
        _write_history(folder / "results", who, lots)
        night.register(who, FleetDevice(who.node, who.device, kind, kind.upper()))
        claims = night.claims()
        drifts_s = lots.uniform(0, ideal_s / 2) if number % DRIFTING == 0 else None
        device = SimulatedDevice(
            who, kind, claims, Taking(night, claims, kind, who), drifts_s, found._life_s(), 1.0
        )
        device.canaries = Canaries(night.folder.parent, night.folder, who, "c", _observer(device, lots))
        found.devices.append(device)
    return found


def _observer(device: SimulatedDevice, lots: random.Random):  # type: ignore[no-untyped-def]
    return lambda: Observation(50_000.0 * device.level * (1 + lots.gauss(0, DAY_NOISE)))


def _write_history(results: Path, who: Who, lots: random.Random) -> None:
    folder = results / "earlier" / "canaries"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"canary": "c", "created_utc": f"2026-10-{day + 1:02}T02:00:00+00:00",
         "median_ns": 50_000.0 * (1 + lots.gauss(0, DAY_NOISE))}
        for day in range(HISTORY_DAYS)
    ]  # fmt: skip
    (folder / f"{who.file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def report(found: Simulation, devices: int) -> None:
    """Prints what became of the night."""
    begin_s = time.perf_counter()
    told = verdicts(found.night)
    judged_s = time.perf_counter() - begin_s
    units = len(found.night.plan.units)
    reported = {case.unit for case in told.cases if case.verdict in ("SLOWER", "FASTER")}
    right = reported & found.planted
    drifted = {device.who for device in found.devices if device.drifts_s is not None}
    confirmed = sum(bool(case.confirmed_by) for case in told.cases)
    busy_s = sum(device.busy_s for device in found.devices)
    print(f"units {units:,}, devices {devices}, deaths {found.deaths}, hours {found.end_s / 3600:.2f}")
    print(f"lost {units - told.done}, done twice {sum(count > 1 for count in found.finished.values())}")
    print(
        f"throughput {busy_s / (devices * found.end_s - found.lost_s):.3f} of ideal, without devices that are excluded"
    )
    print(f"planted {len(found.planted)}, found {len(right)} ({len(right) / max(1, len(found.planted)):.1%})")
    print(
        f"false of those reported {len(reported - found.planted)} of {len(reported)}; confirmed {confirmed}"
    )
    print(f"drifted devices {len(drifted)}, excluded {len(drifted & {*found.excluded})}, "
          f"excluded that did not drift {len({*found.excluded} - drifted)}")  # fmt: skip
    print(
        f"verdict of the night {judged_s:.1f} s; CPU {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} s"
    )


def main(arguments: Sequence[str]) -> None:
    """Simulate one night."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    gc.disable()  # 200 devices in one process have each its list of units, which would be walked again and again
    with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = simulation(folder, asked.units, asked.devices, asked.seed)
        found.run()
        report(found, asked.devices)


if __name__ == "__main__":
    main(sys.argv[1:])
