"""Programs that give no snapshot: what `replay capture` says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

INIT = "import ctypes; assert ctypes.CDLL('libcuda.so.1').cuInit(1) == 1"  # flags must be 0
CHROOT = "import ctypes, os; cu = ctypes.CDLL('libcuda.so.1'); os.chroot('.'); os.chdir('/'); cu.cuInit(0)"


@pytest.mark.parametrize("selection", [(), ("--all",)])
def test_a_failed_cuinit_is_no_truncated_capture(replay, selection):
    done = replay.capture(*selection, application=[sys.executable, "-c", INIT], status=3)
    assert "cuInit failed in" in done.stderr
    assert "CUDA_ERROR_INVALID_VALUE (1)" in done.stderr
    assert "truncated" not in done.stderr
    assert list(replay.folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for chroot")
def test_a_chroot_before_the_first_call_is_not_called_a_program_without_cuda(replay):
    done = replay.capture(application=[sys.executable, "-c", CHROOT], status=3)
    assert "nothing is captured" in done.stderr
    assert "or could not write into the raw capture" in done.stderr
    assert "(chroot) has to call cuInit before that" in done.stderr


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="needs musl-gcc: apt install musl-tools")
def test_a_program_of_musl_is_refused_before_it_starts(replay):
    """Which runs without the shim, and would end with an error of its loader under it."""
    (replay.folder / "a.c").write_text('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
    subprocess.run(["musl-gcc", "a.c", "-o", "a"], cwd=replay.folder, check=True)
    assert replay.other(["./a"]).stdout == "ran\n"
    done = replay.capture("--all", application=["./a"], status=3)
    assert "ran" not in done.stdout
    assert "is linked with musl, and both the shim and NVIDIA's driver need glibc" in done.stderr
