"""How often `compare` and `bisect` are right, and what `compare` costs.

    python benchmarks/verdicts.py [--comparisons N] [--bisections N] [--output FILE.json]
                                  [--snapshot SNAP [--real N] [--minutes M] [--jobs J]]

The first part is pure simulation of rounds: normal noise of 0.9 %, and 3 % outliers of 2 to 10 %. With --snapshot the
command itself is run on the CPU driver as well, N times with equal sides and N times with a side that is 2 % slower,
for at most M minutes: noise is injected into every launch, and a factor into every process (REPLAY_EMULATOR_NOISE,
REPLAY_EMULATOR_PROCESS_NOISE). Its cost is set against the replays that it runs.

Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
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

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

from replay.bisect.run import Progress, find_slower  # noqa: E402
from replay.compare.rounds import Observation, RoundLimits, take_rounds  # noqa: E402
from replay.errors import EngineError  # noqa: E402

ROUND_NOISE = 0.009
LAUNCH_NOISE = 0.002
OUTLIERS = 0.03
FALSE_ALARMS_TARGET = 0.01
FOUND_TARGET, FOUND_ROUNDS_TARGET = 0.99, 10
BISECT_TARGET, BISECT_ROUNDS_TARGET, BISECT_CANDIDATES, BISECT_STEP = 0.98, 35, 34, 0.03
COST_TARGET = 1.10


def side(generator: random.Random, ratio: float) -> Observation:
    """One process: its share of a round's noise, and now and then a disturbance."""
    noise = generator.gauss(0, ROUND_NOISE / math.sqrt(2))
    if generator.random() < OUTLIERS / 2:
        noise += generator.uniform(0.02, 0.1)
    return Observation(1e6 * ratio * math.exp(noise))


def simulate_comparisons(count: int, effect: float) -> tuple[Counter[str], float]:
    """Verdicts of `count` comparisons with a true change of `effect`, and the mean number of rounds."""
    generator = random.Random(20261121)
    verdicts: Counter[str] = Counter()
    rounds = []
    for _ in range(count):
        taken = take_rounds(lambda: side(generator, 1), lambda: side(generator, 1 + effect), RoundLimits())
        verdicts[taken.judgement.verdict.value] += 1
        rounds.append(len(taken.rounds))
    return verdicts, statistics.fmean(rounds)


class Simulated:
    """Candidates of which all from `first_bad` on are slower. Every third has the machine code of the one before."""

    def __init__(self, generator: random.Random, first_bad: int) -> None:
        self._generator = generator
        self._first_bad = first_bad
        self.measured: Counter[int] = Counter()

    def identity(self, candidate: int) -> str:
        """Equal for a candidate and the next, where the change does not lie between them."""
        base = candidate - 1 if candidate % 3 == 2 and candidate != self._first_bad else candidate
        return str(base)

    def time(self, candidate: int) -> Observation:
        """One process."""
        self.measured[candidate] += 1
        return side(self._generator, 1 + BISECT_STEP if candidate >= self._first_bad else 1)


def simulate_bisections(count: int) -> dict[str, float]:
    """Searches over 34 candidates: the share that is right, rounds until the search was sure, rounds in all."""
    generator = random.Random(20261121)
    right = equal_code_measured = 0
    searching, whole = [], []
    for _ in range(count):
        bench = Simulated(generator, generator.randrange(1, BISECT_CANDIDATES))
        progress = Progress(BISECT_CANDIDATES)
        try:
            found = find_slower(bench, progress, RoundLimits())
        except EngineError:
            continue  # the ends were not told apart: not right
        first_bad = found.steps[0].first_bad if len(found.steps) == 1 else -1
        right += first_bad == bench._first_bad
        whole.append(progress.rounds)
        verification = f"{found.steps[0].last_good}-{found.steps[0].first_bad}"
        searching.append(progress.rounds - len(progress.pairs.get(verification, [])))
        equal_code_measured += sum(progress.groups[at] != at for at in bench.measured)
    return {
        "right": right / count,
        "rounds_until_sure": statistics.fmean(searching),
        "rounds_in_all": statistics.fmean(whole),
        "equal_code_measured": equal_code_measured,
    }


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
        return math.fsum(
            math.comb(count, n) * share**n * (1 - share) ** (count - n) for n in range(low, high + 1)
        )

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
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--bisections", type=int, default=300)
    parser.add_argument("--snapshot", type=Path)
    parser.add_argument("--real", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the first real comparison of each kind")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    missed: list[str] = []
    figures: dict[str, object] = {}

    def check(name: str, value: float, holds: Callable[[float], bool], target: str, shown: str) -> None:
        figures[name] = value
        ok = holds(value)
        print(f"  {name:<42} {shown:>9}  target {target}{'' if ok else '  MISSED'}")
        if not ok:
            missed.append(name)

    print(f"compare, {options.comparisons} simulated comparisons, round noise {ROUND_NOISE:.1%}")
    verdicts, rounds = simulate_comparisons(options.comparisons, 0.0)
    alarms = (verdicts["SLOWER"] + verdicts["FASTER"]) / options.comparisons
    check("false alarms", alarms, lambda v: v <= FALSE_ALARMS_TARGET, "at most 1 %", f"{alarms:.2%}")
    print(f"  equal sides: {dict(verdicts)}, {rounds:.1f} rounds")
    verdicts, rounds = simulate_comparisons(options.comparisons, 0.02)
    found = verdicts["SLOWER"] / options.comparisons
    check("2 % slower is found", found, lambda v: v >= FOUND_TARGET, "at least 99 %", f"{found:.2%}")
    check("rounds for it", rounds, lambda v: v <= FOUND_ROUNDS_TARGET, "at most 10", f"{rounds:.2f}")

    print(
        f"bisect, {options.bisections} searches over {BISECT_CANDIDATES} candidates, a step of {BISECT_STEP:.0%}"
    )
    searched = simulate_bisections(options.bisections)
    right, sure = searched["right"], searched["rounds_until_sure"]
    check("right", right, lambda v: v >= BISECT_TARGET, "at least 98 %", f"{right:.2%}")
    check(
        "rounds until sure, ends included",
        sure,
        lambda v: v <= BISECT_ROUNDS_TARGET,
        "at most 35",
        f"{sure:.1f}",
    )
    whole = searched["rounds_in_all"]
    check("rounds in all, verified", whole, lambda v: v <= BISECT_ROUNDS_TARGET, "at most 35", f"{whole:.1f}")
    again = searched["equal_code_measured"]
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
            found = real_comparisons(
                options.snapshot.absolute(),
                factor,
                options.real,
                options.jobs,
                begin_s + share * all_s,
                options.seed + seed,
            )
            everything += found
            verdicts = Counter(item.verdict for item in found)
            alarm = verdicts["SLOWER"] + (verdicts["FASTER"] if factor == 1 else 0)
            low, high = interval(alarm, len(found))
            rounds = statistics.fmean(item.rounds for item in found)
            print(
                f"  {name}: {len(found)} comparisons, {dict(verdicts)}; called different {alarm / len(found):.2%} "
                f"[{low:.2%}, {high:.2%}], {rounds:.2f} rounds"
            )
            figures[f"real, {name}"] = {
                "comparisons": len(found), "verdicts": dict(verdicts), "low": low, "high": high, "rounds": rounds,
                "rounds_of_each": [item.rounds for item in found],
            }  # fmt: skip
            if factor == 1:
                check("real: false alarms", alarm / len(found), lambda v: v <= FALSE_ALARMS_TARGET, "at most 1 %",
                      f"{alarm / len(found):.2%}")  # fmt: skip
            else:
                check("real: 2 % slower is found", alarm / len(found), lambda v: v >= FOUND_TARGET, "at least 99 %",
                      f"{alarm / len(found):.2%}")  # fmt: skip
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
    if options.output is not None:
        options.output.write_text(
            json.dumps({"schema": "replay.benchmark.verdicts/1", **figures}, indent=2) + "\n"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
