"""Programs that nvcc linked with the shared CUDA runtime, run as they are on the CPU driver's own runtime library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import toolchain

HERE = Path(__file__).resolve().parent / "runtime_programs"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(programs: toolchain.Programs, emulator_dir: Path) -> Run:
    """run(name, *arguments, status=0, options=(), **settings): compiles runtime_programs/NAME.cu and runs it."""
    major = programs.nvcc.version[0]
    if not (emulator_dir / f"libcudart.so.{major}").exists():
        pytest.skip(f"libcudart.so.{major} was left out of this build")

    def started(
        name: str, *arguments: str, status: int = 0, options: tuple[str, ...] = (), **settings: str
    ) -> subprocess.CompletedProcess[str]:
        program = programs.compile([HERE / f"{name}.cu"], *options)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
        environment |= {f"REPLAY_EMULATOR_{key}": value for key, value in settings.items()}
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        if done.returncode != status:
            pytest.fail(f"exit status {done.returncode}, not {status}\n{done.stdout}\n{done.stderr}")
        assert status != 0 or done.stdout.endswith("ok\n")
        return done

    return started


DEFAULT_STREAMS = pytest.mark.parametrize("default_stream", ["legacy", "per-thread"])


@DEFAULT_STREAMS
def test_kernels_variables_and_errors(run: Run, default_stream: str) -> None:
    run("vector_add", options=("-default-stream", default_stream))


def test_memory_of_every_kind(run: Run) -> None:
    run("memory")


@DEFAULT_STREAMS
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_streams_events_and_host_functions(run: Run, default_stream: str, deferred: str) -> None:
    run("streams", options=("-default-stream", default_stream), DEFERRED=deferred)


def test_launches_of_every_form_and_occupancy(run: Run) -> None:
    run("functions")


def test_two_devices(run: Run) -> None:
    run("devices", DEVICES="2")
