"""What a candidate costs in a warm session, beside a fresh process for each, on the CPU driver.

    python benchmarks/session.py [--candidates 40] [-o FILE.json]

Each candidate is another text of the captured kernel, checked and timed as with --quick. Both kinds are asked for by
this process, which is warm, so what a command pays besides is in neither. Times on the wall are those of the fastest,
since other work on the machine only adds to them; CPU time is that of this process and all its children.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import replay

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "saxpy" / "saxpy.py"
FRESH = 8  # replays in fresh processes, which take longer


def cpu_s() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def resident_kib() -> int:
    """Memory that this process holds."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


def main() -> int:
    """The table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        capture = [
            sys.executable,
            "-m",
            "replay",
            "capture",
            "-q",
            "--driver",
            "emulator",
            "--kernel",
            "saxpy",
        ]
        application = [sys.executable, str(SAMPLE), "--ptx"]
        subprocess.run([*capture, "-o", str(folder / "x.rsnap"), "--", *application], check=True)
        snapshot = replay.open(folder / "x.rsnap")
        ptx = snapshot.image(snapshot.kernels[0].image).rstrip(b"\0").decode()
        number = 0

        def candidate(run: Callable[..., replay.Result]) -> float:
            nonlocal number
            number += 1
            file = folder / "candidate.ptx"
            file.write_text(f"{ptx}\n// {number}\n")
            begin_s = time.perf_counter()
            result = run(swap={"saxpy": file}, driver="emulator", quick=True)
            assert result.outputs.match
            return time.perf_counter() - begin_s

        candidate(snapshot.run)
        before_s = cpu_s()
        fresh = [candidate(snapshot.run) for _ in range(FRESH)]
        fresh_cpu_s = (cpu_s() - before_s) / FRESH
        before_s = cpu_s()
        with snapshot.session() as session:
            candidate(session.run)
        start_cpu_s = cpu_s() - before_s
        before_s = cpu_s()
        with snapshot.session() as session:
            candidate(session.run)
            held_kib = resident_kib()
            warm = [candidate(session.run) for _ in range(given.candidates)]
            grown_kib = resident_kib() - held_kib
        warm_cpu_s = (cpu_s() - before_s - start_cpu_s) / given.candidates
    figures = [
        Figure(
            "a candidate in a session, fastest, ms",
            1000 * min(warm),
            60,
            f"fresh: {1000 * min(fresh):.0f} ms",
        ),
        Figure(
            "a candidate in a session, CPU, ms", 1000 * warm_cpu_s, 60, f"fresh: {1000 * fresh_cpu_s:.0f} ms"
        ),
        Figure("growth of this process for a candidate, KiB", grown_kib / given.candidates, 10),
    ]
    medians = {
        "warm_median_ms": 1000 * statistics.median(warm),
        "fresh_median_ms": 1000 * statistics.median(fresh),
    }
    print(f"medians: {medians}; fresh, candidates: {FRESH}, {given.candidates}")
    return finish("session", figures, given.output, **medians)


if __name__ == "__main__":
    sys.exit(main())
