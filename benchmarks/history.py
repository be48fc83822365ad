"""How long a history of many results takes to index and to look at.

    python benchmarks/history.py [--results N] [--output FILE.json]

Writes N result files, indexes them once, and reads one series of 1,000 from the index. The index is held against
reading the same files without looking into them, in the same run. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from replay.history.changes import change_points
from replay.history.store import History, by_series
from replay.results import schema
from replay.results.run.origin import ApplicationFacts, DeviceFacts, DriverFacts, SnapshotFacts, WindowFacts
from replay.results.run.placement import Placement
from replay.results.run.timing import TimeSummary, Timing
from replay.results.run.verification import Verification
from replay.results.store import write_result

INDEX_TARGET_S_PER_100_000 = 10.0
SERIES_TARGET_S = 0.05
SERIES = 1000


def result(number: int, count: int) -> schema.RunResult:
    """The n-th of `count` results: one of many kernels, times of 30 samples."""
    times = [10_000 + (number * 7919 + n * 104_729) % 97 for n in range(30)]
    ordered = sorted(times)
    summary = TimeSummary(
        30, ordered[15], ordered[15], ordered[0], ordered[-1], ordered[7], ordered[22], 0.01
    )
    return schema.RunResult(
        format=schema.FORMAT,
        tool_version="0",
        created_utc=f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+00:00",
        snapshot=SnapshotFacts("x.rsnap", 1000, f"{number % max(1, count // SERIES):032x}"),
        driver=DriverFacts("system", "libcuda.so.1", 13000, False),
        device=DeviceFacts(0, "Benchmark", "9.0"),
        placement=Placement(3, 3 << 20),
        window=WindowFacts(1, 1, [f"kernel_{number % max(1, count // SERIES)}"]),
        verification=Verification("match", 3, 3 << 20),
        timing=Timing("cold", "measured", times, times, summary, summary),
        application=ApplicationFacts(),
    )


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="replay-history-"))
    try:
        # One real file, copied: making each would measure the compressor.
        for group in range(max(1, options.results // SERIES)):
            parent = folder / str(group)
            parent.mkdir()
            write_result(parent / "0.rres", result(group, options.results))
            data = (parent / "0.rres").read_bytes()
            for number in range(1, min(SERIES, options.results)):
                (parent / f"{number}.rres").write_bytes(data)
        begin = time.perf_counter()
        read = sum(len(path.read_bytes()) for path in folder.rglob("*.rres"))
        plain_s = time.perf_counter() - begin
        with History(folder) as history:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            count = history.update()
            index_s, index_cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
            begin = time.perf_counter()
            history.update()
            again_s = time.perf_counter() - begin
            all_s = []
            for _ in range(5):
                begin = time.perf_counter()
                series = next(iter(by_series(history.entries(kernel="^kernel_0$")).values()))
                all_s.append(time.perf_counter() - begin)
            series_s = min(all_s)
        begin = time.perf_counter()
        change_points([float(entry.median_ns or 0) for entry in series])
        changes_s = time.perf_counter() - begin
    finally:
        shutil.rmtree(folder)
    target_s = INDEX_TARGET_S_PER_100_000 * count / 100_000
    print(f"{count:,} results ({read / 1e6:.0f} MB)")
    print(
        f"  index      {index_s:7.2f} s   target {target_s:.2f} s; {index_s / plain_s:.1f} x reading the files, "
        f"{index_cpu_s:.2f} s of CPU time"
    )
    print(f"  again      {again_s:7.2f} s   when nothing changed")
    print(
        f"  one series {series_s * 1e3:7.1f} ms  target {SERIES_TARGET_S * 1e3:.0f} ms ({len(series)} results)"
    )
    print(f"  changes    {changes_s * 1e3:7.1f} ms  change points of it")
    if options.output is not None:
        figures = {
            "results": count,
            "index_s": index_s,
            "index_cpu_s": index_cpu_s,
            "plain_s": plain_s,
            "again_s": again_s,
            "series_s": series_s,
        }
        options.output.write_text(
            json.dumps({"schema": "replay.benchmark.history/1", **figures}, indent=2) + "\n"
        )
    return 1 if index_s > target_s or series_s > SERIES_TARGET_S else 0


if __name__ == "__main__":
    sys.exit(main())
