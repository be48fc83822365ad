#!/usr/bin/env python3
"""What sparse changes cost: a byte in every 16 KiB of memory that does not compress, with patches and without.

usage: benchmarks/patches.py [MIB] [ROUNDS]

Prints times and sizes of both, taken by turns, and their ratios: medians of the rounds.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from replay.api.vocabulary import Moment
from replay.pack import pack
from replay.pack.contents import copies
from replay.snapshot.contents import Snapshot
from tests.unit.helpers.raw_writer import RawWriter, word

BASE = 0x10_0000_0000


def write_raw(folder: Path, mib: int) -> None:
    """One launch that changes a byte in every 16 KiB."""
    content = np.random.default_rng(1).standard_normal(mib << 18, dtype=np.float32).view(np.uint8)
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(BASE, len(content))
    call = writer.open_window()
    writer.copy(BASE, content.tobytes(), None, Moment.BEFORE, call)
    writer.launch(word(BASE) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    content[::16384] ^= 0xFF
    writer.copy(BASE, content.tobytes(), range(mib << 2), Moment.AFTER, call)
    writer.close_window()
    writer.close()


def measure(folder: Path) -> tuple[float, float, float, float]:
    """Seconds of packing, of reading what was there before and after, and the size in MiB."""
    path = folder.with_suffix(".rsnap")
    times = [time.perf_counter()]
    pack(folder, path)
    times.append(time.perf_counter())
    with Snapshot(path) as opened:
        (item,) = opened.ranges()
        for contents in (item.before, item.after):
            assert contents is not None
            for _ in opened.pieces(contents):
                pass
            times.append(time.perf_counter())
    packing, before, after = (end - begin for begin, end in zip(times, times[1:], strict=False))
    return packing, before, after, path.stat().st_size / 2**20


def main() -> None:
    """Both by turns."""
    mib, rounds = ([int(word) for word in sys.argv[1:]] + [256, 5][len(sys.argv) - 1 :])[:2]
    kept = copies.CopyStore._patch
    found: dict[str, list[tuple[float, float, float, float]]] = {"whole": [], "patches": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "x.rcap"
        write_raw(folder, mib)
        for _ in range(rounds):
            for how, patch in (("whole", lambda *arguments: None), ("patches", kept)):
                copies.CopyStore._patch = patch  # type: ignore[method-assign]
                found[how].append(measure(folder))
    medians = {
        how: [sorted(column)[rounds // 2] for column in zip(*rows, strict=True)]
        for how, rows in found.items()
    }
    for how, (packing, before, after, size) in medians.items():
        print(
            f"{how}: packed in {packing:.2f} s, before read in {before:.2f} s, after in {after:.2f} s, {size:.1f} MiB"
        )
    ratios = [b / a for a, b in zip(medians["whole"], medians["patches"], strict=True)]
    print("patches / whole: packing {:.2f}, reading before {:.2f}, after {:.2f}, size {:.2f}".format(*ratios))


if __name__ == "__main__":
    main()
