"""Whether packing takes no more memory for a larger capture.

    python benchmarks/pack_memory.py [--bytes N,N,...] [--noise] [--folder DIR] [--output FILE.json]

Writes a raw capture of each size, in different pieces of 256 KiB: a few words in each, in a sparse file; with --noise
all of each, which takes twice the size of free disk. Packs it as a command of its own and prints the most memory that
this had resident. Exits 1 when that is more than 1 GB, or grows by more than 4 MB for each GB of capture.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from snapshot import measured

from replay.api.vocabulary import CopyFlag, Moment, RecordKind
from replay.raw.checksum import crc32c

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "unit" / "helpers"))
from raw_writer import RawWriter  # noqa: E402

PIECE_BYTES = 256 << 10
RANGE_BYTES = 1 << 30
ADDRESS = 0x10_0000_0000
TARGET_BYTES = 1_000_000_000
TARGET_GROWTH = 4e6 / 1e9  # a digest, a place and the record of a chunk are some 200 bytes for each 256 KiB


def write_capture(folder: Path, size_bytes: int, noise: bool) -> None:
    """A window of one launch that reaches ranges of 1 GiB, `size_bytes` together."""
    writer = RawWriter(folder)
    writer.start()
    ranges = [(ADDRESS + at, min(RANGE_BYTES, size_bytes - at)) for at in range(0, size_bytes, RANGE_BYTES)]
    for address, length in ranges:
        writer.allocate(address, length)
    call = writer.open_window()
    piece = np.zeros(PIECE_BYTES // 8, np.uint64)
    if noise:
        piece = np.random.default_rng(1).integers(1 << 60, 1 << 62, len(piece), np.uint64)
    place = (writer.blobs.tell() + 63) // 64 * 64
    for serial, (address, length) in enumerate(ranges, 1):
        entries = b""
        for number in range(length // PIECE_BYTES):
            piece[:2] = (serial, number)
            if noise:
                piece[2:] += np.uint64(1)
            entries += struct.pack("<IIQ", number, crc32c(piece), place)
            writer.blobs.seek(place)
            writer.blobs.write(piece if noise else piece[:2])
            place += PIECE_BYTES
        flags = CopyFlag.FIRST | CopyFlag.LAST
        head = struct.pack("<QQIIII", address, length, serial, Moment.BEFORE, flags, PIECE_BYTES)
        writer.record(RecordKind.COPY, head + entries, call=call)
    writer.launch(struct.pack("<QI", ADDRESS, 1), [(0, 8), (8, 4)])
    writer.close_window()
    writer.blobs.truncate(place)
    writer.close()


def main() -> int:
    """Measure, print, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", default="5368709120,53687091200", help="sizes, multiples of 256 KiB")
    parser.add_argument(
        "--noise", action="store_true", help="no sparse file: all of every piece is different"
    )
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    samples = []
    for size_bytes in map(int, options.bytes.split(",")):
        with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
            raw, snapshot = Path(name) / "large.rcap", Path(name) / "large.rsnap"
            write_capture(raw, size_bytes, options.noise)
            command = [sys.executable, "-m", "replay", "pack", "-q", str(raw), "-o", str(snapshot)]
            used = measured(command, snapshot)
            resident, file_bytes = used.resident_bytes, snapshot.stat().st_size
            shutil.rmtree(raw)
        samples.append(
            {"bytes": size_bytes, "resident_bytes": resident, "s": used.seconds, "file": file_bytes}
        )
        print(
            f"{size_bytes / 1e9:6.1f} GB: {resident / 1e6:4.0f} MB resident, {used.seconds:.1f} s, "
            f"{file_bytes / 1e6:.0f} MB written"
        )
    smallest, largest = min(samples, key=lambda s: s["bytes"]), max(samples, key=lambda s: s["bytes"])
    grown = largest["resident_bytes"] - smallest["resident_bytes"]
    met = {
        "resident": largest["resident_bytes"] <= TARGET_BYTES,
        "growth": grown <= TARGET_GROWTH * (largest["bytes"] - smallest["bytes"]),
    }
    if options.output:
        document = {"benchmark": "pack_memory", "noise": options.noise, "samples": samples, "met": met}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    missed = [name for name, holds in met.items() if not holds]
    print(f"missed: {', '.join(missed)}" if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
