"""Variables of modules that no call of the application names: captured, restored and compared like any memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

SOURCE = """
#include <cstdio>
#include <cuda_runtime.h>
__device__ unsigned counter;                                  // only kernels know of it
__device__ unsigned history[64] = {1000, 1001, 1002, 1003};   // likewise, with initial values
__device__ unsigned *last_place;                              // points to another variable
__constant__ unsigned factors[2] = {3, 5};
__managed__ unsigned total = 7;
__global__ void step(unsigned *out) {
  unsigned now = atomicAdd(&counter, 1);
  if (last_place) *last_place += 10;
  last_place = &history[now + 1];
  history[now] += now * factors[now & 1];
  total += history[now];
  out[now] = counter + history[now] + total;
}
int main() {
  unsigned *device, host[64], again[2] = {11, 13};
  cudaMalloc(&device, sizeof host);
  cudaMemset(device, 0, sizeof host);
  for (int n = 0; n < 6; n++) {
    if (n == 2) cudaMemcpyToSymbol(factors, again, sizeof again);
    step<<<1, 1>>>(device);
  }
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  for (int n = 0; n < 6; n++) std::printf("%u ", host[n]);
  std::printf("%u\\n", total);
  return cudaGetLastError() != cudaSuccess;
}
"""

POINTERS = """
#include <cstdio>
#include <cuda_runtime.h>
__device__ unsigned first[4], second[4] = {1, 2, 3, 4};
__global__ void follow(unsigned **table, unsigned *sum) {
  for (int n = 0; n < 3; n++) *sum += table[n][n] += n + 1;
}
int main() {
  void *table[3], **device, **pitched;
  unsigned *sum, result, count = 0;
  cudaGetSymbolAddress(&table[0], second);
  cudaGetSymbolAddress(&table[1], first);
  table[2] = table[0];
  cudaMalloc(&device, sizeof table);
  cudaMalloc(&pitched, sizeof table);
  cudaMalloc(&sum, 4);
  cudaMemset(sum, 0, 4);
  cudaMemcpy(device, table, sizeof table, cudaMemcpyHostToDevice);
  cudaMemcpy2D(pitched, 8, table, 8, 8, 3, cudaMemcpyHostToDevice);
  follow<<<1, 1>>>((unsigned **)device, sum);
  follow<<<1, 1>>>((unsigned **)pitched, sum);
  cudaMemcpy(&result, sum, 4, cudaMemcpyDeviceToHost);
  std::printf("%u\\n", result);
  return !(result == 2 + 2 + 6 + 3 + 4 + 9);
}
"""

COMPRESSION = {"none": "none", "zstd": "balance", "lz4": "speed"}


@pytest.fixture
def program(programs, tmp_path) -> Path:
    return _compiled(programs, tmp_path, "none")


def _compiled(programs, folder: Path, compression: str, *options: str) -> Path:
    source = folder / "state.cu"
    source.write_text(SOURCE)
    return programs.compile([source], "-Xfatbin", f"-compress-mode={COMPRESSION[compression]}", *options)


def memory(replay, name="x.rsnap"):
    return json.loads(replay("ls", name, "memory", "--json").stdout)["memory"]


@pytest.mark.parametrize("compression", COMPRESSION)
def test_variables_that_no_call_named_are_restored_and_compared(replay, programs, tmp_path, compression):
    program = _compiled(programs, tmp_path, compression)
    done = replay.capture("--kernel", "step", "--launch", "4", application=[str(program)])
    assert "INCOMPLETE_GLOBALS" not in done.stderr
    variables = {item["name"]: item for item in memory(replay) if item["name"]}
    assert {"counter", "history", "last_place", "factors", "total"} <= set(variables)
    assert variables["counter"]["before"] != variables["counter"]["after"]
    assert variables["factors"]["before"] == variables["factors"]["after"]
    assert variables["total"]["kind"] == "managed"
    assert "outputs match" in replay.run().stdout


def test_variables_of_a_module_that_the_window_loads_replay(replay, program):
    replay.capture("--all", application=[str(program)])
    assert "outputs match" in replay.run("x.rsnap", "--samples", "4").stdout
    calls = replay("ls", "x.rsnap", "calls").stdout
    assert '"counter"' in next(line for line in calls.splitlines() if line.endswith("# made by capture"))


def test_relocatable_device_code_has_its_variables(replay, programs, tmp_path):
    """Its image is only machine code; the PTX of its parts is in containers of their own."""
    program = _compiled(programs, tmp_path, "zstd", "-rdc=true")
    replay.capture("--kernel", "step", "--launch", "4", application=[str(program)])
    assert {"counter", "history"} <= {item["name"] for item in memory(replay)}
    assert "outputs match" in replay.run().stdout


@pytest.mark.parametrize(
    "selection", [["--all"], ["--kernel", "follow", "--launch", "2"]], ids=["all", "launch"]
)
def test_pointers_to_variables_that_the_host_uploads(replay, programs, tmp_path, selection):
    """Variables are elsewhere in the replay, and each iteration of a whole program loads them anew."""
    source = tmp_path / "pointers.cu"
    source.write_text(POINTERS)
    replay.capture(*selection, application=[str(programs.compile([source]))])
    result = json.loads(replay.run("x.rsnap", "--samples", "4", "--json").stdout)
    assert result["verification"]["verdict"] == "match"
    if os.environ.get("REPLAY_TEST_DRIVER", "emulator") == "emulator":
        assert result["placement"]["patched_globals"] == 2  # a GPU may load them where they were


def test_each_window_has_the_variables_as_they_were(replay, program):
    replay.capture("--kernel", "step", "--each", "--launch", "2-5", application=[str(program)])
    results = json.loads(replay.run("x.rsnap", "--json").stdout)["windows"]
    assert [item["result"]["verification"]["verdict"] for item in results] == ["match"] * 4
    starts = []
    for number in "2345":
        found = replay("ls", "x.rsnap", "memory", "--window", number, "--json").stdout
        starts += [item for item in json.loads(found)["memory"] if item["name"] == "counter"]
    assert len(starts) == 4
    assert [item["after"] for item in starts[:-1]] == [item["before"] for item in starts[1:]]
