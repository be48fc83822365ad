"""How long a history of many results takes to index and to look at.

    python benchmarks/history.py [--results N] [--output FILE.json]

Writes N result files, indexes them once, and reads one series of 1,000 from the index. The index is held against
reading the same files without looking into them, in the same run; a series against SQLite alone. Then the same results
are put into packs, and those are indexed. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from replay.history.changes import change_points
from replay.history.index import index_file
from replay.history.store import History, by_series
from replay.results import schema
from replay.results.run.origin import ApplicationFacts, DeviceFacts, DriverFacts, SnapshotFacts, WindowFacts
from replay.results.run.placement import Placement
from replay.results.run.timing import TimeSummary, Timing
from replay.results.run.verification import Verification
from replay.results.store import write_result

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

INDEX_TARGET_US = 6.0  # CPU time for each result: 10 million in a minute
SERIES_TARGET_MS = 20.0
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
        begin_cpu = time.process_time()
        read = sum(len(path.read_bytes()) for path in folder.rglob("*.rres"))
        plain_cpu_s = time.process_time() - begin_cpu
        with History(folder) as history:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            count = history.update()
            index_s, index_cpu_s = time.perf_counter() - begin, time.process_time() - begin_cpu
            begin = time.perf_counter()
            history.update()
            again_s = time.perf_counter() - begin
            all_s, alone_s = [], []
            for _ in range(5):
                begin = time.process_time()
                series = next(iter(by_series(history.entries(kernel="^kernel_0$")).values()))
                all_s.append(time.process_time() - begin)
                with contextlib.closing(sqlite3.connect(index_file(folder))) as database:
                    begin = time.process_time()
                    database.execute("SELECT * FROM results WHERE kernel = 'kernel_0'").fetchall()
                    alone_s.append(time.process_time() - begin)
        with History(folder) as history:
            history.update()
            begin_cpu = time.process_time()
            history.pack()
            pack_cpu_s = time.process_time() - begin_cpu
        index_file(folder).unlink()
        with History(folder) as history:
            begin_cpu = time.process_time()
            packed = history.update()
            packed_cpu_s = time.process_time() - begin_cpu
            packed_s = []
            for _ in range(5):
                begin = time.process_time()
                assert len(next(iter(by_series(history.entries(kernel="^kernel_0$")).values()))) == len(
                    series
                )
                packed_s.append(time.process_time() - begin)
        begin = time.perf_counter()
        change_points([float(entry.median_ns or 0) for entry in series])
        changes_s = time.perf_counter() - begin
    finally:
        shutil.rmtree(folder)
    print(f"{count:,} results ({read / 1e6:.0f} MB) indexed in {index_s:.2f} s, again in {again_s:.2f} s")
    print(f"{changes_s * 1e3:.1f} ms for the change points of {len(series)} results")
    each_us = 1e6 / count
    figures = [
        Figure(
            "index, us of CPU time a result", index_cpu_s * each_us, INDEX_TARGET_US,
            f"reading the files {plain_cpu_s * each_us:.1f}",
        ),
        Figure(
            "index of packs, us of CPU time a result", packed_cpu_s / packed * 1e6, INDEX_TARGET_US,
            f"packing them {pack_cpu_s / packed * 1e6:.1f}",
        ),
        Figure("a series of 1,000 in a pack, ms", min(packed_s) * 1e3, SERIES_TARGET_MS),
        Figure(
            "a series of 1,000, ms", min(all_s) * 1e3, SERIES_TARGET_MS, f"SQLite alone {min(alone_s) * 1e3:.1f}"
        ),
    ]  # fmt: skip
    return finish("history", figures, options.output, results=count, again_s=again_s)


if __name__ == "__main__":
    sys.exit(main())
