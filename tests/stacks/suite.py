#!/usr/bin/env python3
"""Runs the tests of another project on the CPU driver, alone and under `replay capture`, and says what became of each.

usage: python tests/stacks/suite.py unittest PACKAGE                  an installed package's
       python tests/stacks/suite.py pytest FOLDER [PYTEST OPTIONS]    those of a checkout, e.g. -n 1 -k cuda
       python tests/stacks/suite.py programs [--with RUNNER.py] [--limit SECONDS] PROGRAM...    (outcomes_programs.py)

Prints one JSON object: how many passed, failed and were skipped alone, which failed, and which ended otherwise under
capture. `replay` is the one that is installed for this Python; the tests run with it or with --python PYTHON. Of the
CPU driver's settings REPLAY_EMULATOR_DEVICES alone is heeded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
# No kernel has this name, so that the shim is in the way of every call and records nothing.
NOTHING = "^no kernel has this name$"


def environment(emulator_dir: Path) -> dict[str, str]:
    """For programs on the CPU driver."""
    from replay import drivers, stacks

    base = {
        name: value
        for name, value in os.environ.items()
        if name == "REPLAY_EMULATOR_DEVICES" or not name.startswith("REPLAY_EMULATOR_")
    }
    base.pop("PYTHONSAFEPATH", None)
    base["LD_LIBRARY_PATH"] = f"{emulator_dir}:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    return base | stacks.environment(base, drivers.find_driver(str(emulator_dir)))


def outcomes(
    kind: str, arguments: Sequence[str], emulator_dir: Path, *, captured: bool, python: str = sys.executable,
    timeout_s: float | None = None,
) -> dict[str, str]:  # fmt: skip
    """What became of each test: passed, failed or skipped. captured: under `replay capture`."""
    arguments = [str(Path(word).resolve()) if Path(word).exists() else word for word in arguments]
    with tempfile.TemporaryDirectory(prefix="replay-suite-") as folder:
        path = Path(folder, "outcomes")
        added = {"REPLAY_TEST_OUTCOMES": str(path)}
        if kind != "pytest":
            command = [python, str(HERE / f"outcomes_{kind}.py"), str(path), *arguments]
        else:
            added["PYTHONPATH"] = str(HERE)
            command = [
                python,
                "-m",
                "pytest",
                "-q",
                "-p",
                "outcomes_pytest",
                "-p",
                "no:cacheprovider",
                *arguments,
            ]
        variables = environment(emulator_dir)
        if "PYTHONPATH" in added:
            added["PYTHONPATH"] = os.pathsep.join([str(HERE), variables.get("PYTHONPATH", "")]).rstrip(
                os.pathsep
            )
        if captured:
            command = [
                sys.executable, "-m", "replay", "capture", "--driver", str(emulator_dir), "--kernel", NOTHING,
                "-o", f"{folder}/none.rsnap", "--", *command,
            ]  # fmt: skip
        done = subprocess.run(
            command, env=variables | added, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, text=True,
            errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
        if not path.exists():
            raise RuntimeError(
                f"{command} wrote no outcomes (exit status {done.returncode}):\n{done.stdout[-4000:]}"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        outcome, _, name = line.partition(" ")
        if found.get(name) != "failed":  # a test and its clean-up may both say something
            found[name] = outcome
    return found


def main(words: list[str]) -> int:
    from replay.drivers import find_driver

    python = sys.executable
    if words[:1] == ["--python"]:
        python, words = words[1], words[2:]
    if len(words) < 2 or words[0] not in ("unittest", "pytest", "programs"):
        print(__doc__, file=sys.stderr)
        return 2
    emulator_dir = find_driver("emulator").library.parent
    alone, captured = (
        outcomes(words[0], words[1:], emulator_dir, captured=captured, python=python)
        for captured in (False, True)
    )
    counts = Counter(outcome.partition(":")[0] for outcome in alone.values())
    found = {
        **{outcome: counts[outcome] for outcome in ("passed", "failed", "skipped")},
        "failures": sorted(name for name, outcome in alone.items() if outcome.startswith("failed")),
        "other_under_capture": {
            name: [alone.get(name), captured.get(name)]
            for name in sorted({*alone, *captured})
            if alone.get(name) != captured.get(name)
        },
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
