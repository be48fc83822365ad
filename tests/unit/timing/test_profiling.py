"""`replay run --profile`: one clean replay, with ranges and profiler calls around what a profiler is to see."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from replay.engine.measuring.nvtx import VARIABLE, Nvtx
from replay.engine.run import RunOptions, run_snapshot

from ..small_snapshots import increment

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
        pytest.skip("no C compiler")
    source, library = tmp_path / "profiler.c", tmp_path / "profiler.so"
    source.write_text(PROFILER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def test_a_profiler_sees_the_restore_and_the_window_and_the_end(tmp_path, emulator, profiler, monkeypatch):  # noqa: F811
    monkeypatch.setenv(VARIABLE, str(profiler))
    monkeypatch.setenv("PROFILER_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("REPLAY_EMULATOR_COUNTERS", str(tmp_path / "launches"))
    path = increment().write(tmp_path / "x.rsnap")
    result = run_snapshot(path, RunOptions(driver=emulator, timing=None, profile=True, timeout_s=60))
    assert result.verification.verdict == "match"
    assert result.profile.nvtx_ranges == ["replay restore", "replay window"]
    assert result.timing is None
    log = (tmp_path / "log").read_text().split("\n")
    assert log[:5] == ["push replay restore", "pop ", "push replay window", "pop ", "end "]
    assert len((tmp_path / "launches").read_text().splitlines()) == 1  # the window ran once


def test_the_window_is_between_the_calls_that_start_and_stop_a_profiler(tmp_path, emulator, monkeypatch):  # noqa: F811
    monkeypatch.setenv("REPLAY_EMULATOR_TRACE", "1")
    path = increment().write(tmp_path / "x.rsnap")
    log = tmp_path / "log"
    monkeypatch.setattr(
        "replay.engine.supervisor.Worker._take_log", lambda self, data, **words: log.open("ab").write(data)
    )
    result = run_snapshot(path, RunOptions(driver=emulator, timing=None, profile=True, timeout_s=60))
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
