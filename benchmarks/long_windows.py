"""What looking at and replaying a window of millions of launches takes.

    python benchmarks/long_windows.py [--launches N,M] [--output FILE.json]

Captures whole programs (`--all`) of N and of M launches (default: 1 and 5 million) on the built-in CPU driver. Commands
on the shorter one, in CPU seconds with all their processes: `ls calls --from` near the end, `verify`, and packing
beside the loop that launches. Then the memory of the largest process of `run --no-timing`: of the longer beside the
shorter, and whether the longer one can be captured, packed, verified and replayed where a process may have 2 GB of
addresses. Takes about two minutes on an idle machine. Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

HERE = Path(__file__).resolve().parent
ADDRESSES_BYTES = 2_000_000_000  # of each process, in the last part
LIST_TARGET_S, VERIFY_TARGET_S, MEMORY_TARGET, MEMORY_TARGET_MB = 0.5, 1.0, 1.25, 300.0


def replay(*words: object, most_addresses: int | None = None) -> tuple[float, float]:
    """CPU seconds of a command with all its processes, and the resident MB of the largest. Raises SystemExit(3)."""

    def limit() -> None:
        if most_addresses is not None:
            resource.setrlimit(resource.RLIMIT_AS, (most_addresses, most_addresses))

    command = [sys.executable, "-m", "replay", *map(str, words)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=limit)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        print(f"`{' '.join(command)}` ended with status {child.returncode}", file=sys.stderr)
        raise SystemExit(3)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", default="1000000,5000000", help="of the shorter and the longer window")
    parser.add_argument("--folder", type=Path, help="where to work; default: the folder for temporary files")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    few, many = map(int, options.launches.split(","))
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-", dir=options.folder) as name:
        folder = Path(name)
        application = folder / "launches"
        source = HERE / "submission" / "launches.c"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", source, "-o", application, "-ldl"], check=True)

        def captured(launches: int, most_addresses: int | None = None) -> Path:
            path = folder / f"{launches}.rsnap"
            program: list[object] = [application, HERE / "submission" / "noop.ptx", str(launches), "1"]
            replay("capture", "--driver", "emulator", "--all", "-q", "-o", path, "--", *program,
                   most_addresses=most_addresses)  # fmt: skip
            return path

        run = ("run", "--driver", "emulator", "--no-timing", "-q")
        shorter = captured(few)
        listed = min(replay("ls", shorter, "calls", "--from", few - 10)[0] for _ in range(3))
        verified = min(replay("verify", shorter)[0] for _ in range(3))
        cpu_s, memory = replay(*run, shorter)
        longer = captured(many, ADDRESSES_BYTES)
        replay("verify", longer, most_addresses=ADDRESSES_BYTES)
        _, limited = replay(*run, longer, most_addresses=ADDRESSES_BYTES)
    named = f"{few / 1e6:g} M launches"
    figures = [
        Figure(f"ls calls --from, {named}, CPU s", listed, LIST_TARGET_S),
        Figure(f"verify, {named}, CPU s", verified, VERIFY_TARGET_S),
        Figure(f"resident MB, {many / 1e6:g} M launches in 2 GB of addresses", limited, MEMORY_TARGET_MB),
        Figure(f"resident MB, to that of {named}", limited / memory, MEMORY_TARGET, f"{memory:.0f} MB"),
    ]
    return finish("long windows", figures, options.output, launches=[few, many], run_cpu_s=cpu_s)


if __name__ == "__main__":
    sys.exit(main())
