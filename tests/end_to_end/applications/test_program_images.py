"""Large fat binaries: they are not copied out of the program, and a snapshot keeps what its kernels can use."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from replay.errors import ExitCode

SOURCE = """
#include <cstdio>
#include <cuda_runtime.h>
__device__ float table[1 << 19] = {1.0f, 2.0f, 3.0f};
__global__ void look(float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[i & 1] * 2.0f;
}
int main() {
  float *device, host[1000];
  cudaMalloc(&device, sizeof host);
  look<<<4, 256>>>(device, 1000);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%g %g\\n", host[0], host[999]);
  return !(host[0] == 2 && host[999] == 4);
}
"""
TARGETS = ["arch=compute_80,code=[sm_80,compute_80]", "arch=compute_90,code=sm_90"]


@pytest.fixture
def program(programs, replay, tmp_path) -> Path:
    """Its kernels as PTX of compute_75 and compute_80, and as machine code of two architectures."""
    source = tmp_path / "look.cu"
    source.write_text(SOURCE)
    options = [
        "-Xfatbin",
        "-compress-mode=none",
        *(word for target in TARGETS for word in ("-gencode", target)),
    ]
    built = programs.compile([source], *options)
    copy = replay.folder / "look"
    copy.write_bytes(built.read_bytes())
    copy.chmod(0o755)
    return copy


def images(replay, name="x.rsnap"):
    return json.loads(replay("ls", name, "images", "--json").stdout)["images"]


def test_large_image_is_read_from_the_program_and_thinned(replay, program):
    replay.capture("--kernel", "look", "--keep-raw", application=[str(program)])
    container = (0xBA55ED50).to_bytes(4, "little")
    assert container in program.read_bytes()
    assert not any(container in path.read_bytes() for path in replay.folder.glob("x.rcap/*.bin"))
    (image,) = images(replay)
    assert image["left_out"] == ["compute_75", "sm_80"]
    assert image["loaded_bytes"] > 2 * (2 << 20) > image["contents"]["size_bytes"]
    assert "outputs match" in replay.run().stdout


def test_full_images_keeps_every_architecture(replay, program):
    replay.capture("--kernel", "look", "--full-images", application=[str(program)])
    (image,) = images(replay)
    assert image["left_out"] == []
    assert image["contents"]["size_bytes"] > 2 * (2 << 20)
    assert "outputs match" in replay.run().stdout


def test_program_that_changed_before_packing_is_said_so(replay, program):
    replay.capture("--kernel", "look", "--keep-raw", application=[str(program)])
    os.utime(program)
    done = replay("pack", "x.rcap", "-o", "later.rsnap")
    assert "IMAGE_MISSING" in done.stderr
    assert "was changed" in replay("ls", "later.rsnap", "notes", "--json").stdout
    done = replay("run", "later.rsnap", "--driver", "emulator", status=ExitCode.COULD_NOT)
    assert "image was not captured" in done.stderr


LIBRARY = """
#include <cuda_runtime.h>
__device__ unsigned calls;
__device__ float table[1 << 15] = {1.0f, 2.0f, 3.0f};
__global__ void look(float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) calls++;
  if (i < n) out[i] = table[i & 1] * 2.0f + calls;
}
extern "C" void run(float *out) { look<<<4, 256>>>(out, 1000); }
"""
LOADER = """
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>
#include <cuda_runtime.h>
int main(int, char **arguments) { // library, when it is deleted
  const char *path = arguments[1], *when = arguments[2];
  float *device, host[1000];
  cudaMalloc(&device, sizeof host);
  void *library = dlopen(path, RTLD_NOW);
  auto run = (void (*)(float *))dlsym(library, "run");
  run(device);
  if (!strcmp(when, "before")) unlink(path);
  run(device);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%g %g\\n", host[0], host[999]);
  if (!strcmp(when, "after")) unlink(path);
  if (!strcmp(when, "closed")) dlclose(library);
  return host[999] < 5 || host[999] > 6;
}
"""


@pytest.mark.parametrize("when", ["before", "after", "closed"])
def test_image_of_a_library_that_is_gone_by_the_end(programs, replay, tmp_path, when):
    """Deleted after the window uses it, closed: the image is read in time. Deleted before: a note says so."""
    (tmp_path / "look.cu").write_text(LIBRARY)
    (tmp_path / "load.cu").write_text(LOADER)
    uncompressed = [
        "-Xfatbin",
        "-compress-mode=none",
        "-gencode",
        TARGETS[0],
    ]  # large enough to stay in the file
    library = programs.compile(
        [tmp_path / "look.cu"], *uncompressed, "-shared", "-Xcompiler", "-fPIC", output="look.so"
    )
    loader = programs.compile([tmp_path / "load.cu"], "-ldl")
    copy = replay.folder / "look.so"
    copy.write_bytes(library.read_bytes())
    done = replay.capture("--kernel", "look", "--launch", "2", application=[str(loader), str(copy), when])
    assert copy.exists() == (when == "closed")
    if when == "before":
        assert "IMAGE_MISSING" in done.stderr
        assert "image was not captured" in replay.run(status=ExitCode.COULD_NOT).stderr
        return
    assert "IMAGE_MISSING" not in done.stderr
    assert "INCOMPLETE_GLOBALS" not in done.stderr
    assert "outputs match" in replay.run().stdout
