#!/usr/bin/env python3
"""Runs the tests of another project on the CPU driver, alone and under `replay capture`, and says what became of each.

usage: python tests/stacks/suite.py [OPTIONS] unittest PACKAGE                 an installed package's
       python tests/stacks/suite.py [OPTIONS] pytest FOLDER [PYTEST OPTIONS]   those of a checkout, e.g. -n 1 -k cuda
       python tests/stacks/suite.py [OPTIONS] programs [--with RUNNER.py] [--limit SECONDS] PROGRAM...
                                                                               see outcomes_programs.py

  --python PYTHON    runs the tests; default: this one, whose `replay` is the one that captures
  --set NAME=VALUE   an environment variable for the tests, e.g. a setting of the CPU driver; as often as wanted
  --by-file          each file of tests in a process of its own, which is faster where many tests end theirs

Tests that end their process want pytest-xdist and -n 1, tests that may never end pytest-timeout and --timeout SECONDS.

Prints one JSON object: how many passed, failed and were skipped alone, how long that took and the same under capture,
which failed, by cause, and which ended otherwise under capture.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
# No kernel has this name, so that the shim is in the way of every call and records nothing.
NOTHING = "^no kernel has this name$"


class Outcome(NamedTuple):
    ended: str  # passed, failed or skipped
    cause: str  # of a failure; of a program that passed, a digest of what it printed


def environment(emulator_dir: Path) -> dict[str, str]:
    """For programs on the CPU driver."""
    from replay import drivers, stacks

    base = {name: value for name, value in os.environ.items() if not name.startswith("REPLAY_EMULATOR_")}
    base.pop("PYTHONSAFEPATH", None)
    base["LD_LIBRARY_PATH"] = f"{emulator_dir}:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    return base | stacks.environment(base, drivers.find_driver(str(emulator_dir)))


def outcomes(
    kind: str, arguments: Sequence[str], emulator_dir: Path, *, captured: bool, python: str = sys.executable,
    timeout_s: float | None = None, settings: Mapping[str, str] | None = None, by_file: bool = False,
) -> dict[str, Outcome]:  # fmt: skip
    """What became of each test. captured: under `replay capture`; timeout_s: for each process that is started here."""
    arguments = [str(Path(word).resolve()) if Path(word).exists() else word for word in arguments]
    with tempfile.TemporaryDirectory(prefix="replay-suite-") as folder:
        path = Path(folder, "outcomes")
        path.touch()
        variables = environment(emulator_dir) | {"REPLAY_TEST_OUTCOMES": str(path)} | dict(settings or {})
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), variables.get("PYTHONPATH")]))

        def run(command: list[str]) -> list[list[str]]:
            before = path.stat().st_size
            done = subprocess.run(
                command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, text=True,
                errors="replace", timeout=timeout_s, check=False,
            )  # fmt: skip
            written = path.read_bytes()[before:].decode("utf-8")
            if not written:
                raise RuntimeError(
                    f"{command} wrote no outcomes (exit status {done.returncode}):\n{done.stdout[-4000:]}"
                )
            return [line.split("\t", 2) for line in written.splitlines()]

        commands = [[python, str(HERE / f"outcomes_{kind}.py"), str(path), *arguments]]
        lines = []
        if kind == "pytest":
            base = [python, "-m", "pytest", "-q", "-p", "outcomes_pytest", "-p", "no:cacheprovider"]
            if Path(arguments[0]).is_dir():
                # Else it is an ancestor of this folder and theirs, and --import-mode=importlib takes what is between
                # for packages: tests in /tmp/drjit/tests would hide the package drjit.
                base += ["--rootdir", arguments[0]]
            commands = [[*base, *arguments]]
            if by_file:
                lines = run([*base, *arguments, "--collect-only"])
                files = sorted({cause for what, _, cause in lines if what == "collected"})
                commands = [[*base, file, *arguments[1:]] for file in files]
        for command in commands:
            prefix = [
                sys.executable, "-m", "replay", "capture", "--driver", str(emulator_dir), "--kernel", NOTHING,
                "-o", f"{folder}/none.rsnap", "--",
            ]  # fmt: skip
            lines += run([*prefix, *command] if captured else command)
    found: dict[str, Outcome] = {}
    for what, name, cause in lines:
        # A test and its clean-up may both say something.
        if what != "collected" and (name not in found or found[name].ended != "failed"):
            found[name] = Outcome(what, cause)
    return found


def ended(found: Mapping[str, Outcome]) -> dict[str, str]:
    return {name: outcome.ended for name, outcome in found.items()}


def alike(one: Outcome | None, other: Outcome | None) -> bool:
    """Whether a test ended as it did before. The words of a failure may hold addresses, so they do not count."""
    if one is None or other is None or one.ended != other.ended:
        return False
    return one.ended != "passed" or one.cause == other.cause


def by_cause(found: Mapping[str, Outcome]) -> dict[str, list[str]]:
    """The tests that failed. Causes that differ in an address alone are one."""
    groups = defaultdict(list)
    for name, outcome in sorted(found.items()):
        if outcome.ended == "failed":
            groups[re.sub(r"\b0x[0-9a-f]+", "0x...", outcome.cause)].append(name)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def main(words: list[str]) -> int:
    from replay.drivers import find_driver

    python, settings, by_file = sys.executable, {}, False
    while words and words[0].startswith("-"):
        option, *words = words
        if option == "--by-file":
            by_file = True
        elif option == "--python" and words:
            python = words.pop(0)
        elif option == "--set" and words:
            name, _, settings[name] = words.pop(0).partition("=")
        else:
            words = []
    if len(words) < 2 or words[0] not in ("unittest", "pytest", "programs"):
        print(__doc__, file=sys.stderr)
        return 2
    emulator_dir = find_driver("emulator").library.parent
    both, seconds = [], []
    for captured in (False, True):
        begin = time.monotonic()
        both.append(
            outcomes(
                words[0],
                words[1:],
                emulator_dir,
                captured=captured,
                python=python,
                settings=settings,
                by_file=by_file,
            )  # fmt: skip
        )
        seconds.append(round(time.monotonic() - begin))
    alone, under_capture = both
    counts = Counter(ended(alone).values())
    found = {
        **{word: counts[word] for word in ("passed", "failed", "skipped")},
        "seconds": seconds,
        "failures": by_cause(alone),
        "other_under_capture": {
            name: [alone.get(name), under_capture.get(name)]
            for name in sorted({*alone, *under_capture})
            if not alike(alone.get(name), under_capture.get(name))
        },
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
