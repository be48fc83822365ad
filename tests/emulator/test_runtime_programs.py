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
        return done

    return started


def test_kernels_variables_and_errors(run: Run) -> None:
    assert run("vector_add").stdout == "ok\n"


def test_the_same_with_the_per_thread_default_stream(run: Run) -> None:
    assert run("vector_add", options=("-default-stream", "per-thread")).stdout == "ok\n"
