"""What capturing contents costs: copying them, packing them, and doing so again for each of many launches.

    python benchmarks/capture.py [--bytes N] [--windows N] [--launches N] [--rounds N] [--driver DIR]
                                 [--folder DIR] [--output FILE.json]
    python benchmarks/capture.py --long 10000,100000,1000000 [--driver DIR] [--folder DIR] [--output FILE.json]

Side by side in rounds, medians of the rounds:
- copy: what the application was held up for by the first copy and the comparison at the window's end, against a
  plain copy of the same bytes from memory into a file;
- pack: `replay pack` against zstd at level 1 with all threads on the same bytes, both until the file is on the disk;
- each: the whole of `replay capture --each` with --windows launches that change 1 % of the buffer each, against one;
- window: launches packed per second in a window of --launches launches, and in one four times as long.
With --long only windows of so many launches of many_launches.py: what packing each takes, how large it gets, and what
reading its raw records once takes.
CPU times are given beside the wall times that the targets are for: other work on the machine disturbs them less.
Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish
from snapshot import COMPRESS, Usage, measured

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "changing_memory.py"
LONG_PROGRAM = HERE / "many_launches.py"
COPY_TARGET_RATIO = 1.2  # of the time of a plain copy, at most
PACK_TARGET_RATIO = 1.0  # of the throughput of zstd, at least
PACK_TARGET_BYTES = 1_000_000_000
EACH_TARGET_SIZE = 2.2  # of the size and the time of one launch, at most
EACH_TARGET_TIME = 3.0
LINEAR_TARGET = 1.25  # time a launch in a window four times as long, at most
LONG_TARGET_LAUNCHES = 100_000  # windows of fewer are the start of a command, and their buffers are not full
LONG_TARGET_RATE = 100_000  # launches per CPU second
LONG_TARGET_BYTES = 12  # of file for each launch more
LONG_TARGET_MEMORY = 1.2  # resident in the longest window, of that in the shortest of these, at most
PIECE_BYTES = 8 << 20

# Goes through the raw records once, checks included, and prints the CPU seconds that this took.
READ_RECORDS = """
import sys, time
from pathlib import Path
from replay.raw.columns import Scanner
from replay.raw.records import RawFile
scanner, began = Scanner(), time.process_time()
for path in Path(sys.argv[1]).glob("calls.*.bin"):
    with RawFile(path) as raw:
        for piece in raw.pieces(scanner):
            pass
print(time.process_time() - began)
"""


def plain_copy(folder: Path, size_bytes: int) -> float:
    """Seconds for writing as many bytes of noise from memory into a new file."""
    noise = np.random.default_rng(1).integers(0, 256, PIECE_BYTES, np.uint8).data
    path = folder / "plain.bin"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.sync()
    started = time.perf_counter()
    for begin in range(0, size_bytes, PIECE_BYTES):
        os.pwrite(descriptor, noise[: min(PIECE_BYTES, size_bytes - begin)], begin)
    seconds = time.perf_counter() - started
    os.close(descriptor)
    path.unlink()
    return seconds


def program(size_bytes: int, launches: int, percent: float) -> list[str]:
    return [sys.executable, str(PROGRAM), str(size_bytes), str(launches), str(percent)]


def raw_capture(folder: Path, driver: str | None, command: list[str], **selection: str) -> Path:
    """A raw capture, as it is before it is packed."""
    from replay.drivers import find_driver, interposer_library

    raw = folder / "raw.rcap"
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir()
    chosen = find_driver(driver)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(interposer_library()),
        "REPLAY_CAPTURE_DIRECTORY": str(raw),
    }
    environment |= {f"REPLAY_CAPTURE_{name.upper()}": value for name, value in selection.items()}
    if chosen.folder is not None:
        environment["LD_LIBRARY_PATH"] = str(chosen.folder)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return raw


def summary_of(snapshot: Path) -> dict[str, object]:
    from replay.results.json import plain
    from replay.snapshot.contents import Snapshot

    with Snapshot(snapshot) as opened:
        return dict(plain(opened.info().summary))


def pack(raw: Path, snapshot: Path) -> Usage:
    snapshot.unlink(missing_ok=True)
    command = [sys.executable, "-m", "replay", "pack", "-q", str(raw), "-o", str(snapshot)]
    return measured(command, snapshot)


def compress(raw: Path, stream: Path) -> Usage:
    blobs = sorted(map(str, raw.glob("blobs.*.bin")))
    stream.unlink(missing_ok=True)
    zstd = shutil.which("zstd")
    if zstd and len(blobs) == 1:
        return measured([zstd, "-1", "-T0", "-q", "-f", blobs[0], "-o", str(stream)], stream)
    return measured([sys.executable, "-c", COMPRESS, str(stream), *blobs], stream)


def whole_capture(snapshot: Path, driver: str | None, size_bytes: int, windows: int) -> Usage:
    """`replay capture --each` from beginning to end."""
    snapshot.unlink(missing_ok=True)
    chosen = ["--driver", driver] if driver else []
    command = [sys.executable, "-m", "replay", "capture", "-q", *chosen, "--kernel", "step", "--each", "-o"]
    return measured([*command, str(snapshot), "--", *program(size_bytes, windows, 1)], snapshot)


def long_windows(options: argparse.Namespace) -> int:
    """Measure, print, and return an exit status."""
    samples = []
    for launches in map(int, options.long.split(",")):
        with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
            snapshot = Path(name) / "long.rsnap"
            command = [sys.executable, str(LONG_PROGRAM), str(launches)]
            raw = raw_capture(Path(name), options.driver, command, all="1")
            read = subprocess.run(
                [sys.executable, "-c", READ_RECORDS, str(raw)], check=True, capture_output=True, text=True
            )
            used = [pack(raw, snapshot) for _ in range(options.rounds)]
            cpu_s = min(one.cpu_seconds for one in used)
            samples.append(
                {
                    "launches": launches,
                    "cpu_s": cpu_s,
                    "launches_per_cpu_s": launches / cpu_s,
                    "reading_cpu_s": float(read.stdout),
                    "bytes": snapshot.stat().st_size,
                    "raw_bytes": sum(path.stat().st_size for path in raw.glob("calls.*.bin")),
                    "resident_bytes": max(one.resident_bytes for one in used),
                }
            )
        last = samples[-1]
        print(
            f"{launches:9,} launches: {last['launches_per_cpu_s']:9,.0f} a CPU second ({cpu_s:.2f} s; reading the "
            f"records once {last['reading_cpu_s']:.2f} s), {last['bytes'] / launches:.1f} bytes each (raw "
            f"{last['raw_bytes'] / launches:.0f}), {last['resident_bytes'] / 1e6:.0f} MB resident"
        )
    shortest, longest = samples[0], samples[-1]
    more = max(1, longest["launches"] - shortest["launches"])
    long = [one for one in samples if one["launches"] >= LONG_TARGET_LAUNCHES] or samples[-1:]
    figures = [
        Figure(
            "packing, launches a CPU second",
            min(one["launches_per_cpu_s"] for one in long),
            LONG_TARGET_RATE,
            f"reading the records once {max(one['launches'] / one['reading_cpu_s'] for one in long):,.0f}",
            at_most=False,
        ),
        Figure(
            "packing, bytes for each launch more",
            (longest["bytes"] - shortest["bytes"]) / more,
            LONG_TARGET_BYTES,
            f"raw {longest['raw_bytes'] / longest['launches']:.0f}",
        ),
        Figure(
            "packing, memory of the longest window to that of a shorter",
            longest["resident_bytes"] / long[0]["resident_bytes"],
            LONG_TARGET_MEMORY,
        ),
    ]
    return finish("long windows", figures, options.output, samples=samples)


def main() -> int:
    """Measure, print, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the buffer")
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--launches", type=int, default=10_000, help="of the shorter long window")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--driver", help="system, emulator or a folder; the GPU's if there is one")
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("--long", metavar="N,N", help="only windows of so many launches")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.long:
        return long_windows(options)
    samples: dict[str, list[float]] = {}
    resident_bytes: dict[str, int] = {}

    def note(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
        folder = Path(name)
        snapshot, stream = folder / "one.rsnap", folder / "one.zst"
        for _ in range(options.rounds):
            raw = raw_capture(
                folder, options.driver, program(options.bytes, 1, 1), kernel="step", launch="1-1"
            )
            used = pack(raw, snapshot)
            perturbation = summary_of(snapshot)["perturbation"]
            assert isinstance(perturbation, dict)
            stored = sum(path.stat().st_size for path in raw.glob("blobs.*.bin"))
            plain_s = plain_copy(folder, stored)
            note("copy_s", perturbation["copy_ns"] / 1e9)
            note("plain_copy_s", plain_s)
            note("copy_ratio", perturbation["copy_ns"] / 1e9 / plain_s)
            zstd = compress(raw, stream)
            note("pack_s", used.seconds)
            note("zstd_s", zstd.seconds)
            note("pack_ratio", zstd.seconds / used.seconds)
            note("pack_cpu_ratio", zstd.cpu_seconds / used.cpu_seconds)
            resident_bytes["pack"] = max(used.resident_bytes, resident_bytes.get("pack", 0))
        shutil.rmtree(folder / "raw.rcap")
        stream.unlink()
        sizes = {}
        for _ in range(max(1, options.rounds // 2)):
            taken = {}
            for windows in (1, options.windows):
                taken[windows] = whole_capture(snapshot, options.driver, options.bytes, windows)
                sizes[windows] = snapshot.stat().st_size
                note(f"each_{windows}_s", taken[windows].seconds)
                note(f"each_{windows}_cpu_s", taken[windows].cpu_seconds)
            note("each_time_ratio", taken[options.windows].seconds / taken[1].seconds)
            note("each_cpu_ratio", taken[options.windows].cpu_seconds / taken[1].cpu_seconds)
        note("each_size_ratio", sizes[options.windows] / sizes[1])
        for _ in range(options.rounds):
            a_launch = {}
            for launches in (options.launches, 4 * options.launches):
                command = program(4096, launches, 0)
                raw = raw_capture(folder, options.driver, command, kernel="step", launch=f"1-{launches}")
                used = pack(raw, snapshot)
                a_launch[launches] = used.seconds / launches
                note(f"launches_{launches}_per_s", launches / used.seconds)
                resident_bytes["long window"] = max(used.resident_bytes, resident_bytes.get("long window", 0))
            note("window_ratio", a_launch[4 * options.launches] / a_launch[options.launches])

    median = {name: statistics.median(values) for name, values in samples.items()}
    print(f"a buffer of {options.bytes / 1e6:.0f} MB, of which a launch changes 1 %")
    print(
        f"copy    {median['copy_s']:.2f} s, a plain copy {median['plain_copy_s']:.2f} s: "
        f"{median['copy_ratio']:.2f} x"
    )
    print(
        f"pack    {median['pack_s']:.2f} s, zstd -1 -T0 {median['zstd_s']:.2f} s: {median['pack_ratio']:.2f} x "
        f"as fast ({median['pack_cpu_ratio']:.2f} x of CPU time), "
        f"{resident_bytes['pack'] / 1e6:.0f} MB resident"
    )
    print(
        f"each    {options.windows} launches {median[f'each_{options.windows}_s']:.1f} s, one "
        f"{median['each_1_s']:.1f} s: {median['each_time_ratio']:.2f} x the time ("
        f"{median['each_cpu_ratio']:.2f} x of CPU time), "
        f"{median['each_size_ratio']:.2f} x the size"
    )
    print(
        f"window  {median[f'launches_{options.launches}_per_s']:.0f} launches/s packed of {options.launches}, "
        f"{median[f'launches_{4 * options.launches}_per_s']:.0f} of {4 * options.launches}: "
        f"{median['window_ratio']:.2f} x the time each, {resident_bytes['long window'] / 1e6:.0f} MB resident"
    )
    figures = [
        Figure("copy, to a plain copy", median["copy_ratio"], COPY_TARGET_RATIO),
        Figure("pack, times as fast as zstd -1 -T0", median["pack_ratio"], PACK_TARGET_RATIO, at_most=False),
        Figure("pack, MB resident", resident_bytes["pack"] / 1e6, PACK_TARGET_BYTES / 1e6),
        Figure("--each, size to that of one launch", median["each_size_ratio"], EACH_TARGET_SIZE),
        Figure("--each, time to that of one launch", median["each_time_ratio"], EACH_TARGET_TIME),
        Figure("window four times as long, time a launch", median["window_ratio"], LINEAR_TARGET),
    ]
    return finish(
        "capture",
        figures,
        options.output,
        date=datetime.date.today().isoformat(),
        machine=platform.processor() or platform.machine(),
        processors=os.cpu_count(),
        rounds=options.rounds,
        bytes=options.bytes,
        windows=options.windows,
        median=median,
        most_resident_bytes=resident_bytes,
        samples=samples,
    )


if __name__ == "__main__":
    sys.exit(main())
