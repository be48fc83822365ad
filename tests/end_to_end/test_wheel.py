"""A wheel, installed into an empty virtual environment and used where there is no compiler.

REPLAY_TEST_WHEEL names a wheel, such as one of `make wheel`; else one is made of the build folder of `make setup`.
REPLAY_TEST_PYTHON names the interpreter; else it is the one that runs the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from toolchain import BuiltOnce

from replay import drivers

from .conftest import REPOSITORY

TIMEOUT_S = 110
NO_NETWORK = (
    "No matching distribution found",
    "Max retries exceeded",
    "Temporary failure in name resolution",
)
MOST_BYTES = 12 << 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * TIMEOUT_S)]


def checked(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **options)  # type: ignore[call-overload]
    if done.returncode != 0 and any(words in done.stderr for words in NO_NETWORK):
        pytest.skip("needs the packages that replay depends on, and the registry does not answer")
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(built_once: BuiltOnce) -> Path:
    if named := os.environ.get("REPLAY_TEST_WHEEL"):
        return Path(named).resolve()
    if not [*(REPOSITORY / "build").glob("py3-none-linux_*/build.ninja")]:
        pytest.skip("needs the build folder of make setup, or REPLAY_TEST_WHEEL")

    def build(folder: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        checked(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--no-deps",
                "--no-build-isolation",
                "-w",
                folder,
                REPOSITORY,
            ],
            env={**os.environ, "PATH": path},
        )

    # Once for all processes of the tests: two at a time would be in one build folder.
    return next(built_once("wheel", build).glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a virtual environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("environment")
    # The pip of the tests fills it, and compiles nothing: most of the modules are never imported here.
    checked([os.environ.get("REPLAY_TEST_PYTHON", sys.executable), "-m", "venv", "--without-pip", folder])
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    checked([*pip, "install", "-q", "--no-compile", wheel])
    return folder / "bin"


def test_a_wheel_is_small_and_has_every_native_library(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST_BYTES
    needed = {drivers.INTERPOSER_NAME, drivers.STAND_IN_NAME, drivers.SUBMISSION_NAME, drivers.SCANNING_NAME}
    with zipfile.ZipFile(wheel) as opened:
        assert needed <= {Path(name).name for name in opened.namelist()}


def test_an_installed_wheel_captures_replays_and_compares_without_a_compiler(
    installed: Path, samples: Path, tmp_path: Path
) -> None:
    environment = {"PATH": str(installed), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    for name in ("cc", "gcc", "g++", "clang", "nvcc", "ptxas"):
        assert shutil.which(name, path=environment["PATH"]) is None

    def replay(*arguments: str) -> str:
        return checked([installed / "replay", *arguments], cwd=tmp_path, env=environment).stdout

    facts = json.loads(replay("--version", "--json"))
    assert facts["cpu_driver"] is not None
    assert None not in facts["packages"].values()
    program = str(samples / "inplace_scan")
    emulator = ("--driver", "emulator")
    replay(
        "capture", *emulator, "--kernel", "inplace_scan", "--launch", "3", "-o", "scan.rsnap", "--", program
    )
    assert "outputs match" in replay("run", "scan.rsnap", *emulator)
    slower = "env=REPLAY_EMULATOR_SLOWDOWN=inplace_scan:1.03"
    assert replay("compare", "scan.rsnap", "--b", slower, *emulator).startswith("SLOWER")
