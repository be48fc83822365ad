"""Fixtures for tests of every folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import toolchain  # noqa: E402

# A shell that starts the tests in the background lets them ignore an interrupt; what they start would ignore it, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Commands keep what they know of this user's snapshots here, and not in the home folder."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


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
