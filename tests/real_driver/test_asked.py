"""What frameworks ask the driver for (asked/, which asked.py writes), beside what is captured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from asked import KEPT, VERSION, asked
from frameworks import FRAMEWORKS

from interposer.generators.coverage import meant

# Interfaces with headers of their own, and what cuda.bindings asks for at a version below that of the headers.
ELSEWHERE = (
    "cuGL",
    "cuEGL",
    "cuVDPAU",
    "cuGraphicsGL",
    "cuGraphicsEGL",
    "cuGraphicsVDPAU",
    "cuEventCreateFromEGL",
)
EGL = "cuGraphicsResourceGetMappedEglFrame"
BELOW = {
    "cuLogsCurrent",
    "cuLogsDumpToFile",
    "cuLogsDumpToMemory",
    "cuLogsRegisterCallback",
    "cuLogsUnregisterCallback",
}


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_not_captured_has_a_reason(path: Path) -> None:
    questions = json.loads(path.read_text())["asked"]
    assert questions
    unknown = {
        question.removeprefix("dlsym ").split()[0] for question in questions if meant(question) is None
    }
    assert {name for name in unknown if not name.startswith(ELSEWHERE)} <= BELOW | {EGL}
    for question in questions:
        function = meant(question)
        assert function is None or function.id, f"{question} is not in the table"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_list_is_that_of_the_installed_version(name: str, emulator_dir: Path, tmp_path: Path) -> None:
    path, framework = KEPT / f"{name}.json", FRAMEWORKS[name]
    if not path.exists():
        pytest.skip("nothing was asked when it was tried")
    kept = json.loads(path.read_text())
    done = subprocess.run([sys.executable, "-c", VERSION, framework.module], capture_output=True, text=True)
    if done.stdout.split() != [kept["package"], kept["version"]]:
        pytest.skip(f"{kept['package']} {kept['version']} is not installed")
    found = asked(sys.executable, framework, emulator_dir, tmp_path)
    # How far a framework gets depends on the libraries that it finds beside it.
    assert found
    assert set(found) - set(kept["asked"]) == set()
