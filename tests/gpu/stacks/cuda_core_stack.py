# needs: cuda.core
# capture: --kernel ^axpb$ --launch 2
"""cuda.core: a program compiled by NVRTC, memory from a stream-ordered pool, launches through cuLaunchKernelEx."""

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
stream = device.create_stream()
source = 'extern "C" __global__ void axpb(float* x, int n) {int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 2 * x[i] + 1;}'  # noqa: E501
program = Program(source, code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("axpb")

expected = np.arange(10_000, dtype=np.float32)
buffer = device.allocate(expected.nbytes, stream=stream)
stream.sync()

from cuda.bindings import driver  # noqa: E402  for the copies

assert driver.cuMemcpyHtoD(int(buffer.handle), expected.ctypes.data, expected.nbytes)[0] == 0
for _ in range(3):
    launch(stream, LaunchConfig(grid=40, block=256), kernel, buffer, np.int32(expected.size))
    expected = np.float32(2) * expected + np.float32(1)
stream.sync()
result = np.empty_like(expected)
assert driver.cuMemcpyDtoH(result.ctypes.data, int(buffer.handle), result.nbytes)[0] == 0
assert (result == expected).all()
