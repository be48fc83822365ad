"""How large the wheel is, and how long an installation takes that somebody waits for.

    python benchmarks/installed.py [--wheel FILE.whl] [--demo] [--output FILE.json]

Installs the wheel (default: the one for this machine in `dist/`, which `make wheel` makes) into an empty virtual
environment, and there captures a small program, replays it and compares it with a slower one, on the CPU driver. With
--demo: also `make demo` in a fresh clone of this checkout, without the caches of pip and of the compiler. Wall seconds,
which contain the downloads of what `replay` depends on; beside them the CPU time, which is what they cost on a machine
that is busy with other things. Exits 1 when a target is missed, 3 when it cannot run.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
WHEEL_TARGET_MB, USED_TARGET_S, DEMO_TARGET_S = 12.0, 60.0, 150.0


def run(*words: str | Path, **variables: str) -> float:
    """Wall seconds of a command. Raises SystemExit(3) when it fails."""
    begin = time.perf_counter()
    environment = {**os.environ, **variables}
    done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True)
    if done.returncode:
        print(
            f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}",
            file=sys.stderr,
        )
        raise SystemExit(3)
    return time.perf_counter() - begin


def processor_s() -> float:
    """CPU seconds of all processes that were started here and have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def installed_and_used(wheel: Path, folder: Path) -> tuple[float, float]:
    """Seconds to install a wheel, and to capture, replay and compare with it."""
    application = folder / "launches"
    run(os.environ.get("CC", "cc"), "-O2", HERE / "submission" / "launches.c", "-o", application, "-ldl")
    there = folder / "environment"
    install_s = run(sys.executable, "-m", "venv", there)
    install_s += run(there / "bin" / "pip", "install", "-q", wheel)
    replay, emulator, snapshot = there / "bin" / "replay", ("--driver", "emulator"), folder / "x.rsnap"
    program = (application, HERE / "submission" / "noop.ptx", "10", "1")
    use_s = run(
        replay, "capture", *emulator, "--kernel", "noop", "--launch", "3", "-o", snapshot, "--", *program
    )
    use_s += run(replay, "run", *emulator, snapshot)
    slower = "env=REPLAY_EMULATOR_SLOWDOWN=noop:1.03"
    use_s += run(replay, "compare", *emulator, snapshot, "--b", slower)
    return install_s, use_s


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--demo", action="store_true", help="also `make demo` in a fresh clone")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = sorted(
        (CHECKOUT / "dist").glob(f"*{platform.machine()}.whl"), key=lambda path: path.stat().st_mtime
    )
    if options.wheel is None and not found:
        print("there is no wheel: `make wheel` makes one, or name one with --wheel", file=sys.stderr)
        return 3
    wheel = (options.wheel or found[-1]).resolve()
    figures = [Figure("wheel, MB", wheel.stat().st_size / (1 << 20), WHEEL_TARGET_MB)]
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-") as name:
        folder = Path(name)
        begin_s = processor_s()
        install_s, use_s = installed_and_used(wheel, folder)
        limit = f"of which installing {install_s:.1f}; CPU time {processor_s() - begin_s:.1f}"
        figures.append(
            Figure("installed, captured, replayed, compared, s", install_s + use_s, USED_TARGET_S, limit)
        )
        if options.demo:
            run("git", "clone", "-q", CHECKOUT, folder / "clone")
            begin_s = processor_s()
            demo_s = run("make", "-C", folder / "clone", "demo", PIP_NO_CACHE_DIR="1", CCACHE_DISABLE="1")
            limit = f"CPU time {processor_s() - begin_s:.1f}"
            figures.append(Figure("make demo in a fresh clone, s", demo_s, DEMO_TARGET_S, limit))
    return finish("installed", figures, options.output, wheel=wheel.name)


if __name__ == "__main__":
    sys.exit(main())
