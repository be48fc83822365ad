"""Programs of the CUDA runtime API, compiled by nvcc, on the libraries beside the CPU driver."""

from __future__ import annotations

import os

import pytest
import toolchain

from ..conftest import REPOSITORY

PROGRAMS = REPOSITORY / "tests" / "emulator" / "runtime_programs"

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: tests its runtime library",
)


@pytest.mark.parametrize("stream", ["legacy", "per-thread"])
@pytest.mark.parametrize(("name", "launches"), [("functions", 11), ("memory", 4)])
def test_a_whole_program_is_captured_and_replayed_bit_for_bit(
    replay, programs: toolchain.Programs, name: str, launches: int, stream: str
) -> None:
    program = programs.compile([PROGRAMS / f"{name}.cu"], default_stream=stream)
    done = replay.capture("--all", application=[str(program)])
    assert done.stdout == "ok\n"
    assert f"{launches} launches" in done.stderr
    assert "not everything was captured" not in done.stderr
    assert "outputs match" in replay.run().stdout


def test_one_launch_of_a_program_that_starts_threads(replay, programs: toolchain.Programs) -> None:
    program = programs.compile([PROGRAMS / "streams.cu"])
    replay.capture("--kernel", "fill", "--launch", "40", application=[str(program)])
    assert "outputs match" in replay.run().stdout


def test_a_launch_after_the_device_was_reset(replay, programs: toolchain.Programs) -> None:
    program = programs.compile([PROGRAMS / "vector_add.cu"])
    # 1 works, 2 is refused, 3 faults; then cudaDeviceReset, and the kernel's handle serves again.
    done = replay.capture("--kernel", "add", "--launch", "4", application=[str(program)])
    assert "not everything was captured" not in done.stderr
    assert "outputs match" in replay.run().stdout
