"""NVIDIA's own Python packages on the CPU driver, found as a program finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import driver_api as api
import pytest

BINDINGS = """
import numpy, sys
from cuda.bindings import driver as cuda

def ok(answer):
    assert answer[0] == cuda.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]

ok(cuda.cuInit(0))
device = ok(cuda.cuDeviceGet(0))
context = ok(cuda.cuDevicePrimaryCtxRetain(device))
ok(cuda.cuCtxSetCurrent(context))
module = ok(cuda.cuModuleLoadData(open(sys.argv[1], "rb").read()))
kernel = ok(cuda.cuModuleGetFunction(module, b"vector_add"))
stream = ok(cuda.cuStreamCreate(0))
a = numpy.arange(1000, dtype=numpy.float32)
b = a[::-1].copy()
c = numpy.zeros_like(a)
pointers = [ok(cuda.cuMemAlloc(a.nbytes)) for _ in range(3)]
ok(cuda.cuMemcpyHtoDAsync(pointers[0], a.ctypes.data, a.nbytes, stream))
ok(cuda.cuMemcpyHtoDAsync(pointers[1], b.ctypes.data, b.nbytes, stream))
arguments = [numpy.array([int(p)], dtype=numpy.uint64) for p in pointers] + [numpy.array([1000], dtype=numpy.int32)]
addresses = numpy.array([x.ctypes.data for x in arguments], dtype=numpy.uint64)
ok(cuda.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, stream, addresses.ctypes.data, 0))
ok(cuda.cuMemcpyDtoHAsync(c.ctypes.data, pointers[2], c.nbytes, stream))
ok(cuda.cuStreamSynchronize(stream))
assert (c == 999).all(), c
print(ok(cuda.cuDeviceGetName(64, device)).split(b"\\0")[0].decode())
"""

CORE = """
import numpy, sys
from cuda.core import Device, EventOptions, LaunchConfig, ObjectCode, launch
from cuda.bindings import driver as cuda

device = Device()
device.set_current()
stream = device.create_stream()
kernel = ObjectCode.from_ptx(open(sys.argv[1], "rb").read()).get_kernel("vector_add")
assert kernel.num_arguments == 4
a = numpy.arange(1000, dtype=numpy.float32)
c = numpy.zeros_like(a)
x, y = (device.memory_resource.allocate(a.nbytes, stream=stream) for _ in range(2))
cuda.cuMemcpyHtoDAsync(int(x.handle), a.ctypes.data, a.nbytes, stream.handle)
start = stream.record(options=EventOptions(timing_enabled=True))
launch(stream, LaunchConfig(grid=8, block=128), kernel, x, x, y, numpy.int32(1000))
end = stream.record(options=EventOptions(timing_enabled=True))
stream.sync()
cuda.cuMemcpyDtoH(c.ctypes.data, int(y.handle), c.nbytes)
assert (c == 2 * a).all(), c
assert end - start > 0
x.close(stream)
y.close(stream)
print(device.name)
"""

CORE_GRAPHS = """
import numpy, sys
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.bindings import driver as cuda

device = Device()
device.set_current()
stream = device.create_stream()
kernel = ObjectCode.from_ptx(open(sys.argv[1], "rb").read()).get_kernel("vector_add")
a = numpy.arange(64, dtype=numpy.float32)
c = numpy.zeros_like(a)
x, y = (device.memory_resource.allocate(a.nbytes, stream=stream) for _ in range(2))
cuda.cuMemcpyHtoDAsync(int(x.handle), a.ctypes.data, a.nbytes, stream.handle)
stream.sync()
whole = LaunchConfig(grid=2, block=32)
builder = device.create_graph_builder().begin_building()
launch(builder, whole, kernel, x, x, y, numpy.int32(64))
left, right = builder.split(2)
launch(left, whole, kernel, y, x, y, numpy.int32(32))
launch(right, whole, kernel, x, x, x, numpy.int32(0))
builder = type(left).join(left, right)
launch(builder, whole, kernel, y, y, y, numpy.int32(64))
graph = builder.end_building().complete()
graph.upload(stream)
graph.launch(stream)
stream.sync()
cuda.cuMemcpyDtoH(c.ctypes.data, int(y.handle), c.nbytes)
assert (c == numpy.where(a < 32, 6 * a, 4 * a)).all(), c
print(device.name)
"""


@pytest.mark.parametrize("way", ["LD_LIBRARY_PATH", "LD_PRELOAD"])
@pytest.mark.parametrize(
    ("package", "script"),
    [("cuda.bindings", BINDINGS), ("cuda.core", CORE), ("cuda.core", CORE_GRAPHS)],
    ids=["bindings", "core", "core graphs"],
)
def test_cuda_python_works(emulator_dir: Path, tmp_path: Path, package: str, script: str, way: str):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'gpu-replay[stacks]'")
    image = tmp_path / "vector_add.ptx"
    image.write_text(api.VECTOR_ADD)
    value = emulator_dir if way == "LD_LIBRARY_PATH" else emulator_dir / "libcuda.so.1"
    done = subprocess.run(
        [sys.executable, "-c", script, str(image)],
        env={**os.environ, way: str(value)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "Emulated CPU device"
