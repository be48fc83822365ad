"""What snapshots of one model take when their weights are elsewhere, and what making one whole costs.

    python benchmarks/store.py [--size 64M] [--snapshots 10] [-o FILE.json]

Each snapshot is of one launch that reads weights and changes activations of its own. The weights are in a store, in a
file of safetensors, or in the snapshot, which is what sizes are held against. The targets are those of 2 GB of weights
(--size 2G), where what each snapshot has of its own is a smaller part.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replay.text import parse_size

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

PROGRAM = Path(__file__).resolve().parents[1] / "tests" / "end_to_end" / "programs" / "weights.py"
REPLAY = [sys.executable, "-m", "replay"]


def write_model(path: Path, size_bytes: int) -> int:
    """A safetensors file of one tensor of noise; where that begins."""
    span = {"dtype": "U8", "shape": [size_bytes], "data_offsets": [0, size_bytes]}
    header = json.dumps({"t": span}).encode()
    with path.open("wb") as file, open("/dev/urandom", "rb") as noise:
        file.write(len(header).to_bytes(8, "little") + header)
        for at in range(0, size_bytes, 1 << 24):
            file.write(noise.read(min(1 << 24, size_bytes - at)))
    return 8 + len(header)


def replay(folder: Path, *arguments: str) -> float:
    """Seconds that a command took. Ends the program when it fails."""
    begin = time.monotonic()
    done = subprocess.run([*REPLAY, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"replay {' '.join(arguments)}: {done.stderr}")
    return time.monotonic() - begin


def bytes_in(folder: Path) -> int:
    """Of all files in a folder and below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(folder: Path, size_bytes: int, count: int) -> tuple[list[Figure], dict[str, float]]:
    """The figures, and seconds of commands."""
    begin = write_model(folder / "model.safetensors", size_bytes)

    def capture(name: str, seed: int, *options: str) -> float:
        application = [
            sys.executable,
            str(PROGRAM),
            "model.safetensors",
            *map(str, (begin, size_bytes, seed)),
        ]
        return replay(folder, "capture", "--driver", "emulator", *options, "-o", name, "--", *application)

    def run(name: str, *options: str) -> float:
        return replay(folder, "run", name, "--driver", "emulator", "--no-timing", *options)

    seconds = {"capture, all in the snapshot": capture("whole.rsnap", 0)}
    whole_bytes = (folder / "whole.rsnap").stat().st_size
    seconds["run of it"] = run("whole.rsnap")
    (folder / "whole.rsnap").unlink()
    (folder / "snapshots").mkdir()
    taken = [
        capture(f"snapshots/{seed}.rsnap", seed, "--external", "replay-store") for seed in range(1, count + 1)
    ]
    seconds["capture, into an empty store"], seconds["capture, all there"] = taken[0], min(taken[1:])
    seconds["run, from a store"] = run("snapshots/1.rsnap", "--store", "replay-store")
    seconds["fetch"] = replay(
        folder, "fetch", "snapshots/1.rsnap", "-o", "1.rsnap", "--store", "replay-store"
    )
    (folder / "1.rsnap").unlink()
    together = bytes_in(folder / "snapshots") + bytes_in(folder / "replay-store")
    one = max(path.stat().st_size for path in (folder / "snapshots").iterdir())
    shutil.rmtree(folder / "replay-store")
    seconds["capture, from safetensors"] = capture("w.rsnap", 1, "--weights", "model.safetensors")
    seconds["run, from safetensors"] = run("w.rsnap")
    of_weights = (folder / "w.rsnap").stat().st_size
    return [
        Figure(f"{count} snapshots and their store, over the weights", together / size_bytes, 1.05,
               f"{count * whole_bytes / size_bytes:.3g} without a store"),
        Figure("snapshot with weights in a store, % of the whole", 100 * one / whole_bytes, 1.0),
        Figure("snapshot with weights in safetensors, % of the whole", 100 * of_weights / whole_bytes, 1.0),
    ], seconds  # fmt: skip


def main() -> int:
    """Measure, print the table, and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="64M", help="of the weights")
    parser.add_argument("--snapshots", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-") as folder:
        size_bytes = parse_size(options.size, "--size")
        figures, seconds = measure(Path(folder), size_bytes, max(2, options.snapshots))
    for name, value in seconds.items():
        print(f"{name:32}{value:8.1f} s")
    return finish("store", figures, options.output, size_bytes=size_bytes, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
