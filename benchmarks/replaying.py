"""How fast a replay is: the whole command, the submission of many launches, and the loading of memory.

    python benchmarks/replaying.py [--rounds N] [--bytes N] [--launches N] [--folder DIR] [--output FILE.json]

On the built-in CPU driver, side by side in rounds, the least of each side counting:

- `replay run --quick` of a snapshot of 10 MB, whole command, beside a Python that only imports what a replay imports.
  Its kernel takes next to no time, so all of it is the tool's own.
- a window of 10,000 launches of a kernel that does nothing, replayed, beside a loop in C that launches it as often:
  host time of a launch in nanoseconds, the driver's own included, and as a ratio to the loop.
- whole windows (`--all`) of 10,000 and of 100,000 such launches: CPU time of `replay run --no-timing` with its workers
  for each launch between the two, so that what a command takes anyway is left out, less that of the loop in C; CPU time
  of loading the calls for each launch, and the memory that this takes.
- commands on whole programs: `run --quick` of 10 launches beside `import cuda.bindings.driver` alone; `info` of 10 and
  of ten times --launches launches; `capture --all` beside the program alone; `run` of 20,000 launches with timing
  beside `run --no-timing`. CPU time with all processes of a command.
- loading memory, from the stage of that name to the next, beside `zstd -d` of the same bytes, compressed at level 1,
  into a file beside it. Loading ends with the bytes in the driver's memory and every one of them checked by BLAKE3;
  `zstd -d` ends with them in the page cache, checked by XXH64, zeros left out as a hole. Both read a file that was just
  written. `zstd -d` decompresses in one thread and reads and writes in two others; loading has a thread for each
  processor, which does all of it.

CPU seconds do not count what other processes took: of a whole command the lesser of wall and CPU seconds is held
against its target. Loading is compared with its target by wall seconds; the ratio of CPU seconds is beside it, and
says on a machine that does other things too whether it is the work or the waiting that differs. As after an
installation, modules are compiled beforehand. Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

HERE = Path(__file__).resolve().parent
QUICK_TARGET_S = 1.2
QUICK_BYTES = 10_000_000
LAUNCH_TARGET_NS = 3_000.0
LAUNCH_TARGET_RATIO = 4.0
WINDOW_TARGET_NS = 2_000.0
LOAD_TARGET_RATIO = 1.0
TIMED_LAUNCHES = 20_000
TIMED_TARGET_RATIO = 4.0
IMPORT_TARGET_RATIO = 2.0
INFO_TARGET_S = 0.4
CAPTURE_TARGET_S = 1.0  # more than the program alone
IMPORTS = "import blake3, msgpack, zstandard, typer, cuda.bindings.driver"


@dataclass
class Cost:
    """Of one process: wall and CPU seconds."""

    wall_s: float
    cpu_s: float


def processor() -> str:
    """The model, as Linux names it; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def children_cpu_s() -> float:
    """CPU seconds that the living children of this process have taken; in steps of a clock tick, mostly 10 ms."""
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime, stime (proc_pid_stat(5))
    return ticks / os.sysconf("SC_CLK_TCK")


def process(command: list[str], **environment: str) -> Cost:
    """Run a command to its end. Raises SystemExit(3) when it fails."""
    started = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONSAFEPATH": "1", **environment},
        cwd="/",
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        print(f"`{' '.join(command)}` ended with status {child.returncode}", file=sys.stderr)
        raise SystemExit(3)
    return Cost(time.perf_counter() - started, usage.ru_utime + usage.ru_stime)


def least(costs: list[Cost]) -> Cost:
    """The least of each figure."""
    return Cost(min(cost.wall_s for cost in costs), min(cost.cpu_s for cost in costs))


def replay(*words: str) -> list[str]:
    return [sys.executable, "-m", "replay", *words]


def capture(folder: Path, name: str, selection: list[str], application: list[str]) -> Path:
    snapshot = folder / name
    process(replay("capture", "--driver", "emulator", *selection, "-o", str(snapshot), "--", *application))
    return snapshot


def quick(folder: Path, rounds: int) -> dict[str, Any]:
    """The whole command."""
    script = folder / "ten_megabytes.py"
    code = (HERE / "large_memory.py").read_text()
    code = code.replace("BUFFER_BYTES = 32 << 20", f"BUFFER_BYTES = {QUICK_BYTES // 4 // 4096 * 4096}")
    script.write_text(code.replace("parents[1]", f"parents[0] / {str(HERE.parent)!r}"))
    snapshot = capture(
        folder, "quick.rsnap", ["--kernel", "pointer_table"], [sys.executable, str(script), str(QUICK_BYTES)]
    )
    ours: list[Cost] = []
    imports: list[Cost] = []
    for _ in range(rounds):
        ours.append(process(replay("run", "--driver", "emulator", "--quick", "-q", str(snapshot))))
        imports.append(process([sys.executable, "-c", IMPORTS]))
    best, base = least(ours), least(imports)
    return {
        "snapshot_bytes": snapshot.stat().st_size,
        "run": asdict(best),
        "imports_alone": asdict(base),
        "ratio": best.wall_s / base.wall_s,
        "figures": [Figure("run --quick of 10 MB, s", min(best.wall_s, best.cpu_s), QUICK_TARGET_S)],
    }


def launches(folder: Path, rounds: int, count: int) -> dict[str, Any]:
    """A window of many launches."""
    from replay.drivers import emulator_library
    from replay.run.parent import RunOptions, run_snapshot
    from replay.timing.stopping import StoppingParameters

    application = folder / "launches"
    compiler = os.environ.get("CC", "cc")
    source = str(HERE / "submission" / "launches.c")
    subprocess.run([compiler, "-O2", source, "-o", str(application), "-ldl"], check=True)
    ptx = str(HERE / "submission" / "noop.ptx")
    selection = ["--kernel", "noop", "--launch", f"1-{count}"]
    snapshot = capture(folder, "launches.rsnap", selection, [str(application), ptx, str(count), "1"])
    in_c: list[float] = []
    here: list[float] = []
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_library().parent)}
    for _ in range(rounds):
        done = subprocess.run([str(application), ptx, str(count), "5"], env=environment, check=True,
                              capture_output=True, text=True)  # fmt: skip
        in_c.append(float(done.stdout.split()[1]))
        result = run_snapshot(
            snapshot, RunOptions(driver="emulator", timing=StoppingParameters(fixed_samples=5), caches="cold")
        )
        if result.timing is None or result.verification.verdict not in ("match", "not_compared"):
            raise SystemExit(3)
        here.append(min(result.timing.host_time_ns) / count)
    ratio = min(here) / min(in_c)
    return {
        "launches": count,
        "replay_ns_per_launch": min(here),
        "c_loop_ns_per_launch": min(in_c),
        "added_ns_per_launch": min(here) - min(in_c),
        "ratio": ratio,
        "figures": [
            Figure("a launch, ns", min(here), LAUNCH_TARGET_NS),
            Figure("a launch, to a loop in C", ratio, LAUNCH_TARGET_RATIO),
        ],
    }


LOADING = """
import resource, sys, time
from replay.engine.program import Program
from replay.snapshot.container import SnapshotReader
begin, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with SnapshotReader(sys.argv[1]) as reader:
    Program(reader, best_effort=False)
print(time.process_time() - begin, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) * 1024)
"""


def windows(folder: Path, rounds: int, counts: tuple[int, int]) -> dict[str, Any]:
    """Windows that are whole programs, a short one and a long one."""
    from replay.drivers import emulator_library

    application, ptx = folder / "whole", str(HERE / "submission" / "noop.ptx")
    source = str(HERE / "submission" / "launches.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", source, "-o", str(application), "-ldl"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_library().parent)}
    in_c: list[float] = []
    runs: dict[int, list[Cost]] = {count: [] for count in counts}
    loads: dict[int, list[tuple[float, int]]] = {count: [] for count in counts}
    snapshots = {
        count: capture(folder, f"whole-{count}.rsnap", ["--all"], [str(application), ptx, str(count), "1"])
        for count in counts
    }
    for _ in range(rounds):
        done = subprocess.run([str(application), ptx, str(counts[1]), "1"], env=environment, check=True,
                              capture_output=True, text=True)  # fmt: skip
        in_c.append(float(done.stdout.split()[0]))
        for count, snapshot in snapshots.items():
            runs[count].append(
                process(replay("run", "--driver", "emulator", "--no-timing", "-q", str(snapshot)))
            )
            told = subprocess.run([sys.executable, "-c", LOADING, str(snapshot)], check=True, text=True,
                                  capture_output=True, env={**os.environ, "PYTHONSAFEPATH": "1"})  # fmt: skip
            seconds, held = told.stdout.split()
            loads[count].append((float(seconds), int(held)))
    short, long = counts
    cost = {count: least(found).cpu_s for count, found in runs.items()}
    load = {count: min(seconds for seconds, _ in found) for count, found in loads.items()}
    memory = {count: min(held for _, held in found) for count, found in loads.items()}
    ns = (cost[long] - cost[short]) / (long - short) * 1e9
    return {
        "launches": list(counts),
        "run_cpu_s": [cost[short], cost[long]],
        "run_ns_per_launch": ns,
        "c_loop_cpu_ns_per_launch": min(in_c),
        "added_ns_per_launch": ns - min(in_c),
        "load_ns_per_launch": (load[long] - load[short]) / (long - short) * 1e9,
        "load_bytes_per_launch": (memory[long] - memory[short]) / (long - short),
        "figures": [
            Figure(
                "a launch of a long window, ns more than a loop in C",
                ns - min(in_c),
                WINDOW_TARGET_NS,
                f"the loop {min(in_c):.0f}",
            )
        ],
    }


def commands(folder: Path, rounds: int, launches: int) -> dict[str, Any]:
    """Whole commands beside what they cannot do without."""
    from replay.drivers import emulator_library

    application, ptx = folder / "commands", str(HERE / "submission" / "noop.ptx")
    source = str(HERE / "submission" / "launches.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", source, "-o", str(application), "-ldl"], check=True)
    programs = {count: [str(application), ptx, str(count), "1"] for count in (10, TIMED_LAUNCHES, launches)}
    snapshots = {
        count: capture(folder, f"commands-{count}.rsnap", ["--all"], program)
        for count, program in programs.items()
    }
    words = ("run", "--driver", "emulator", "-q")
    measured = {
        "import": [sys.executable, "-c", "import cuda.bindings.driver"],
        "quick": replay(*words, "--quick", str(snapshots[10])),
        "info": replay("info", str(snapshots[10])),
        "info_long": replay("info", str(snapshots[launches])),
        "program": programs[10],
        "capture": replay("capture", "--driver", "emulator", "--all", "-q", "-o", str(folder / "again.rsnap"), "--",
                          *programs[10]),
        "run": replay(*words, str(snapshots[TIMED_LAUNCHES])),
        "run_no_timing": replay(*words, "--no-timing", str(snapshots[TIMED_LAUNCHES])),
    }  # fmt: skip
    costs: dict[str, list[Cost]] = {name: [] for name in measured}
    for _ in range(rounds):
        for name, command in measured.items():
            costs[name].append(process(command, LD_LIBRARY_PATH=str(emulator_library().parent)))
    cost = {name: least(found).cpu_s for name, found in costs.items()}
    return {
        **{f"{name}_cpu_s": seconds for name, seconds in cost.items()},
        "figures": [
            Figure(
                "run --quick, to importing cuda.bindings.driver",
                cost["quick"] / cost["import"],
                IMPORT_TARGET_RATIO,
                f"the import {cost['import']:.2f} s",
            ),
            Figure("info of a short window, CPU s", cost["info"], INFO_TARGET_S),
            Figure("info of a long window, CPU s", cost["info_long"], INFO_TARGET_S),
            Figure(
                "capture --all, CPU s more than the program",
                cost["capture"] - cost["program"],
                CAPTURE_TARGET_S,
                f"the program {cost['program']:.2f} s",
            ),
            Figure(
                "run of 20,000 launches, to --no-timing",
                cost["run"] / cost["run_no_timing"],
                TIMED_TARGET_RATIO,
            ),
        ],
    }


def large_memory() -> Any:
    """The program whose memory is loaded, as a module."""
    specification = importlib.util.spec_from_file_location("large_memory", HERE / "large_memory.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def loading(folder: Path, rounds: int, size_bytes: int) -> dict[str, Any] | None:
    """Memory from the file into the driver's memory."""
    from replay.run.parent import RunOptions, run_snapshot

    tool = shutil.which("zstd")
    if tool is None:
        print("loading: skipped, there is no zstd command to compare with")
        return None
    large = [sys.executable, str(HERE / "large_memory.py"), str(size_bytes)]
    snapshot = capture(folder, "large.rsnap", ["--kernel", "pointer_table"], large)
    plain, stream = folder / "large.bin", folder / "large.zst"
    with open(plain, "wb") as file:
        for index in range(max(1, size_bytes // (32 << 20))):
            file.write(large_memory().contents(index))
    process([tool, "-q", "-f", "-1", str(plain), "-o", str(stream)])
    held = plain.stat().st_size
    plain.unlink()
    ours: list[Cost] = []
    zstd: list[Cost] = []
    for _ in range(rounds):
        zstd.append(process([tool, "-q", "-d", "-f", str(stream), "-o", str(plain)]))
        plain.unlink()
        stamps: list[tuple[str, float, float]] = []

        def stamp(text: str, stamps: list[tuple[str, float, float]] = stamps) -> None:
            at = time.perf_counter()
            stamps.append((text, at, children_cpu_s()))

        run_snapshot(snapshot, RunOptions(driver="emulator", timing=None), stamp)
        first = next(number for number, (text, *_) in enumerate(stamps) if text.startswith("loading memory"))
        following = (item for item in stamps[first:] if not item[0].startswith("loading memory"))
        ours.append(
            Cost(*(end - begin for begin, end in zip(stamps[first][1:], next(following)[1:], strict=True)))
        )
    best, base = least(ours), least(zstd)
    ratio = base.wall_s / best.wall_s
    return {
        "bytes": held,
        "snapshot_bytes": snapshot.stat().st_size,
        "load": asdict(best),
        "zstd": asdict(base),
        "ratio": ratio,
        "ratio_of_cpu_s": base.cpu_s / best.cpu_s,
        "figures": [Figure("loading, times as fast as zstd -d", ratio, LOAD_TARGET_RATIO, at_most=False)],
    }


def main() -> int:
    """Measure, print, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=512 << 20, help="memory to load")
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--only", choices=("quick", "launches", "windows", "commands", "loading"))
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, Any] | None] = {}
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
        folder = Path(name)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        if options.only in (None, "quick"):
            found["quick"] = quick(folder, options.rounds)
        if options.only in (None, "launches"):
            found["launches"] = launches(folder, options.rounds, options.launches)
        if options.only in (None, "windows"):
            found["windows"] = windows(folder, options.rounds, (options.launches, 10 * options.launches))
        if options.only in (None, "commands"):
            found["commands"] = commands(folder, options.rounds, 10 * options.launches)
        if options.only in (None, "loading"):
            found["loading"] = loading(folder, options.rounds, options.bytes)
    figures: list[Figure] = []
    for title, part in found.items():
        if part is None:
            continue
        print(title)
        figures += part.pop("figures")
        for key, value in part.items():
            print(f"  {key:24} {value:.4g}" if isinstance(value, float) else f"  {key:24} {value}")
    return finish(
        "replaying",
        figures,
        options.output,
        command=" ".join(["python", "benchmarks/replaying.py", *sys.argv[1:]]),
        date_utc=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        machine=platform.machine(),
        processor=processor(),
        processors=os.cpu_count(),
        python=platform.python_version(),
        parts=found,
    )


if __name__ == "__main__":
    sys.exit(main())
