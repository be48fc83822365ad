"""NVIDIA's own driver library, started on a machine without a GPU.

REPLAY_REAL_DRIVER=FOLDER takes the libcuda.so.1 of that folder in place of the releases that are downloaded. Where none
can be had the tests are skipped with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parents[1]))  # the generators

import download  # noqa: E402

NAMED = os.environ.get("REPLAY_REAL_DRIVER", "")


@dataclass(frozen=True)
class RealDriver:
    folder: Path
    version: int  # as cuDriverGetVersion gives it: 12020

    @property
    def library(self) -> Path:
        return self.folder / "libcuda.so.1"


@cache
def load(branch: str) -> RealDriver | str:
    """The driver, or why there is none here."""
    try:
        folder = Path(NAMED) if NAMED else download.downloaded(branch)
    except download.Unavailable as error:
        return f"NVIDIA's driver {branch} cannot be had here: {error}; or name a folder in REPLAY_REAL_DRIVER"
    # In a process of its own: a library of another C library or processor may end the one that loads it.
    done = subprocess.run(
        [sys.executable, "-c", VERSION, str(folder / "libcuda.so.1")], capture_output=True, text=True
    )
    if done.returncode:
        return f"NVIDIA's driver in {folder} does not load here: {(done.stderr.strip().splitlines() or [''])[-1]}"
    return RealDriver(folder, int(done.stdout))


VERSION = """
import ctypes, sys
version = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).cuDriverGetVersion(ctypes.byref(version))
print(version.value)
"""


@pytest.fixture(scope="session", params=["named"] if NAMED else sorted(download.RELEASES))
def real(request: pytest.FixtureRequest) -> RealDriver:
    """Each release in turn."""
    found = load(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def interposer() -> Path:
    """The shim of the installed package."""
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "libreplay_interposer.so"
