"""Runtimes, libraries and frameworks on NVIDIA's driver without a device: under capture they print and end as they do
alone, and capture says in one line what the driver said.

Those that are installed for this Python are tried; REPLAY_TEST_FRAMEWORKS names another Python that has them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, RealDriver
from frameworks import FRAMEWORKS

PYTHON = os.environ.get("REPLAY_TEST_FRAMEWORKS", sys.executable)
TIMEOUT_S = 110
NO_DEVICE = "with CUDA_ERROR_NO_DEVICE (100), so it launched nothing"
# Of a runtime that is newer than the driver.
NOT_STARTED = "loaded the driver and never called cuInit"
# What needs no driver.
NEVER_LOADED = {"nvJitLink": "never used CUDA"}


def wheel(*names: str) -> Path:
    """A folder of NVIDIA's wheels."""
    specification = importlib.util.find_spec("nvidia")
    for place in specification.submodule_search_locations or () if specification else ():
        if (folder := Path(place, *names)).is_dir():
            return folder
    pytest.skip(f"needs the wheel with nvidia/{'/'.join(names)}: pip install 'gpu-replay[test]'")


def built(name: str, folder: Path, *options: object, source: Path = HERE / "programs") -> str:
    """The path of a program of programs/, compiled with these options after the source."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    command = [compiler, source / f"{name}.c", *options, "-o", folder / name]
    subprocess.run([str(word) for word in command], check=True)
    return str(folder / name)


@pytest.fixture(scope="module", params=["static", "shared"])
def runtime_program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of the runtime 12.9, linked with it in either way."""
    runtime = wheel("cuda_runtime")
    linked = {
        "static": [runtime / "lib" / "libcudart_static.a", "-ldl", "-lpthread", "-lrt", "-lm"],
        "shared": [runtime / "lib" / "libcudart.so.12", f"-Wl,-rpath,{runtime / 'lib'}"],
    }
    # The headers of the compiler itself, of which the runtime's are made, are in another wheel.
    includes = [f"-I{runtime / 'include'}", f"-I{wheel('cu13', 'include')}"]
    return built("runtime", tmp_path_factory.mktemp("programs"), *includes, *linked[request.param])


def outcomes(
    command: list[str], driver: Path, folder: Path
) -> list[tuple[int, str, subprocess.CompletedProcess[str]]]:
    """Alone and under `replay capture`: exit status, what was printed without addresses and times, all of it."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "TF_CPP_MIN_LOG_LEVEL": "3"}
    capture = [sys.executable, "-m", "replay", "capture", "--all", "-o", str(folder / "x.rsnap"), "--"]
    found = []
    for before in ([], capture):
        done = subprocess.run(
            [*before, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            cwd=folder,
        )
        print(done.returncode, done.stdout, done.stderr)
        found.append((done.returncode, re.sub(r"0x[0-9a-f]+|\d+\.\d+ ?m?s", "", done.stdout), done))
    return found


def test_programs_of_the_runtime(real: RealDriver, runtime_program: str, tmp_path: Path) -> None:
    (status, printed, _), (captured, printed_there, whole) = outcomes(
        [runtime_program], real.folder, tmp_path
    )
    assert "cudaErrorNoDevice" in printed
    assert (captured, printed_there) == (status, printed) == (100, printed)
    assert NO_DEVICE in whole.stderr


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_program_that_is_linked_with_the_driver(
    real: RealDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binding: str
) -> None:
    program = built("linked", tmp_path, f"-L{real.folder}", "-l:libcuda.so.1")
    if binding == "now":
        monkeypatch.setenv("LD_BIND_NOW", "1")
    (status, printed, _), (captured, printed_there, whole) = outcomes([program], real.folder, tmp_path)
    assert (captured, printed_there) == (status, printed) == (100, "100, 3, -1 devices\n")
    assert NO_DEVICE in whole.stderr


def test_a_program_that_unloads_the_driver_and_loads_it_again(real: RealDriver, tmp_path: Path) -> None:
    program = built("again", tmp_path, "-ldl")
    (status, printed, _), (captured, printed_there, whole) = outcomes([program], real.folder, tmp_path)
    assert printed.count("parent: 100, 3, -1 devices; closed 0") == 3
    # Under capture the driver stays loaded (docs/limits.md), and 555 tells a child whose parent has started it so.
    child = re.compile(r"child: \d+")
    assert (child.sub("child", printed_there), captured) == (child.sub("child", printed), 3)
    assert status == 0
    assert NO_DEVICE in whole.stderr


@pytest.mark.parametrize("way", ["deepbind", "dlmopen", "dlvsym", "child"])
def test_ways_to_load_the_driver(real: RealDriver, tmp_path: Path, way: str) -> None:
    program = built("ways_in", tmp_path, "-ldl", source=HERE.parent / "shim" / "programs")
    (status, printed, _), (captured, printed_there, whole) = outcomes([program, way], real.folder, tmp_path)
    assert f"{'child' if way == 'child' else 'first'}: 100 3 3 3 3\n" in printed
    assert (captured, printed_there) == (status, printed) == (1, printed)
    assert NO_DEVICE in whole.stderr


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_frameworks(name: str, tmp_path: Path, real: RealDriver) -> None:
    framework = FRAMEWORKS[name]
    if subprocess.run([PYTHON, "-c", f"import {framework.module}"], capture_output=True).returncode:
        pytest.skip(
            f"{framework.module} is not installed; those of over 300 MB are not downloaded for this: name a "
            "Python that has it in REPLAY_TEST_FRAMEWORKS"
        )
    command = [PYTHON, "-c", framework.code]
    (status, printed, _), (captured, printed_there, whole) = outcomes(command, real.folder, tmp_path)
    assert printed_there == printed
    # 3: there is no snapshot, which the application's own success does not hide.
    assert (status, captured) == (0, 3)
    said = [line for line in whole.stderr.splitlines() if line.startswith("replay: ")]
    assert len(said) == 1
    expected = [NEVER_LOADED[name]] if name in NEVER_LOADED else [NO_DEVICE, NOT_STARTED]
    assert any(text in said[0] for text in expected)
