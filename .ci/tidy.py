"""Runs clang-tidy, with the checks of .clang-tidy, over the shim, the CPU driver, submission/ and scanning/.

usage: python .ci/tidy.py    after `make setup`

Units are read as the last build compiled them: several files of the CPU driver at once, in a fifth of the time. Of
sources that are built more than once, one build is read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PROCESSES = 2
_READ = re.compile(
    r"/(interposer|emulator|emulator_exec|emulator_operations|runtime13|submission|scanning)\.dir/"
)
_OF_GCC = re.compile(r" -mmemset-strategy=\S+")  # which clang does not know
_FINDING = re.compile(r"^(/.*?):(\d+:\d+: )(?:warning|error): (.*)$", re.MULTILINE)


def compiled(build: Path) -> dict[str, str]:
    """Of each unit, what follows the compiler's name in its command."""
    database = subprocess.run(
        [BIN / "ninja", "-C", build, "-t", "compdb"], capture_output=True, text=True, check=True
    ).stdout
    rows = [row for row in json.loads(database) if row["file"].endswith((".c", ".cpp", ".cxx"))]
    return {
        row["file"]: re.sub(r"^.*?(?:/c\+\+|/g?cc|/[cg]\+\+|/clang(?:\+\+)?)(?:-\d+)? ", "", row["command"])
        for row in rows
        if _READ.search(row["output"]) and "/generated/" not in row["file"]
    }


def main() -> int:
    builds = sorted(path.parent for path in ROOT.glob("build/*/build.ninja"))
    if not builds:
        print("nothing is built: run `make setup` first", file=sys.stderr)
        return 1
    units = compiled(builds[-1])
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"directory": str(builds[-1]), "file": unit, "command": f"cc {_OF_GCC.sub('', arguments)}"}
            for unit, arguments in units.items()
        ]
        (Path(folder) / "compile_commands.json").write_text(json.dumps(rows))

        def read(unit: str) -> subprocess.CompletedProcess[str]:
            command = [
                str(BIN / "clang-tidy"),
                "--quiet",
                f"--config-file={ROOT}/.clang-tidy",
                "-p",
                folder,
                unit,
            ]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        with ThreadPoolExecutor(PROCESSES) as pool:
            done = list(pool.map(read, units))
    findings = {
        f"{Path(path).resolve().relative_to(ROOT)}:{place}{what}"
        for result in done
        for path, place, what in _FINDING.findall(result.stdout)
    }
    for line in sorted(findings) or [result.stderr for result in done if result.returncode]:
        print(line, file=sys.stderr)
    return 1 if any(result.returncode for result in done) else 0


if __name__ == "__main__":
    sys.exit(main())
