"""NVIDIA's own library in a confined process, as far as it goes without a device. Downloaded; nothing of it is kept."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replay.engine.confinement import landlock

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
PROGRAM = """
import ctypes, json, sys
from pathlib import Path
folder, confined = Path(sys.argv[1]), sys.argv[2] == "confined"
if confined:
    from replay.engine.confinement import confine
    missing = confine(folder / "libcuda.so.1")
    assert not missing, missing
driver = ctypes.CDLL(str(folder / "libcuda.so.1"))
version, count = ctypes.c_int(), ctypes.c_int()
answers = [driver.cuDriverGetVersion(ctypes.byref(version)), version.value, driver.cuInit(0), driver.cuInit(0),
           driver.cuDeviceGetCount(ctypes.byref(count))]
compiler = ctypes.CDLL(str(folder / "libnvidia-ptxjitcompiler.so.1"))  # which the driver loads when it first needs it
try:
    open("/etc/passwd")
    answers.append("open")
except PermissionError:
    answers.append("confined")
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver's library, from the machine's own package registry. Skips where there is none."""
    folder = tmp_path_factory.mktemp("driver")
    if not (shutil.which("apt-get") and shutil.which("dpkg") and SOURCES.is_file()):
        pytest.skip("needs apt-get and Debian's sources, to get the driver's library from")
    source = SOURCES.read_text().split("\n\n")[0]
    source = re.sub(r"(?m)^Components:.*", "Components: non-free", source)
    source = re.sub(r"(?m)^(Suites: *\S+).*", r"\1", source)
    (folder / "debian.sources").write_text(source + "\n")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = [f"Dir::Etc::sourcelist={folder}/debian.sources", "Dir::Etc::sourceparts=/dev/null",
               f"Dir::State::lists={folder}/lists", f"Dir::Cache={folder}/cache", "Acquire::Retries=0"]  # fmt: skip
    command = ["apt-get", *(word for option in options for word in ("-o", option))]
    for words in (["update"], ["download", "libcuda1", "libnvidia-ptxjitcompiler1"]):
        try:
            done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip("needs the machine's package registry, which does not answer")
        if done.returncode:
            pytest.skip(f"needs libcuda1 from the machine's package registry: {done.stderr.strip()[-200:]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "x"], check=True)
    found = sorted((folder / "x").rglob("libcuda.so.1"))
    if not found:
        pytest.skip("needs libcuda.so.1, which the packages of the registry do not hold")
    return found[0].parent


def test_the_library_answers_the_same_when_it_is_confined(library: Path) -> None:
    if landlock.abi() < 1:
        pytest.skip("needs Landlock: Linux 5.13 or later, in a container that permits it")
    answers = []
    for how in ("free", "confined"):
        command = [sys.executable, "-c", PROGRAM, str(library), how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.strip())
    assert answers[0].endswith('"open"]')
    assert answers[1] == answers[0].replace('"open"', '"confined"')
