"""How small a snapshot of 1 GB becomes whose fault needs one page and 3 of 40 calls, and after how many replays.

    python benchmarks/minimise.py [--bytes N] [--folder DIR] [--output FILE.json]

Writes a snapshot of 40 launches, each of which copies a page of one buffer of random bytes; three of them carry one
page from launch to launch, and what is captured of it in the end is wrong by one word. `replay minimise --symptom
wrong` runs on the built-in CPU driver. Exits 1 when a target is missed, or the file does not show the wrong word.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish

from replay.snapshot.schema import Census, Kernel, ParameterSlot

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "unit" / "helpers"))
from snapshot_factory import SnapshotFactory  # noqa: E402

ADDRESS, PAGE_BYTES, CALLS = 0x10_0000_0000, 4096, 40
CHAIN = (7, 19, 33)  # numbers of the launches that hand the page on
TARGET_BYTES, TARGET_REPLAYS = 64 << 10, 60
COPY = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from) {
    .reg .u64 %t, %f, %o; .reg .u32 %i, %v;
    ld.param.u64 %t, [to]; ld.param.u64 %f, [from];
    mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4;
    add.u64 %t, %t, %o; add.u64 %f, %f, %o;
    ld.global.u32 %v, [%f]; st.global.u32 [%t], %v;
    ret;
}
"""


def planted(size_bytes: int) -> SnapshotFactory:
    """The snapshot; page 0 goes by pages 1 and 2 to page 3."""
    factory = SnapshotFactory()
    factory.set_up(COPY.encode(), "copy")
    slots = [ParameterSlot(0, 8), ParameterSlot(8, 8)]
    factory.kernels.append(
        Kernel("copy", "copy", factory.images[0].digest, slots, CALLS, [1, 1, 1], [PAGE_BYTES // 4, 1, 1], 0)
    )
    before = bytearray(os.urandom(size_bytes))
    after = bytearray(before)
    pairs = [(0, 1), (1, 2), (2, 3)]
    for number in range(CALLS):
        source, target = pairs.pop(0) if number in CHAIN else (100 + 2 * number, 101 + 2 * number)
        begin = source * PAGE_BYTES
        after[target * PAGE_BYTES : (target + 1) * PAGE_BYTES] = after[begin : begin + PAGE_BYTES]
        addresses = ADDRESS + target * PAGE_BYTES, ADDRESS + begin
        launch = factory.launch(struct.pack("<2Q", *addresses), [(0, 8), (8, 8)], 1, PAGE_BYTES // 4)
        words = b"".join(
            struct.pack("<QQII", 8 * place, page * PAGE_BYTES, 1, 0)
            for place, page in enumerate((target, source))
        )
        factory.census.append(Census("call", launch.number, words))
    after[3 * PAGE_BYTES + 400] ^= 1
    factory.range(ADDRESS, bytes(before), bytes(after))
    return factory


def main() -> int:
    """Measure, print, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of memory, whole pages")
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
        large, small = Path(name) / "large.rsnap", Path(name) / "small.rsnap"
        planted(options.bytes).write(large)
        command = [
            sys.executable,
            "-m",
            "replay",
            "minimise",
            str(large),
            "-o",
            str(small),
            "--symptom",
            "wrong",
        ]
        done = subprocess.run(
            [*command, "--driver", "emulator", "--json"], stdout=subprocess.PIPE, check=True, text=True
        )
        found = json.loads(done.stdout)
    for item in found["passes"]:
        print(f"{item['name']:14} {item['tried']:4} tried, {item['kept']:3} kept, {item['bytes']:12,} bytes")
    print(
        f"{found['original_bytes']:,} to {found['file_bytes']:,} bytes in {found['wall_s']:.0f} s: {found['what']}"
    )
    figures = [
        Figure("size of the file (bytes)", found["file_bytes"], TARGET_BYTES),
        Figure("replays", found["replays"], TARGET_REPLAYS),
        Figure("calls that stay", found["calls"][1], len(CHAIN)),
        Figure("looks at the end that show it", found["shown"], found["looks"], at_most=False),
    ]
    return finish("minimise", figures, options.output, passes=found["passes"], wall_s=found["wall_s"])


if __name__ == "__main__":
    sys.exit(main())
