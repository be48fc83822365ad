"""What it costs to check kernels (REPLAY_EMULATOR_CHECKS), beside the same launches unchecked.

    python benchmarks/checker.py [--rounds N] [--launches N] [-o FILE.json]

Samples are run on the built-in CPU driver with one launch and with many; the difference in CPU time is that of the
launches. Ratios are of the least times of the rounds, in which both take turns. Needs a C compiler.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from replay.drivers import find_driver

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
# Tiles in shared memory; shuffles and a barrier; none of it.
WATCHED = ("matmul_tiled", "reduce", "vector_add")
# Each with the ratio that it may take; bounds of memory are always checked.
CHECKS = {"init": 3.0, "race": 6.0, "sync": 6.0, "init,race,sync,numbers": 10.0}


def cpu_s(program: Path, launches: int, environment: dict[str, str]) -> float:
    """CPU time of a run of the program, with that of its threads. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [program, str(launches)], env=environment, cwd=program.parent, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    """Measure, print the table, and return an exit status: 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    library = find_driver("emulator").library
    plain = {name: value for name, value in os.environ.items() if not name.startswith("REPLAY_EMULATOR_")}
    plain["LD_LIBRARY_PATH"] = f"{Path(library).parent}:{plain.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    figures, seconds = [], {}
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-") as folder:
        targets = [f"{folder}/{name}{suffix}" for name in WATCHED for suffix in ("", ".ptx")]
        subprocess.run(["make", "-s", "-C", SAMPLES, f"OUT={folder}", *targets], check=True)
        sides = {"": plain} | {
            checks: {**plain, "REPLAY_EMULATOR_CHECKS": checks, "REPLAY_EMULATOR_FINDINGS": f"{folder}/found"}
            for checks in CHECKS
        }
        for name in WATCHED:
            program = Path(folder) / name
            times: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side, environment in sides.items():
                    one, many = (cpu_s(program, count, environment) for count in (1, 1 + options.launches))
                    times[side].append(many - one)
            seconds[name] = {side: min(values) for side, values in times.items()}
            print(
                name,
                *(f"{side or 'unchecked'} {took:.3f} s" for side, took in seconds[name].items()),
                flush=True,
            )
            for checks, most in CHECKS.items():
                ratio = seconds[name][checks] / max(seconds[name][""], 1e-9)
                figures.append(Figure(f"{name}, {checks}, beside unchecked", ratio, most))
    return finish("checker", figures, options.output, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
