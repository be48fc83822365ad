"""Where the CPU driver is, and fixtures that call it.

Settings are read once a process, so a test that needs a setting runs a script in a fresh process (`fresh`).
`driver_api` is a module in `helpers`; scripts import it too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "helpers"))

from places import MODULE_PATH  # noqa: E402

sys.path[:0] = MODULE_PATH

import driver_api  # noqa: E402
import graph_api  # noqa: E402

COMPUTE_CAPABILITY_MAJOR = 75  # CUdevice_attribute


@pytest.fixture(scope="session")
def library(emulator_dir: Path) -> driver_api.Driver:
    """The driver in this process, initialised, with default settings."""
    driver = driver_api.Driver(emulator_dir / "libcuda.so.1")
    driver.do("cuInit", 0)
    return driver


@pytest.fixture
def cuda(library: driver_api.Driver) -> driver_api.Driver:
    """The driver with a context of the test's own; it ends with the test, and with it all the test's memory."""
    context = driver_api.handle()
    library.do("cuCtxCreate_v2", driver_api.out(context), 0, 0)
    library.context = context.value
    yield library
    library.cuCtxDestroy_v2(context)
    library.do("cuCtxSetCurrent", 0)


@pytest.fixture(scope="session")
def second_library(
    library: driver_api.Driver, emulator_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> driver_api.Driver:
    """Another copy of the CPU driver in this process, whose devices have compute capability 10.0; in the place of the
    CPU driver, the driver of a machine that has such a device."""
    if not (emulator_dir / "libcudart.so.13").exists():  # which comes with the CPU driver
        major = ctypes.c_int(0)
        library.do("cuDeviceGetAttribute", driver_api.out(major), COMPUTE_CAPABILITY_MAJOR, 0)
        if major.value != 10:
            pytest.skip("needs a device of compute capability 10")
        return library
    copied = shutil.copy(
        emulator_dir / "libcuda.so.1", tmp_path_factory.mktemp("second") / "libcuda-second.so.1"
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("REPLAY_EMULATOR_COMPUTE_CAPABILITY", "10.0")
        driver = driver_api.Driver(Path(copied))
        driver.do("cuInit", 0)
    return driver


@pytest.fixture
def blackwell(second_library: driver_api.Driver) -> driver_api.Driver:
    """As `cuda`, of compute capability 10.0."""
    context = driver_api.handle()
    second_library.do("cuCtxCreate_v2", driver_api.out(context), 0, 0)
    second_library.context = context.value
    yield second_library
    second_library.cuCtxDestroy_v2(context)
    second_library.do("cuCtxSetCurrent", 0)


Fresh = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fresh(emulator_dir: Path) -> Fresh:
    """fresh(script, status=0, **settings): runs a script with `d`, a Driver with a current context.

    The process's exit status must be `status` (negative: a signal); None accepts any. Settings are given
    without their prefix: fresh(script, NOISE="0.1") sets REPLAY_EMULATOR_NOISE.
    """

    def run(
        script: str, *, status: int | None = 0, environment: dict[str, str] | None = None, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **(environment or {})}
        environment["PYTHONPATH"] = os.pathsep.join(
            [*MODULE_PATH, environment.get("PYTHONPATH", ""), sysconfig.get_path("purelib")]
        )
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            [str(emulator_dir), environment.get("LD_LIBRARY_PATH", "")]
        )
        environment |= {f"REPLAY_EMULATOR_{name}": value for name, value in settings.items()}
        environment.setdefault("REPLAY_EMULATOR_QUIET", "0")
        prelude = f"from driver_api import *\nd = Driver({str(emulator_dir / 'libcuda.so.1')!r})\nd.start()\n"
        done = subprocess.run(
            # Packages are found without what they do at every start of Python, which takes longer than most scripts.
            [sys.executable, "-S", "-c", prelude + textwrap.dedent(script)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if status is not None and done.returncode != status:
            pytest.fail(f"exit status {done.returncode}, not {status}\n{done.stdout}\n{done.stderr}")
        return done

    return run


@pytest.fixture
def graphs(cuda: driver_api.Driver) -> graph_api.Graphs:
    """Graph calls on the driver of the test process."""
    return graph_api.Graphs(cuda)
