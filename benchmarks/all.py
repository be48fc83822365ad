"""Every benchmark that has targets, and one table of them: target, reached, and the limit or peer of the same run.

    python benchmarks/all.py [--nights FILE.jsonl] [--table FILE] [--only NAME] [--also NAME]

What takes long or needs a wheel is left out unless --also names it: installed, demonstration, dashboard.

With --nights the figures of this night are added to the file, as one line of JSON, and each figure is held against the
nights before it by the rule that `replay` has for results of different days: the spread between the nights says what a
change is. Exits 1 when a figure is SLOWER, that is worse, than the nights before. A missed target is shown only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replay.compare.verdict import Verdict, from_spread, judge_estimate
from replay.history.spread import spread_of

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, table  # noqa: E402

HERE = Path(__file__).resolve().parent
BENCHMARKS = {
    "overhead": ["overhead.py", "--rounds", "5"],
    "snapshot": ["snapshot.py", "--rounds", "3"],
    "capture": ["capture.py", "--rounds", "1"],
    "long windows": ["capture.py", "--long", "10000,100000,1000000", "--rounds", "1"],
    "replaying": ["replaying.py", "--rounds", "3"],
    "emulator": ["emulator.py", "--rounds", "3"],
    "minimise": ["minimise.py"],
    "history": ["history.py", "--results", "20000"],
    "store": ["store.py"],
    "checker": ["checker.py"],
    "session": ["session.py"],
    "pages": ["pages.py"],
    "millions": ["long_windows.py"],
    "triggers": ["triggers.py", "--programs", "20", "--replays", "5"],
}
ON_REQUEST = {
    "installed": ["installed.py"],
    "demonstration": ["installed.py", "--demo"],
    "dashboard": ["dashboard.py"],
}
Nights = dict[str, list[tuple[str, float]]]  # for each figure its values, with their times, oldest first


def verdict(figure: Figure, name: str, nights: Nights) -> Verdict:
    """Of tonight's figure against the nights before."""
    before = nights.get(name, [])
    spread = spread_of(before)
    if spread is None or min(figure.reached, *(value for _, value in before)) <= 0:
        return Verdict.UNSURE
    mean = math.log(figure.reached) - statistics.fmean(math.log(value) for _, value in before)
    found = from_spread(mean if figure.at_most else -mean, spread.deviation, spread.degrees, len(before), 1)
    judged = judge_estimate(found)
    return Verdict.UNSURE if judged is None else judged.verdict


def read_nights(path: Path) -> Nights:
    """Of a file that may not be there yet."""
    nights: Nights = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        night = json.loads(line)
        for name, value in night["figures"].items():
            nights.setdefault(name, []).append((night["created_utc"], value))
    return nights


def measure(name: str, output: Path) -> list[Figure]:
    """Run one benchmark. What it prints goes where this program's output goes."""
    begin = time.monotonic()
    script, *options = (BENCHMARKS | ON_REQUEST)[name]
    status = subprocess.run([sys.executable, str(HERE / script), *options, "-o", str(output)]).returncode
    print(f"-- {name}: {time.monotonic() - begin:.0f} s, exit status {status}\n", flush=True)
    if not output.exists():
        return []
    return [Figure(**figure) for figure in json.loads(output.read_text())["figures"]]


def main() -> int:
    """Measure, print the table, and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=Path, help="figures of the nights before; tonight's are added")
    parser.add_argument("--table", type=Path, help="where the table is written, too")
    parser.add_argument("--only", choices=BENCHMARKS | ON_REQUEST, action="append")
    parser.add_argument("--also", choices=ON_REQUEST, action="append", default=[])
    options = parser.parse_args()
    found: dict[str, Figure] = {}
    failed = []
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-") as folder:
        for number, name in enumerate([*(options.only or BENCHMARKS), *options.also]):
            figures = measure(name, Path(folder) / f"{number}.json")
            failed += [] if figures else [name]
            found.update({f"{name}: {figure.name}": figure for figure in figures})
    nights = read_nights(options.nights) if options.nights else {}
    verdicts = [verdict(figure, name, nights) for name, figure in found.items()] if options.nights else []
    named = [
        Figure(name, figure.reached, figure.target, figure.limit, figure.at_most)
        for name, figure in found.items()
    ]
    lines = [table(named, [str(one.value) for one in verdicts]), ""]
    lines.append(f"{sum(figure.met for figure in named)} of {len(named)} targets met")
    if failed:
        lines.append(f"did not run to their end: {', '.join(failed)}")
    print(*lines, sep="\n")
    if options.table:
        options.table.write_text("\n".join(lines) + "\n")
    if options.nights:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        tonight = {"created_utc": now, "figures": {name: figure.reached for name, figure in found.items()}}
        with options.nights.open("a") as file:
            file.write(json.dumps(tonight) + "\n")
    return 1 if failed or Verdict.SLOWER in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
