"""Fixtures for tests of every folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import toolchain  # noqa: E402


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> toolchain.Programs:
    """Compiles CUDA programs, each once a test session. Skips where there is no nvcc."""
    nvcc = toolchain.find_nvcc()
    if nvcc is None:
        pytest.skip(
            "no nvcc of CUDA 12 or later on PATH, and the wheels of the `test` extra are not installed"
        )
    if kept := os.environ.get("REPLAY_TEST_PROGRAMS"):
        return toolchain.Programs(nvcc, Path(kept))
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has a folder of its own inside the session's.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return toolchain.Programs(nvcc, shared / "programs")


def emulator_folder() -> Path:
    """The folder with libcuda.so.1: REPLAY_TEST_EMULATOR_DIR, else the installed package's."""
    if named := os.environ.get("REPLAY_TEST_EMULATOR_DIR"):
        return Path(named)
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "emulator"


@pytest.fixture(scope="session")
def emulator_dir() -> Path:
    folder = emulator_folder()
    if not (folder / "libcuda.so.1").exists():
        pytest.fail(f"no libcuda.so.1 in {folder}: run `make setup`, or set REPLAY_TEST_EMULATOR_DIR")
    return folder
