"""`replay run --profile`: one clean replay, with ranges and profiler calls around what a profiler is to see."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from replay.engine.measuring import nvtx
from replay.engine.measuring.nvtx import VARIABLE, Nvtx
from replay.run.parent import RunOptions, run_snapshot

from ..helpers.small_snapshots import BASE, INCREMENT, increment, u32, u64
from ..helpers.snapshot_factory import SnapshotFactory

# Where NVTX 3 comes with a CUDA toolkit
HEADERS = ("/usr/local/cuda/include", "/usr/local/cuda-13.0/include", "/usr/include")

# A profiler's side of NVTX, as nvtx3/nvtxDetail/nvtxTypes.h has it: writes what it is told to a file. At the end of
# the process too, as profilers do.
PROFILER = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*function)(void);
struct callbacks { size_t size; int (*table)(int module, function ***table, unsigned *size); };
struct version { size_t size; uint32_t version, reserved; void (*set)(uint32_t); };

static int depth;
static void say(const char *what, const char *text) {
  FILE *file = fopen(getenv("PROFILER_LOG"), "a");
  fprintf(file, "%s %s\n", what, text);
  fclose(file);
}
static int push(const char *name) { say("push", name); return depth++; }
static int pop(void) { say("pop", ""); return --depth; }
static void at_end(void) { say("end", ""); }

__attribute__((visibility("default")))
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
  const struct callbacks *callbacks = export_table(1);
  const struct version *version = export_table(3);
  if (callbacks->size != sizeof *callbacks || version->size != sizeof *version || export_table(2) != NULL)
    return 0;
  version->set(3);
  static const int sizes[] = {0, 16, 9, 15, 7, 16, 7};
  for (int module = 1; module <= 6; module++) {
    function **table = NULL;
    unsigned size = 0;
    if (!callbacks->table(module, &table, &size) || (int)size != sizes[module] || table[0] || table[size])
      return 0;
    for (unsigned n = 1; n < size; n++)
      if (table[n] == NULL || *table[n] != NULL)
        return 0;
    if (module == 1) {
      *table[9] = (function)push;
      *table[11] = (function)pop;
    }
  }
  if (callbacks->table(7, NULL, NULL))
    return 0;
  atexit(at_end);
  return 1;
}
"""


@pytest.fixture
def profiler(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler: apt install gcc")
    source, library = tmp_path / "profiler.c", tmp_path / "profiler.so"
    source.write_text(PROFILER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def test_a_profiler_sees_the_restore_and_the_window_and_the_end(tmp_path, emulator, profiler, monkeypatch):  # noqa: F811
    monkeypatch.setenv(VARIABLE, str(profiler))
    monkeypatch.setenv("PROFILER_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("REPLAY_EMULATOR_COUNTERS", str(tmp_path / "launches"))
    path = increment().write(tmp_path / "x.rsnap")
    result = run_snapshot(
        path, RunOptions(driver=emulator, timing=None, profile=True, timeout_s=60, trust=True)
    )
    assert result.verification.verdict == "match"
    assert result.profile.nvtx_ranges == ["replay restore", "replay window"]
    assert result.timing is None
    log = (tmp_path / "log").read_text().split("\n")
    assert log[:5] == ["push replay restore", "pop ", "push replay window", "pop ", "end "]
    assert len((tmp_path / "launches").read_text().splitlines()) == 1  # the window ran once


@pytest.fixture
def told(tmp_path, emulator, profiler, monkeypatch):
    """Replays for that profiler: its verdict, and what the profiler and the driver were called with, in order."""

    def run(factory):
        path, log = factory.write(tmp_path / "x.rsnap"), tmp_path / "log"
        monkeypatch.setenv(VARIABLE, str(profiler))
        monkeypatch.setenv("PROFILER_LOG", "/dev/stderr")  # where the driver traces, too
        monkeypatch.setenv("REPLAY_EMULATOR_TRACE", "1")
        monkeypatch.setattr(
            "replay.run.supervisor.WorkerProcess._take_log",
            lambda self, data, **words: log.open("ab").write(data),
        )
        result = run_snapshot(
            path, RunOptions(driver=emulator, timing=None, profile=True, timeout_s=60, trust=True)
        )
        found = []
        for line in log.read_text().splitlines():
            if line.startswith("replay CPU driver: cu") and "cuGetProcAddress" not in line:
                found.append(line.removeprefix("replay CPU driver: ").partition(" -> ")[0])
            elif line.startswith(("push ", "pop ")):
                found.append(line.strip())
        return result.verification.verdict, found

    return run


def several_streams():
    """Two streams that the window makes, with an edge between them; b = a + 1 = 6, then in place 7."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    for handle in (0x51, 0x52):
        factory.call("cuStreamCreate", [0x7F40, 1], outputs={"phStream": u64(handle)})
    factory.call("cuEventCreate", [0x7F40, 2], outputs={"phEvent": u64(0xE1)})
    factory.range(BASE, u32(5), u32(7))
    factory.launch(u64(BASE), [(0, 8)], 1, 1, stream=0x51)
    factory.call("cuEventRecord", [0xE1, 0x51])
    factory.call("cuStreamWaitEvent", [0x52, 0xE1, 0])
    factory.launch(u64(BASE), [(0, 8)], 1, 1, stream=0x52)
    factory.call("cuStreamSynchronize", [0x52])
    return factory


def test_exactly_the_calls_of_the_window_are_inside_its_range(told):
    factory = several_streams()
    verdict, seen = told(factory)
    assert verdict == "match"
    assert seen.count("push replay window") == seen.count("push replay restore") == 1
    begin = seen.index("push replay window")
    end = seen.index("pop", begin)
    of_window = [call.function for call in factory.calls if call.section == "window"]
    inside = [name for name in seen[begin + 1 : end] if name != "cuCtxSetCurrent"]
    assert inside == [*of_window, "cuCtxSynchronize"]
    outside = seen[:begin] + seen[end:]
    assert not [name for name in outside if name.startswith("cuLaunch")]  # no warm-up, no timing, no stamps
    assert (seen[begin - 1], seen[end + 1]) == ("cuProfilerStart", "cuProfilerStop")


def test_the_restore_is_inside_its_own_range_in_front_of_the_window(told):
    verdict, seen = told(several_streams())
    assert verdict == "match"
    begin = seen.index("push replay restore")
    end = seen.index("pop", begin)
    assert end < seen.index("cuProfilerStart") < seen.index("push replay window")
    assert seen[end - 1] == "cuCtxSynchronize"  # it is over before the window begins
    restored = [name for name in seen[begin:end] if name.startswith("cuMemcpyDtoDAsync")]
    assert len(restored) == 1
    assert not [name for name in seen[end:] if name.startswith("cuMemcpyDtoDAsync")]


def test_the_interface_is_that_of_the_nvtx_headers(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    folder = next((one for one in map(Path, HEADERS) if (one / "nvtx3" / "nvToolsExt.h").is_file()), None)
    if compiler is None or folder is None:
        pytest.skip("needs a C compiler, and the NVTX header of a CUDA toolkit in /usr/local")
    modules = ("CORE", "CUDA", "OPENCL", "CUDART", "CORE2", "SYNC")
    pairs = {
        "NVTX_VERSION": nvtx._NVTX_VERSION,
        "NVTX_ETID_CALLBACKS": nvtx._TABLE_CALLBACKS,
        "NVTX_ETID_VERSIONINFO": nvtx._TABLE_VERSION,
        "NVTX_CBID_CORE_RangePushA": nvtx._PUSH_ASCII,
        "NVTX_CBID_CORE_RangePop": nvtx._POP,
        "sizeof(NvtxExportTableCallbacks)": ctypes.sizeof(nvtx._Callbacks),
        "sizeof(NvtxExportTableVersionInfo)": ctypes.sizeof(nvtx._Version),
        **{f"NVTX_CB_MODULE_{name}": number for number, name in enumerate(modules, 1)},
        **{f"NVTX_CBID_{name}_SIZE": nvtx._FUNCTIONS[number] for number, name in enumerate(modules, 1)},
    }
    source = tmp_path / "check.c"
    lines = [f'_Static_assert({name} == {value}, "{name}");' for name, value in pairs.items()]
    source.write_text(
        "\n".join(["#include <nvtx3/nvToolsExt.h>", "#include <nvtx3/nvToolsExtSync.h>", *lines, ""])
    )
    subprocess.run([compiler, "-std=c11", "-fsyntax-only", f"-I{folder}", str(source)], check=True)


def test_the_window_is_between_the_calls_that_start_and_stop_a_profiler(tmp_path, emulator, monkeypatch):  # noqa: F811
    monkeypatch.setenv("REPLAY_EMULATOR_TRACE", "1")
    path = increment().write(tmp_path / "x.rsnap")
    log = tmp_path / "log"
    monkeypatch.setattr(
        "replay.run.supervisor.WorkerProcess._take_log",
        lambda self, data, **words: log.open("ab").write(data),
    )
    result = run_snapshot(
        path, RunOptions(driver=emulator, timing=None, profile=True, timeout_s=60, trust=True)
    )
    assert result.profile.nvtx_unavailable == f"no profiler has set {VARIABLE}"
    wanted = ("cuProfilerStart", "cuLaunchKernel", "cuCtxSynchronize", "cuProfilerStop")
    seen = [name for line in log.read_text().splitlines() for name in wanted if name in line]
    start, stop = seen.index("cuProfilerStart"), seen.index("cuProfilerStop")
    assert seen[start + 1 : stop] == ["cuLaunchKernel", "cuCtxSynchronize"]
    assert seen.count("cuLaunchKernel") == 1


@pytest.mark.parametrize("path", ["", "/nonexistent/profiler.so", "libc.so.6"])
def test_ranges_without_a_profiler_do_nothing_and_say_why(path):
    ranges = Nvtx(path)
    assert ranges.unavailable
    with ranges.range("x"):
        pass
