"""What the shim adds to a driver call: with no window open, with an open window, and to functions it does not swap in.

    python benchmarks/overhead.py [--rounds N] [--output FILE.json]

Everything is measured side by side in one run, against a driver that does nothing: rounds of {no shim, shim inert,
window closed, window open} follow one another, each a fresh process, and the median round of each counts. Times are
CPU time of the calling thread, kernel included; wall time, printed beside, also holds what other processes took.
Exits 1 when a target is missed. REPLAY_TEST_INTERPOSER names another build than the installed package's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLOSED_TARGET_NS = 25.0
OPEN_TARGET_NS = 500.0
NEVER_TARGET_NS = 1.0  # what two runs of the same code differ by
BATCHES = 21
CALLS = 5_000  # per batch; an open window records each of them


def interposer() -> Path:
    if named := os.environ.get("REPLAY_TEST_INTERPOSER"):
        return Path(named)
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "libreplay_interposer.so"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} processors"
    return f"{platform.machine()}, {os.cpu_count()} processors"


def build(folder: Path) -> Path:
    compiler = [os.environ.get("CC", "cc"), "-O2", "-w"]
    flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-Wl,-Bsymbolic",
        "-o",
        str(folder / "libcuda.so.1"),
    ]
    subprocess.run([*compiler, str(HERE / "overhead" / "driver.c"), *flags], check=True)
    application = folder / "application"
    source = str(HERE / "overhead" / "application.c")
    subprocess.run([*compiler, source, "-o", str(application), "-ldl"], check=True)
    return application


def measure(application: Path, mode: str, folder: Path) -> tuple[float, float, float]:
    """(ns per launch, ns per call of a function that is never swapped in, wall ns per launch)."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(application.parent)}
    with tempfile.TemporaryDirectory(dir=folder, suffix=".rcap") as directory:
        if mode != "none":
            environment["LD_PRELOAD"] = str(interposer())
        if mode in ("closed", "open"):
            environment["REPLAY_CAPTURE_DIRECTORY"] = directory
            environment["REPLAY_CAPTURE_KERNEL"] = "^vector" if mode == "open" else "^other$"
        command = [str(application), "vector_add", str(BATCHES), str(CALLS)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        launch_ns, never_ns, wall_ns = map(float, done.stdout.split())
        return launch_ns, never_ns, wall_ns


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if not interposer().exists():
        print(f"no {interposer()}: run `make setup`, or set REPLAY_TEST_INTERPOSER", file=sys.stderr)
        return 3
    modes = ["none", "inert", "closed", "open"]
    samples: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in modes}
    with tempfile.TemporaryDirectory() as name:
        application = build(Path(name))
        for _ in range(options.rounds):
            for mode in modes:
                samples[mode].append(measure(application, mode, Path(name)))
    launch_ns = {mode: statistics.median(sample[0] for sample in samples[mode]) for mode in modes}
    never_ns = {mode: statistics.median(sample[1] for sample in samples[mode]) for mode in modes}
    wall_ns = {mode: statistics.median(sample[2] for sample in samples[mode]) for mode in modes}
    added_ns = {mode: launch_ns[mode] - launch_ns["none"] for mode in modes[1:]}
    never_added_ns = never_ns["closed"] - never_ns["none"]
    print(f"{'':16}{'ns a launch':>12}{'added ns':>10}{'ratio':>8}{'wall ns':>10}")
    for mode in modes:
        added = launch_ns[mode] - launch_ns["none"]
        ratio = launch_ns[mode] / launch_ns["none"]
        print(f"{mode:16}{launch_ns[mode]:12.1f}{added:10.1f}{ratio:8.2f}{wall_ns[mode]:10.1f}")
    print(
        f"never swapped in: {never_ns['none']:.2f} ns without the shim, {never_ns['closed']:.2f} ns with it"
    )
    met = {
        "closed": added_ns["closed"] <= CLOSED_TARGET_NS,
        "open": added_ns["open"] <= OPEN_TARGET_NS,
        "never": never_added_ns <= NEVER_TARGET_NS,
    }
    document = {
        "benchmark": "overhead",
        "date": datetime.date.today().isoformat(),
        "machine": processor(),
        "kernel": platform.release(),
        "rounds": options.rounds,
        "launch_ns": launch_ns,
        "wall_ns": wall_ns,
        "added_ns": added_ns,
        "never_added_ns": never_added_ns,
        "targets_ns": {"closed": CLOSED_TARGET_NS, "open": OPEN_TARGET_NS, "never": NEVER_TARGET_NS},
        "met": met,
        "samples_ns": samples,
    }
    if options.output:
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    missed = [name for name, holds in met.items() if not holds]
    print(f"missed: {', '.join(missed)}" if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
