"""How often `compare` and `bisect` are right under many kinds of noise, and what `compare` costs.

    python benchmarks/verdicts.py [--comparisons N] [--bisections N] [--quick] [--output FILE.json]
                                  [--snapshot SNAP [--real N] [--minutes M] [--jobs J]]

The first part is pure simulation: 20,000 comparisons under each model of noise_models.py, of equal sides and of sides
that differ by 1, 2 and 3 %; those that the rule was made on and those that were held out. A rate misses its target when
it is above it by more than chance allows (Clopper and Pearson, 1 in 1,000). --quick takes 1,000 each and can tell less.

With --snapshot the command itself is run on the CPU driver as well, N times with equal sides and N times with a side
that is 2 % slower, for at most M minutes: noise is injected into every launch, and a factor into every process
(REPLAY_EMULATOR_NOISE, REPLAY_EMULATOR_PROCESS_NOISE). Its cost is set against the replays that it runs.

Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

import noise_models
from noise_models import HELD_OUT, TUNED, Model, compare_all

from replay.bisect.progress import Progress
from replay.bisect.stages import find_slower
from replay.check.gate import effect_beyond
from replay.compare.rounds import Observation, RoundLimits
from replay.compare.stored import judge_by_spread
from replay.errors import EngineError
from replay.history.changes import change_points
from replay.history.spread import spread_of

ROUND_NOISE = 0.009
LAUNCH_NOISE = 0.002
FALSE_ALARMS_TARGET = 0.01
WRONG_SIGN_TARGET = 0.001  # of sides that differ by the least effect or more
FALSE_SAME_TARGET = 0.01  # of sides that differ by 2 %
EFFECTS = (0.0, 0.01, 0.02, 0.03)
FOUND_TARGET, FOUND_ROUNDS_TARGET = 0.99, 10
BISECT_TARGET, BISECT_ROUNDS_TARGET, BISECT_CANDIDATES, BISECT_STEP = 0.98, 35, 34, 0.03
COST_TARGET = 1.10


def simulate_comparisons(models: list[Model], count: int) -> dict[str, dict[str, float]]:
    """By the name of the model: rates of what must not be and of what should, in the order of `_COLUMNS`."""
    found: dict[str, dict[str, float]] = {}
    for number, model in enumerate(models):
        generator = numpy.random.default_rng([20261121, number])
        equal, *others = (compare_all(model, effect, count, generator) for effect in EFFECTS)
        two = others[EFFECTS.index(0.02) - 1]
        found[model.name] = {
            "false_alarms": equal.shares["SLOWER"] + equal.shares["FASTER"],
            "same": equal.shares["SAME"],
            "wrong_sign": max(item.shares["FASTER"] for item in others),
            "two_percent_same": two.shares["SAME"],
            "two_percent_found": two.shares["SLOWER"],
            "two_percent_rounds": two.rounds,
        }
        row = found[model.name]
        cells = [f"{100 * row[name]:>{width}.{digits}f}" for name, (width, digits) in _COLUMNS.items()]
        print(f"  {model.name[:58]:<58}{''.join(cells)}{row['two_percent_rounds']:>7.1f}", flush=True)
    return found


_COLUMNS = {
    "false_alarms": (8, 2), "wrong_sign": (8, 3), "two_percent_same": (8, 3), "two_percent_found": (8, 1),
    "same": (7, 0),
}  # fmt: skip
_HEADING = f"  {'%':<58}{'alarms':>8}{'sign':>8}{'2: SAME':>8}{'2 found':>8}{'0 SAME':>7}{'rounds':>7}"


class Simulated:
    """Candidates of which all from `first_bad` on are slower. Every third has the machine code of the one before."""

    def __init__(self, model: Model, generator: numpy.random.Generator, first_bad: int, step: float) -> None:
        self._noise = iter(model.noise(generator, 1, 4096)[0])
        self._first_bad = first_bad
        self._step = step
        self.measured: Counter[int] = Counter()

    def identity(self, candidate: int) -> str:
        """Equal for a candidate and the next, where the change does not lie between them."""
        base = candidate - 1 if candidate % 3 == 2 and candidate != self._first_bad else candidate
        return str(base)

    def time(self, candidate: int) -> Observation:
        """One process."""
        self.measured[candidate] += 1
        ratio = 1 + self._step if candidate >= self._first_bad else 1
        return Observation(1e6 * ratio * math.exp(next(self._noise)))


def simulate_bisections(model: Model, count: int, step: float) -> dict[str, float]:
    """Searches over 34 candidates. right, confirmed: of all; wrong: another candidate is named and its pair SLOWER;
    unsure: what was found was not SLOWER when measured again; refused: the ends were not told apart. Then rounds until
    the search was sure, and rounds in all."""
    generator = numpy.random.default_rng(20261121)
    outcomes: Counter[str] = Counter()
    equal_code_measured = 0
    searching, whole = [0], [0]
    for _ in range(count):
        first_bad = int(generator.integers(1, BISECT_CANDIDATES))
        bench = Simulated(model, generator, first_bad, step)
        progress = Progress(BISECT_CANDIDATES)
        try:
            found = find_slower(bench, progress, RoundLimits())
        except EngineError:
            outcomes["refused"] += 1
            continue
        sure = {item.first_bad for item in found.steps if item.verdict == "SLOWER"}
        right = {first_bad} if step else set()
        outcomes["wrong" if sure - right else "right" if sure and len(found.steps) == 1 else "unsure"] += 1
        whole.append(progress.rounds)
        verification = f"{found.steps[0].last_good}-{found.steps[0].first_bad}"
        searching.append(progress.rounds - len(progress.pairs.get(verification, [])))
        equal_code_measured += sum(progress.groups[at] != at for at in bench.measured)
    return {
        **{name: outcomes[name] / count for name in ("right", "wrong", "unsure", "refused")},
        "rounds_until_sure": statistics.fmean(searching[1:] or searching),
        "rounds_in_all": statistics.fmean(whole[1:] or whole),
        "equal_code_measured": equal_code_measured,
    }


DAY_MODELS = [
    *(noise_models.normal(percent) for percent in (0.3, 0.9, 3)), noise_models.student(2, 0.9),
    noise_models.student(3, 2), noise_models.levels((0, 5), (0.5, 0.5)), noise_models.levels((0, 5), (0.85, 0.15)),
    noise_models.levels((0, 10), (0.2, 0.8)), noise_models.any_levels(3), noise_models.spikes(0.1),
]  # fmt: skip
_DAY_COLUMNS = ("2 results", "4 results", "gate 1", "gate 6", "gate 12", "steps 20", "steps 60")


def simulate_days(model: Model, count: int) -> dict[str, float]:
    """False alarms where every day is of one level: `compare` of 2 and 4 results a side with a history of 12 days,
    `check` of three replays against the newest of 1, 6 and 12 days, change points in 20 and 60 results."""
    generator = numpy.random.default_rng(20261121)

    def dated(times: numpy.ndarray) -> list[tuple[str, float]]:
        return [
            (f"2026-{1 + n // 28:02}-{1 + n % 28:02}T03:00:00+00:00", float(t)) for n, t in enumerate(times)
        ]

    alarms: Counter[str] = Counter()
    for _ in range(count):
        for side in (2, 4):
            times = numpy.exp(model.noise(generator, 1, 12 + 2 * side)[0])
            spread = spread_of(dated(times[:12]))
            assert spread is not None
            judged, _ = judge_by_spread(times[12 : 12 + side], times[12 + side :], 0.01, spread, own=False)
            alarms[f"{side} results"] += judged.verdict.value in ("SLOWER", "FASTER")
        for days in (1, 6, 12):
            times = numpy.exp(model.noise(generator, 1, days + 3)[0])
            effect, _ = effect_beyond(spread_of(dated(times[:days])))
            alarms[f"gate {days}"] += bool((times[days:] / times[days - 1] >= 1 + effect).all())
        for results in (20, 60):
            alarms[f"steps {results}"] += bool(
                change_points(numpy.exp(model.noise(generator, 1, results)[0]))
            )
    return {name: alarms[name] / count for name in _DAY_COLUMNS}


BISECT_MODELS = [
    noise_models.normal(0.9), noise_models.normal(3), noise_models.student(2, 0.9),
    noise_models.levels((0, 2), (0.5, 0.5)), noise_models.levels((0, 5), (0.8, 0.2)), noise_models.spikes(0.03),
    noise_models.drift(0.5), noise_models.correlated(0.6, 1.5), noise_models.any_levels(3),
]  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """One real `replay compare`. wall_s: of the whole command, seen from outside; inside_s: from its first replay on;
    replays_s: of the replays alone."""

    verdict: str
    ratio: float | None
    rounds: int
    wall_s: float
    inside_s: float
    replays_s: float


def compare_on_the_cpu_driver(snapshot: Path, factor: float, seed: int) -> Compared:
    """Every process has a factor of its own beside the noise of its launches, as processes on a device have."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "c.json"
        command = [
            sys.executable, "-m", "replay", "compare", str(snapshot), "--driver", "emulator", "--samples", "5",
            "--a", "env=REPLAY_EMULATOR_SLOWDOWN=.*:1", "--b", f"env=REPLAY_EMULATOR_SLOWDOWN=.*:{factor}",
            "-o", str(output), "-q",
        ]  # fmt: skip
        noise = {
            "REPLAY_EMULATOR_NOISE": str(LAUNCH_NOISE),
            "REPLAY_EMULATOR_PROCESS_NOISE": str(ROUND_NOISE / math.sqrt(2)),  # of each side of a round
            "REPLAY_EMULATOR_NOISE_SEED": str(seed),
        }
        begin = time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, **noise, "PYTHONSAFEPATH": "1"}, cwd="/", check=False,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wall_s = time.perf_counter() - begin
        if done.returncode not in (0, 1):
            raise SystemExit(3)
        result = json.loads(output.read_text())
    (row,) = result["rows"]
    return Compared(
        row["verdict"], row["ratio"], len(row["rounds"]), wall_s, result["wall_s"], result["replays_s"]
    )


def real_comparisons(
    snapshot: Path, factor: float, count: int, jobs: int, end_s: float, first_seed: int
) -> list[Compared]:
    """`count` of them, `jobs` at a time; none begins after end_s of the monotonic clock."""

    def one(number: int) -> Compared | None:
        if time.monotonic() > end_s:
            return None
        return compare_on_the_cpu_driver(snapshot, factor, first_seed + number)

    with ThreadPoolExecutor(jobs) as pool:
        return [found for found in pool.map(one, range(count)) if found is not None]


def interval(hits: int, count: int, probability: float = 0.05) -> tuple[float, float]:
    """Clopper and Pearson's: the shares under which so many hits are not too few and not too many."""

    def tail(share: float, low: int, high: int) -> float:
        whole = math.lgamma(count + 1)
        return math.fsum(
            math.exp(
                whole - math.lgamma(n + 1) - math.lgamma(count - n + 1)
                + n * math.log(share) + (count - n) * math.log1p(-share)
            )
            for n in range(low, high + 1)
        )  # fmt: skip

    def where(rising: Callable[[float], float]) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if rising(middle) < probability / 2 else (low, middle)
        return low

    lowest = 0.0 if hits == 0 else where(lambda share: tail(share, hits, count))
    highest = 1.0 if hits == count else 1 - where(lambda share: tail(1 - share, 0, hits))
    return lowest, highest


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=20_000)
    parser.add_argument("--bisections", type=int, default=500)
    parser.add_argument("--days", type=int, default=1000, help="simulated histories of each kind")
    parser.add_argument(
        "--quick", action="store_true", help="1,000 comparisons, 50 bisections, 100 histories"
    )
    parser.add_argument("--snapshot", type=Path)
    parser.add_argument("--real", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the first real comparison of each kind")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.comparisons, options.bisections, options.days = 1000, 50, 100
    missed: list[str] = []
    figures: dict[str, object] = {}

    def check(name: str, value: float, holds: Callable[[float], bool], target: str, shown: str) -> None:
        figures[name] = value
        ok = holds(value)
        print(f"  {name:<42} {shown:>9}  target {target}{'' if ok else '  MISSED'}")
        if not ok:
            missed.append(name)

    def rare(name: str, share: float, count: int, target: float) -> None:
        """Fails where the share is above the target by more than chance allows."""
        low, high = interval(round(share * count), count, 0.002)
        check(name, share, lambda v: low <= target, f"at most {target:.1%}", f"{share:.3%}")
        figures[f"{name}, at most"] = high

    for title, models in (("made on", TUNED), ("held out", HELD_OUT)):
        print(f"compare, {options.comparisons} simulated comparisons of each effect; models {title}")
        print(_HEADING)
        rates = simulate_comparisons(models, options.comparisons)
        figures[title] = rates
        for name, target in (("false_alarms", FALSE_ALARMS_TARGET), ("wrong_sign", WRONG_SIGN_TARGET),
                             ("two_percent_same", FALSE_SAME_TARGET)):  # fmt: skip
            worst = max(row[name] for row in rates.values())
            rare(f"{title}: worst of {name}", worst, options.comparisons, target)
        if title == "made on":
            row = rates[noise_models.normal(0.9).name]
            found, rounds = row["two_percent_found"], row["two_percent_rounds"]
            check("2 % found at 0.9 %", found, lambda v: v >= FOUND_TARGET, "at least 99 %", f"{found:.2%}")
            check("rounds for it", rounds, lambda v: v <= FOUND_ROUNDS_TARGET, "at most 10", f"{rounds:.2f}")

    print(
        f"results of different days, all of one level: false alarms of {options.days} histories of each kind"
    )
    print(f"  {'%':<58}{''.join(f'{name:>10}' for name in _DAY_COLUMNS)}")
    for model in DAY_MODELS:
        shares = simulate_days(model, options.days)
        figures[f"days: {model.name}"] = shares
        print(
            f"  {model.name[:58]:<58}{''.join(f'{100 * value:>10.2f}' for value in shares.values())}",
            flush=True,
        )
        for name, share in shares.items():
            if interval(round(share * options.days), options.days, 0.002)[0] > FALSE_ALARMS_TARGET:
                missed.append(f"days: {name}: {model.name}")

    print(
        f"bisect, {options.bisections} searches over {BISECT_CANDIDATES} candidates, a step of {BISECT_STEP:.0%}, "
        "and of equal ones"
    )
    print(f"  {'%':<58}{'right':>8}{'unsure':>8}{'refused':>8}{'wrong':>8}{'equal':>7}{'rounds':>7}")
    for number, model in enumerate(BISECT_MODELS):
        searched = simulate_bisections(model, options.bisections, BISECT_STEP)
        equal = simulate_bisections(model, options.bisections, 0.0)
        figures[f"bisect: {model.name}"] = {"step": searched, "equal": equal}
        cells = [f"{100 * searched[name]:>8.1f}" for name in ("right", "unsure", "refused", "wrong")]
        print(f"  {model.name[:58]:<58}{''.join(cells)}{100 * (1 - equal['refused']):>7.1f}"
              f"{searched['rounds_in_all']:>7.1f}", flush=True)  # fmt: skip
        for name, share in (("wrong", searched["wrong"]), ("equal ends searched", 1 - equal["refused"])):
            if (
                interval(round(share * options.bisections), options.bisections, 0.002)[0]
                > FALSE_ALARMS_TARGET
            ):
                missed.append(f"bisect: {name}: {model.name}")
        if number == 0:
            right, sure = searched["right"], searched["rounds_until_sure"]
            whole, again = searched["rounds_in_all"], searched["equal_code_measured"]
            check("right", right, lambda v: v >= BISECT_TARGET, "at least 98 %", f"{right:.2%}")
            few, limit = (lambda v: v <= BISECT_ROUNDS_TARGET), f"at most {BISECT_ROUNDS_TARGET}"
            check("rounds until sure, ends included", sure, few, limit, f"{sure:.1f}")
            check("rounds in all, verified", whole, few, limit, f"{whole:.1f}")
            check("equal machine code measured", again, lambda v: v == 0, "never", f"{again:.0f}")

    if options.snapshot is not None:
        print(
            f"compare, real replays on the CPU driver (times are modelled), {LAUNCH_NOISE:.1%} noise of launches, "
            f"{ROUND_NOISE:.1%} of a round"
        )
        begin_s = time.monotonic()
        all_s = 60 * options.minutes
        everything: list[Compared] = []
        for name, factor, share, seed in (("equal sides", 1.0, 0.7, 0), ("2 % slower", 1.02, 1.0, 100_000)):
            compared = real_comparisons(
                options.snapshot.absolute(),
                factor,
                options.real,
                options.jobs,
                begin_s + share * all_s,
                options.seed + seed,
            )
            everything += compared
            verdicts = Counter(item.verdict for item in compared)
            alarm = verdicts["SLOWER"] + (verdicts["FASTER"] if factor == 1 else 0)
            low, high = interval(alarm, len(compared))
            rounds = statistics.fmean(item.rounds for item in compared)
            print(
                f"  {name}: {len(compared)} comparisons, {dict(verdicts)}; "
                f"called different {alarm / len(compared):.2%} "
                f"[{low:.2%}, {high:.2%}], {rounds:.2f} rounds"
            )
            figures[f"real, {name}"] = {
                "comparisons": len(compared), "verdicts": dict(verdicts), "low": low, "high": high, "rounds": rounds,
                "rounds_of_each": [item.rounds for item in compared],
            }  # fmt: skip
            if factor == 1:
                check("real: false alarms", alarm / len(compared), lambda v: v <= FALSE_ALARMS_TARGET, "at most 1 %",
                      f"{alarm / len(compared):.2%}")  # fmt: skip
            else:
                check("real: 2 % slower is found", alarm / len(compared), lambda v: v >= FOUND_TARGET, "at least 99 %",
                      f"{alarm / len(compared):.2%}")  # fmt: skip
                check(
                    "real: rounds for it",
                    rounds,
                    lambda v: v <= FOUND_ROUNDS_TARGET,
                    "at most 10",
                    f"{rounds:.2f}",
                )
        replays_s = math.fsum(item.replays_s for item in everything)
        cost = math.fsum(item.inside_s for item in everything) / replays_s
        whole = math.fsum(item.wall_s for item in everything) / replays_s
        check(
            "time of compare / of its replays",
            cost,
            lambda v: v <= COST_TARGET,
            "at most 1.10",
            f"{cost:.3f}",
        )
        check(
            "likewise, with the start of Python",
            whole,
            lambda v: v <= COST_TARGET,
            "at most 1.10",
            f"{whole:.3f}",
        )
    for name in missed:
        print(f"missed: {name}")
    if options.output is not None:
        options.output.write_text(
            json.dumps({"schema": "replay.benchmark.verdicts/1", **figures}, indent=2) + "\n"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
