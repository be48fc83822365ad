"""What `capture --when` costs a launch, and how often it takes the launch that went wrong.

    python benchmarks/triggers.py [--rounds N] [--programs N] [--first SEED] [--replays N] [--state FILE]
                                  [--output FILE]

Costs are measured as in benchmarks/overhead.py: against a driver that does nothing, CPU time of the calling thread,
side by side in one run, the least of all rounds. How much of its rate a program of 20,000 launches a second keeps is
computed from that. On a GPU, not yet seen, `slower` costs two event records a launch more, and a ring waits for the
device and moves what a launch can reach over the bus twice.

Then random programs (samples/goes_wrong), each with one planted fault in a launch that is drawn, with others in
between: the snapshot has to be of that launch and to name it, and `--replays` of them have to show it in replay. With
`--state` a command that was ended goes on where it was: of each program a line is kept, with what was found.
Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

import overhead  # noqa: E402
from figures import Figure, finish  # noqa: E402

EACH = {"KERNEL": "^vector", "LAUNCH": f"1-{(1 << 63) - 1}", "EACH": "1", "MAX_SNAPSHOTS": "1"}
SETTINGS = {
    "slower": EACH | {"WHEN": "slower=2000"},
    "signal": EACH | {"WHEN": "signal"},
    "error": EACH | {"WHEN": "error", "RING": "1", "RING_IN_STREAM": "1"},
    "slower, error": EACH | {"WHEN": "slower=2000,error", "RING": "1", "RING_IN_STREAM": "1"},
    "nan": EACH | {"WHEN": "nan", "RING": "1", "RING_IN_STREAM": "1"},
    "hang": EACH | {"WHEN": "hang=30000000000", "RING": "1", "RING_IN_STREAM": "1"},
    "crash": EACH | {"WHEN": "crash", "RING": "1", "RING_IN_STREAM": "1"},
    "nan, waited for": EACH | {"WHEN": "nan", "RING": "1"},
    "crash, waited for": EACH | {"WHEN": "crash", "RING": "1"},
}
LAUNCHES_A_SECOND = 20_000
WAYS = {"nan": "nan", "fault": "error", "slow": "slower=2x", "crash": "crash"}
SAMPLES = Path(__file__).resolve().parents[1] / "samples"
SHOWN = {  # what `replay run` says of a snapshot of it
    "nan": "outputs match",
    "fault": "FAULT reproduced",
    "slow": "outputs match",
    "crash": "outputs match",
}


def costs(rounds: int, folder: Path) -> dict[str, float]:
    """Setting -> ns of CPU time a launch, more than without the shim."""
    application = overhead.build(folder)
    overhead.SETTINGS |= SETTINGS
    names = ["no shim", "closed", *SETTINGS]
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name in names:
            launch = overhead.measure(application, name).launch
            best[name] = min(launch, best.get(name, launch))
    return {name: best[name] - best["no shim"] for name in names[1:]}


def forked(arguments: list[str], folder: Path) -> tuple[int, str]:
    """A command of `replay` in a fork of this process, which has imported what it needs: status, what it said."""
    said = folder / "said"
    pid = os.fork()
    if pid == 0:
        descriptor = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(folder)
        from replay.cli import main

        os._exit(main(arguments))
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")


def planted(seed: int, folder: Path, program: Path, replays: bool) -> str:
    """ "" when the right launch was captured; else what went wrong."""
    draw = random.Random(seed)
    way = draw.choice([*WAYS])
    launches = draw.randint(20, 120)
    wrong = draw.randint(8, launches)
    path = folder / "x.rsnap"
    path.unlink(missing_ok=True)
    words = [str(program), way, str(launches), str(wrong), str(1 + draw.randrange(999_999))]
    options = ["--when", WAYS[way], "--ring", str(draw.randint(1, 3))]
    _, said = forked(["capture", "--driver", "emulator", *options, "-o", "x.rsnap", "--", *words], folder)
    told = re.search(r"launch (\d+) goes wrong", said)
    if told is None:
        return f"{way}: the program never came so far: {said[-300:]}"
    if not path.exists():
        return f"{way}: no snapshot: {said[-300:]}"
    _, listed = forked(["ls", "x.rsnap", "notes"], folder)
    if way == "crash":
        right = f"launch {told[1]}" in listed
    else:
        name = WAYS[way].partition("=")[0]
        right = f"{name} launch {told[1]} of" in listed
    if not right:
        return f"{way}: not launch {told[1]}: {listed[-300:]}"
    if replays:
        _, ran = forked(["run", "x.rsnap", "--no-timing"], folder)
        if SHOWN[way] not in ran and "windows match" not in ran and "fault reproduced" not in ran:
            return f"{way}: the replay does not show it: {ran[-300:]}"
    return ""


def known_programs(state: Path | None) -> dict[int, str]:
    """Seed -> what `planted` said, of an earlier run that was ended."""
    if state is None or not state.exists():
        return {}
    lines = (line.partition(" ") for line in state.read_text().splitlines())
    return {int(seed): json.loads(wrong) for seed, _, wrong in lines}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--state", type=Path, help="what earlier runs have found, and this one adds to")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = costs(options.rounds, folder) if options.rounds else {}
        for setting, ns in found.items():
            print(f"{setting:16} {ns:8.1f} ns a launch more than without the shim", flush=True)
        subprocess.run(["make", "-s", "-C", str(SAMPLES), f"OUT={folder}", str(folder / "goes_wrong"),
                        str(folder / "goes_wrong.ptx")], check=True)  # fmt: skip
        import replay.capture.session
        import replay.cli.capture
        import replay.pack
        import replay.report.capture  # noqa: F401

        failures: Counter[str] = Counter()
        known = known_programs(options.state)
        for seed in range(options.first, options.first + options.programs):
            if (wrong := known.get(seed)) is None:
                wrong = planted(seed, folder, folder / "goes_wrong", seed < options.first + options.replays)
                if options.state is not None:
                    with options.state.open("a") as file:
                        print(seed, json.dumps(wrong), file=file, flush=True)
            if wrong:
                failures[wrong] += 1
                print(f"program {seed}: {wrong}", flush=True)
            if seed % 10 == 9:
                print(f"programs up to {seed}: {sum(failures.values())} failed", flush=True)
    figures = []
    if found:
        figures.append(Figure("slower, us a launch", found["slower"] / 1000, 1.0))
        kept = 1 - max(found["slower"], 0) * LAUNCHES_A_SECOND / 1e9
        figures.append(Figure("slower, rate kept at 20,000/s", kept, 0.95, at_most=False))
        both = 1 - max(found["slower, error"], 0) * LAUNCHES_A_SECOND / 1e9
        figures.append(Figure("slower and error, rate kept at 20,000/s", both, 0.95, at_most=False))
        figures.append(Figure("error, us a launch, no contents", found["error"] / 1000, 2.5))
        figures.append(Figure("crash, us a launch, no contents", found["crash"] / 1000, 3.0))
    if options.programs:
        share = 1 - sum(failures.values()) / options.programs
        figures.append(Figure(f"right launch, of {options.programs} programs", share, 0.99, at_most=False))
    return finish("triggers", figures, options.output, costs_ns=found, programs=options.programs)


if __name__ == "__main__":
    sys.exit(main())
