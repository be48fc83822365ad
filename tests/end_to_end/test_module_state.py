"""Variables of modules that no call of the application names: captured, restored and compared like any memory."""

from __future__ import annotations

import json
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


def test_each_window_has_the_variables_as_they_were(replay, program):
    replay.capture("--kernel", "step", "--each", "--launch", "2-5", application=[str(program)])
    starts = []
    for number in "2345":
        assert "outputs match" in replay.run(f"x.{number}.rsnap").stdout
        starts += [item for item in memory(replay, f"x.{number}.rsnap") if item["name"] == "counter"]
    assert [item["after"] for item in starts[:-1]] == [item["before"] for item in starts[1:]]
