"""How fast a large snapshot is written and looked at.

    python benchmarks/snapshot.py [--bytes N] [--rounds N] [--driver DIR] [--output FILE.json]

Captures a program that reaches N bytes of device memory once, then measures, side by side in rounds:
`replay pack` of the raw capture against zstd at level 1 with all threads on the same bytes, both until the file is on
the disk, and `replay info` on the snapshot as a whole process. Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

HERE = Path(__file__).resolve().parent
INFO_TARGET_S = 0.4
INFO_TARGET_BYTES = 100_000_000
PACK_TARGET_RATIO = 1.0
# Packing may keep a few chunks for each thread; it must not grow with the snapshot.
PACK_TARGET_BYTES = 500_000_000

# Reads its arguments as files and writes them as one zstd stream.
COMPRESS = """
import sys, zstandard
with open(sys.argv[1], "wb") as target:
    compressor = zstandard.ZstdCompressor(level=1, threads=-1)
    with compressor.stream_writer(target, closefd=False) as writer:
        for name in sys.argv[2:]:
            with open(name, "rb") as source:
                while block := source.read(4 << 20):
                    writer.write(block)
"""


@dataclass(frozen=True)
class Usage:
    """What one process took: wall time in seconds, and the most memory it had resident, in bytes. cpu_seconds: of user
    and kernel, with the processes that it waited for; other work on the machine disturbs it less."""

    seconds: float
    resident_bytes: int
    cpu_seconds: float


def measured(command: list[str], output: Path | None = None) -> Usage:
    """Run a command until its output is on the disk. Raises SystemExit when it fails."""
    os.sync()  # what the command before it wrote must not slow this one
    started = time.perf_counter()
    # The installed package: `python -m` would take one from the current folder, which has no native parts.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, cwd="/"
    )
    _, status, usage = os.wait4(process.pid, 0)
    if output is not None and output.exists():
        descriptor = os.open(output, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(f"`{' '.join(command)}` ended with status {process.returncode}", file=sys.stderr)
        raise SystemExit(3)
    return Usage(seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def capture(folder: Path, size_bytes: int, driver: str | None) -> Path:
    """A raw capture of large_memory.py, as it is before it is packed."""
    from replay.drivers import find_driver, interposer_library

    chosen = find_driver(driver)
    raw = folder / "large.rcap"
    raw.mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(interposer_library()),
        "REPLAY_CAPTURE_DIRECTORY": str(raw),
        "REPLAY_CAPTURE_KERNEL": "pointer_table",
    }
    if chosen.folder is not None:
        environment["LD_LIBRARY_PATH"] = f"{chosen.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(
            ":"
        )
    subprocess.run(
        [sys.executable, str(HERE / "large_memory.py"), str(size_bytes)], env=environment, check=True
    )
    return raw


def main() -> int:
    """Measure, print, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1 << 30, help="device memory that the launch reaches")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--driver", help="system, emulator or a folder; the GPU's if there is one")
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        options.folder = options.folder.resolve()

    samples: dict[str, list[Usage]] = {"pack": [], "zstd": [], "info": []}
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
        folder = Path(name)
        raw = capture(folder, options.bytes, options.driver)
        blobs = sorted(map(str, raw.glob("blobs.*.bin")))
        source_bytes = sum(os.path.getsize(path) for path in blobs)
        snapshot, stream = folder / "large.rsnap", folder / "large.zst"
        replay = [sys.executable, "-m", "replay"]
        zstd = shutil.which("zstd")
        # The command compresses one file at a time; a capture of one process has one.
        if zstd and len(blobs) == 1:
            compress = [zstd, "-1", "-T0", "-q", "-f", blobs[0], "-o", str(stream)]
        else:
            compress = [sys.executable, "-c", COMPRESS, str(stream), *blobs]
        for _ in range(options.rounds):
            snapshot.unlink(missing_ok=True)
            stream.unlink(missing_ok=True)
            samples["pack"].append(measured([*replay, "pack", "-q", str(raw), "-o", str(snapshot)], snapshot))
            samples["zstd"].append(measured(compress, stream))
            samples["info"].append(measured([*replay, "info", str(snapshot)]))
        snapshot_bytes, stream_bytes = snapshot.stat().st_size, stream.stat().st_size

    median_s = {mode: statistics.median(usage.seconds for usage in used) for mode, used in samples.items()}
    most_bytes = {mode: max(usage.resident_bytes for usage in used) for mode, used in samples.items()}
    # Of pairs that ran one after the other, so that a machine that slows down for a while slows both.
    ratio = statistics.median(z.seconds / p.seconds for z, p in zip(samples["zstd"], samples["pack"]))  # noqa: B905
    print(f"{source_bytes / 1e6:.0f} MB of captured memory, half of it noise in half precision")
    print(f"{'':6}{'seconds':>9}{'MB/s':>8}{'MB resident':>13}{'MB written':>12}")
    for mode, written in (("pack", snapshot_bytes), ("zstd", stream_bytes), ("info", None)):
        speed = "" if written is None else f"{source_bytes / 1e6 / median_s[mode]:.0f}"
        size = "" if written is None else f"{written / 1e6:.0f}"
        print(f"{mode:6}{median_s[mode]:9.2f}{speed:>8}{most_bytes[mode] / 1e6:13.0f}{size:>12}")
    return finish(
        "snapshot",
        [
            Figure("pack, times as fast as zstd -1", ratio, PACK_TARGET_RATIO, at_most=False),
            Figure("pack, MB resident", most_bytes["pack"] / 1e6, PACK_TARGET_BYTES / 1e6),
            Figure("info, s", median_s["info"], INFO_TARGET_S),
            Figure("info, MB resident", most_bytes["info"] / 1e6, INFO_TARGET_BYTES / 1e6),
        ],
        options.output,
        machine=platform.processor() or platform.machine(),
        processors=os.cpu_count(),
        rounds=options.rounds,
        source_bytes=source_bytes,
        snapshot_bytes=snapshot_bytes,
        zstd_bytes=stream_bytes,
        zstd="command" if compress[0] == zstd else "library",
        median_s=median_s,
        samples_s={mode: [usage.seconds for usage in used] for mode, used in samples.items()},
    )


if __name__ == "__main__":
    sys.exit(main())
