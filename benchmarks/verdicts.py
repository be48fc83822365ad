"""How often `compare` and `bisect` are right, and what `compare` costs.

    python benchmarks/verdicts.py [--comparisons N] [--bisections N] [--snapshot SNAP] [--output FILE.json]

The first part is pure simulation of rounds: normal noise of 0.9 %, and 3 % outliers of 2 to 10 %. With --snapshot the
rule is also tried on the CPU driver, with noise injected into every launch and another factor for every process, and
the cost of `compare` is set against the replays that it runs. Exits 1 when a target is missed, 3 when it cannot run.
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
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

from replay.bisect.run import Progress, find_slower  # noqa: E402
from replay.compare.rounds import Observation, RoundLimits, take_rounds  # noqa: E402
from replay.errors import EngineError  # noqa: E402

ROUND_NOISE = 0.009
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


def on_the_cpu_driver(snapshot: Path, factor: float, seed: int) -> dict[str, object]:
    """One real comparison, every process with a factor of its own beside the noise of its launches."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "c.json"
        command = [
            sys.executable, "-m", "replay", "compare", str(snapshot), "--quick", "--a", "env=REPLAY_BENCHMARK=1",
            "--b", f"env=REPLAY_EMULATOR_SLOWDOWN=.*:{factor}", "-o", str(output), "-q",
        ]  # fmt: skip
        noise = {"REPLAY_EMULATOR_NOISE": str(ROUND_NOISE), "REPLAY_EMULATOR_NOISE_SEED": str(seed)}
        done = subprocess.run(
            command, env={**os.environ, **noise, "PYTHONSAFEPATH": "1"}, cwd="/", check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(3)
        return dict(json.loads(output.read_text()))


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--bisections", type=int, default=300)
    parser.add_argument("--snapshot", type=Path)
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
        print("compare, on the CPU driver with noise (times are modelled)")
        result = on_the_cpu_driver(options.snapshot.absolute(), 1.02, 1)
        row = result["rows"][0]  # type: ignore[index]
        print(f"  2 % slower: {row['verdict']} {row['ratio']:.4f} after {len(row['rounds'])} rounds")
        cost = float(result["wall_s"]) / float(result["replays_s"])  # type: ignore[arg-type]
        check(
            "its time to that of its replays", cost, lambda v: v <= COST_TARGET, "at most 1.10", f"{cost:.3f}"
        )
    if options.output is not None:
        options.output.write_text(
            json.dumps({"schema": "replay.benchmark.verdicts/1", **figures}, indent=2) + "\n"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
