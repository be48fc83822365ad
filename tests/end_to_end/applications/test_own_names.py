"""Programs that have the driver's names for themselves, and programs that are linked with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from replay.drivers import emulator_library

from ..conftest import DRIVER, REPOSITORY

PROGRAMS = REPOSITORY / "tests" / "shim" / "programs"

# slangpy loads a library with such variables, and other libraries after it.
THEN_SAXPY = """
import ctypes, runpy, sys
assert ctypes.CDLL(sys.argv[1]).allocate() in (0, 1)
sys.argv[1:] = ["--ptx"]
runpy.run_path({script!r}, run_name="__main__")
"""

LINKED = """
#include <stdint.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, uint64_t);
int cuMemsetD8_v2(uint64_t, uint8_t, uint64_t), cuCtxSynchronize(void);
int main(void) {
  void *context;
  uint64_t memory;
  return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
         cuMemAlloc_v2(&memory, 4096) || cuMemsetD8_v2(memory, 7, 4096) || cuCtxSynchronize();
}
"""


def test_a_library_with_variables_of_the_drivers_names_is_captured(replay):
    library = replay.folder / "libown_names.so"
    source = PROGRAMS / "own_names.c"
    subprocess.run(["cc", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    script = THEN_SAXPY.format(script=str(REPOSITORY / "samples" / "saxpy" / "saxpy.py"))
    replay.capture("--kernel", "saxpy", application=[sys.executable, "-c", script, str(library)])
    assert "outputs match" in replay.run().stdout


@pytest.mark.skipif(
    DRIVER != "emulator", reason="needs REPLAY_TEST_DRIVER=emulator: linked with the CPU driver"
)
@pytest.mark.parametrize("flags", [["-Wl,-z,lazy"], ["-Wl,-z,now"]], ids=["lazy", "now"])
def test_a_linked_program_is_captured(replay, flags):
    (replay.folder / "linked.c").write_text(LINKED)
    libraries = [f"-L{emulator_library().parent}", "-lcuda"]
    subprocess.run(["cc", "linked.c", "-o", "linked", *flags, *libraries], cwd=replay.folder, check=True)
    replay.capture("--all", application=["./linked"])
    calls = replay("ls", "x.rsnap", "calls").stdout
    assert "cuMemsetD8" in calls
    assert "outputs match" in replay.run().stdout
    assert not list(replay.folder.glob("*.rcap"))
