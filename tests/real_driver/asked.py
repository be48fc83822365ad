"""Which driver functions a framework asks for: by dlsym or by linking, and of cuGetProcAddress with version and flags.

usage: python tests/real_driver/asked.py [PYTHON]    writes asked/NAME.json for each framework that PYTHON has

Each runs on the CPU driver, whose one device it finds, so it asks for more than it would without a device.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from frameworks import FRAMEWORKS, Framework  # noqa: E402

KEPT = HERE / "asked"

VERSION = """
import importlib.metadata, sys
module = sys.argv[1].split(".")
packages = importlib.metadata.packages_distributions()
files = {"nvidia": f"nvidia-{module[-1]}", "cuda": {"core": "cuda-core"}.get(module[-1], "cuda-bindings"),
         "numba": "numba-cuda"}
for name in [files.get(module[0]), *packages.get(module[0], ())]:
    for suffix in ("", "-cu12", "-cu13"):
        try:
            print(name + suffix, importlib.metadata.version(name + suffix))
            sys.exit()
        except (TypeError, importlib.metadata.PackageNotFoundError):
            pass
"""


def audit_library(folder: Path) -> Path:
    path = folder / "asked.so"
    compiler = shutil.which("cc") or sys.exit("needs a C compiler")
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", str(HERE / "programs" / "asked.c"), "-o", str(path)], check=True
    )
    return path


def asked(python: str, framework: Framework, driver: Path, folder: Path) -> list[str]:
    """`dlsym NAME` and `NAME VERSION FLAGS`, each once, sorted."""
    log = folder / "log"
    log.touch()
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "LD_AUDIT": str(audit_library(folder)),
        "REPLAY_TEST_ASKED": str(log),
    }
    subprocess.run([python, "-c", framework.code], env=environment, capture_output=True, cwd=folder)
    return sorted(set(log.read_text().splitlines()))


def main() -> None:
    import replay

    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    driver = Path(replay.__file__).resolve().parent / "_native" / "emulator"
    KEPT.mkdir(exist_ok=True)
    for name, framework in FRAMEWORKS.items():
        if subprocess.run([python, "-c", f"import {framework.module}"], capture_output=True).returncode:
            print(f"{name}: {framework.module} is not installed")
            continue
        named = subprocess.run(
            [python, "-c", VERSION, framework.module], capture_output=True, text=True
        ).stdout.split()
        with tempfile.TemporaryDirectory() as folder:
            found = asked(python, framework, driver, Path(folder))
        print(f"{name}: {' '.join(named)}, {len(found)} questions")
        if found:
            kept = {"framework": name, "package": named[0], "version": named[1], "asked": found}
            (KEPT / f"{name}.json").write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    main()
