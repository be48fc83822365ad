"""What the shim adds to a driver call: with no window open, with an open window, in many threads, and to a program.

    python benchmarks/overhead.py [--rounds N] [--output FILE.json]

Everything is measured side by side in one run, against a driver that does nothing: rounds of the settings below follow
one another, each a fresh process, and of each setting the least counts, which other work on the machine disturbs
least. Times are CPU time of the calling thread, kernel included; wall time is printed beside.

    no shim           the same calls without it
    nothing asked     the shim is loaded, and no capture was asked for
    closed            a capture waits for a kernel that is never launched
    outside           a capture waits for a later launch of this kernel, so its launches are counted
    open              every launch is recorded
    listed            launches are counted and timed, for `capture --list`; a million of them
    Python frames     every launch of a Python program is recorded, with its frames and without them
    NVTX ranges       every launch is recorded inside so many, with them and without them; or each in one of its own

Exits 1 when a target is missed. REPLAY_TEST_INTERPOSER names another build than the installed package's.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

from replay.capture.variables import VariableService  # noqa: E402

HERE = Path(__file__).resolve().parent
BATCHES = 21
LISTED_BATCHES = 200
CALLS = 5_000  # per batch; an open window records each of them
THREADS = 8
PACE_PER_S = 200_000  # launches of the program whose slowdown is measured
PACED_CALLS = 2_000  # per batch

SETTINGS: dict[str, dict[str, str] | None] = {
    "no shim": None,
    "nothing asked": {},
    "closed": {"KERNEL": "^other$"},
    "outside": {"KERNEL": "^vector", "LAUNCH": "1000000000"},
    "open": {"KERNEL": "^vector"},
    "in 5 ranges": {"KERNEL": "^vector", "NVTX_STACKS": "1"},
    "each in one": {"KERNEL": "^vector", "NVTX_STACKS": "1"},
    "listed": {"LIST": "1"},
}
RANGES = {"in 5 ranges": 5, "each in one": -1}  # of NVTX
RECORDED = ("open", *RANGES)
FRAMES = (5, 60)
IN_NS = ("launch, closed", "copy, closed", "launch, open", "launch, listed")
TARGETS = {
    "launch, closed": 5.0,  # ns added
    "copy, closed": 10.0,
    "launch, open": 200.0,
    "never swapped in": 1.0,  # what two runs of the same code differ by
    "launch, listed": 150.0,
    "resident MB, listed": 50.0,  # more than without the shim
    "command after the end, s": 1.0,  # CPU time of `capture --list` for a million launches, less that for 5,000
    "8 threads to 1, open": 1.1,  # CPU time a launch, as a ratio
    "8 threads to 1, closed": 1.1,  # CPU time a launch, as a ratio; a tenth is what runs of the same code differ by
    **{f"{frames} Python frames, ns a launch": 5000.0 for frames in FRAMES},
    **{f"NVTX, {setting}, ns a launch": 50.0 for setting in RANGES},
    "200,000 launches/s, closed": 1.01,  # CPU time, as a ratio
}


@dataclass
class Times:
    """ns a call, the least of all rounds; CPU time but for `wall`. resident: bytes of the process at most."""

    launch: float
    wall: float
    copy: float
    never: float
    resident: float

    def least(self, other: Times) -> Times:
        return Times(*map(min, zip(vars(self).values(), vars(other).values(), strict=True)))


def interposer() -> Path:
    if named := os.environ.get("REPLAY_TEST_INTERPOSER"):
        return Path(named).resolve()
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "libreplay_interposer.so"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} processors"
    return f"{platform.machine()}, {os.cpu_count()} processors"


def build(folder: Path) -> Path:
    compiler = [os.environ.get("CC", "cc"), "-O2", "-w"]
    library = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]
    driver = folder / "libcuda.so.1"
    subprocess.run([*compiler, str(HERE / "overhead" / "driver.c"), *library, "-o", str(driver)], check=True)
    application = folder / "application"
    source = str(HERE / "overhead" / "application.c")
    subprocess.run([*compiler, source, "-o", str(application), "-ldl", "-lpthread"], check=True)
    return application


def measure(application: Path, setting: str, *, threads: int = 1, work: int = 0) -> Times:
    """One fresh process."""
    selection = SETTINGS[setting]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(application.parent)}
    environment.pop("LD_PRELOAD", None)
    with tempfile.TemporaryDirectory(dir=application.parent, suffix=".rcap") as directory:
        if selection is not None:
            environment["LD_PRELOAD"] = str(interposer())
        if selection:
            environment["REPLAY_CAPTURE_DIRECTORY"] = directory
            environment.update({f"REPLAY_CAPTURE_{name}": value for name, value in selection.items()})
        calls, copies = (PACED_CALLS if work else CALLS), int(setting not in RECORDED and not work)
        batches = LISTED_BATCHES if setting == "listed" else BATCHES
        words = ["vector_add", *map(str, (threads, batches, calls, copies, work, RANGES.get(setting, 0)))]
        if setting in RANGES:
            environment["NVTX_INJECTION64_PATH"] = str(interposer())
        with VariableService(Path(directory)):  # as `replay capture` does
            done = subprocess.run(
                [str(application), *words], env=environment, check=True, capture_output=True, text=True
            )
        return Times(*map(float, done.stdout.split()))


def python_launch_ns(application: Path, frames: int, *, stacks: bool) -> float:
    """CPU time of a launch out of Python, recorded; the least of the batches of a fresh process."""
    with tempfile.TemporaryDirectory(dir=application.parent, suffix=".rcap") as directory:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(application.parent),
            "LD_PRELOAD": str(interposer()),
            "REPLAY_CAPTURE_DIRECTORY": directory,
            "REPLAY_CAPTURE_KERNEL": "^vector",
            "REPLAY_CAPTURE_PYTHON_STACKS": str(int(stacks)),
        }
        command = [sys.executable, str(HERE / "overhead" / "launches.py")]
        words = ["vector_add", *map(str, (BATCHES, PACED_CALLS, frames))]
        done = subprocess.run([*command, *words], env=environment, check=True, capture_output=True, text=True)
        return float(done.stdout)


def added_by_frames(application: Path, frames: int, rounds: int) -> float:
    """In ns a launch: the least with the frames, less the least without them."""
    both = [
        [python_launch_ns(application, frames, stacks=stacks) for stacks in (False, True)]
        for _ in range(rounds)
    ]
    return min(with_frames for _, with_frames in both) - min(without for without, _ in both)


def listing_seconds(application: Path, batches: int) -> float:
    """CPU time of `replay capture --list` itself: of the whole, less what the application takes without it."""
    words = [str(application), "vector_add", "1", str(batches), str(CALLS), "0", "0"]
    command = [sys.executable, "-m", "replay", "capture", "--list", "-q", "--json"]
    taken = []
    for prefix in ([*command, "--driver", str(application.parent), "--"], []):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(application.parent)}
        subprocess.run([*prefix, *words], check=True, stdout=subprocess.DEVNULL, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return taken[0] - taken[1]


def work_for_pace(application: Path) -> int:
    """Rounds of arithmetic between two launches that make it PACE_PER_S launches a second without the shim."""
    trial = 4_000
    return round(trial * (1e9 / PACE_PER_S) / measure(application, "no shim", work=trial).launch)


def in_turns(rounds: int, once: dict[str, Callable[[], Times]]) -> dict[str, Times]:
    """The least times of each, measured round by round."""
    found: dict[str, Times] = {}
    for _ in range(rounds):
        for name, run in once.items():
            times = run()
            found[name] = found[name].least(times) if name in found else times
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if not interposer().exists():
        print(f"no {interposer()}: run `make setup`, or set REPLAY_TEST_INTERPOSER", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as name:
        application = build(Path(name))
        work = work_for_pace(application)
        settings = ("no shim", "closed")
        one = in_turns(options.rounds, {name: partial(measure, application, name) for name in SETTINGS})
        many = in_turns(
            options.rounds,
            {name: partial(measure, application, name, threads=THREADS) for name in (*settings, "open")},
        )
        paced = in_turns(
            options.rounds,
            {name: partial(measure, application, name, work=work) for name in settings},
        )
        of_frames = {
            f"{frames} Python frames, ns a launch": added_by_frames(application, frames, options.rounds)
            for frames in FRAMES
        }
        listing = min(listing_seconds(application, LISTED_BATCHES) for _ in range(3))
        listing -= min(listing_seconds(application, 1) for _ in range(3))
    plain = one["no shim"]
    print(f"{'':16}{'launch ns':>10}{'added':>8}{'ratio':>8}{'wall ns':>9}{'copy ns':>9}{'added':>8}")
    for name, times in one.items():
        added, ratio = times.launch - plain.launch, times.launch / plain.launch
        launch = f"{times.launch:10.1f}{added:8.1f}{ratio:8.2f}{times.wall:9.1f}"
        copy = f"{times.copy:9.1f}{times.copy - plain.copy:8.1f}" if name not in RECORDED else ""
        print(f"{name:16}{launch}{copy}")
    rate = 1e9 / paced["no shim"].launch
    reached = {
        "launch, closed": one["closed"].launch - plain.launch,
        "copy, closed": one["closed"].copy - plain.copy,
        "launch, open": one["open"].launch - plain.launch,
        "never swapped in": one["closed"].never - plain.never,
        "launch, listed": one["listed"].launch - plain.launch,
        "resident MB, listed": (one["listed"].resident - plain.resident) / 1e6,
        "command after the end, s": listing,
        **of_frames,
        **{f"NVTX, {setting}, ns a launch": one[setting].launch - one["open"].launch for setting in RANGES},
        "8 threads to 1, open": many["open"].launch / one["open"].launch,
        "8 threads to 1, closed": many["closed"].launch / one["closed"].launch,
        "200,000 launches/s, closed": paced["closed"].launch / paced["no shim"].launch,
    }
    print(f"\nthe paced program: {rate:,.0f} launches a second without the shim")
    call = f"the call itself {plain.launch:.1f}"
    return finish(
        "overhead",
        [
            Figure(name, value, TARGETS[name], call if name in IN_NS else "")
            for name, value in reached.items()
        ],
        options.output,
        date=datetime.date.today().isoformat(),
        machine=processor(),
        kernel=platform.release(),
        load_average=os.getloadavg(),
        rounds=options.rounds,
        one_thread_ns={name: vars(times) for name, times in one.items()},
        threads=THREADS,
        many_threads_ns={name: vars(times) for name, times in many.items()},
        paced_ns={name: vars(times) for name, times in paced.items()},
        launches_per_s=rate,
    )


if __name__ == "__main__":
    sys.exit(main())
