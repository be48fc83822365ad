# covers: cuda.core: a graph captured with a fork and a join, completed once and launched three times.
# needs: cuda.core cuda.bindings numpy nvidia-cuda-nvrtc
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
extern "C" __global__ void add(int *x, int value) { x[threadIdx.x] += value; }
extern "C" __global__ void join(int *x, const int *y) { x[threadIdx.x] = 2 * x[threadIdx.x] + y[threadIdx.x]; }
"""

device = Device()
device.set_current()
stream = device.create_stream()
code = Program(SOURCE, code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")
add, join = code.get_kernel("add"), code.get_kernel("join")
config = LaunchConfig(grid=1, block=256)
count = 256
x, y = (device.allocate(count * 4, stream=stream) for _ in range(2))
stream.sync()
for buffer in (x, y):
    assert driver.cuMemsetD32Async(int(buffer.handle), 1, count, stream.handle)[0] == 0

builder = device.create_graph_builder().begin_building()
launch(builder, config, add, x, np.int32(1))
left, right = builder.split(2)
launch(left, config, add, x, np.int32(10))
launch(right, config, add, y, np.int32(100))
builder = type(builder).join(left, right)
launch(builder, config, join, x, y)
graph = builder.end_building().complete()
graph.upload(stream)
for _ in range(3):
    graph.launch(stream)
stream.sync()

expected_x = expected_y = 1
for _ in range(3):
    expected_y += 100
    expected_x = 2 * (expected_x + 1 + 10) + expected_y
result = np.empty(count, np.int32)
assert driver.cuMemcpyDtoH(result.ctypes.data, int(x.handle), result.nbytes)[0] == 0
assert (result == expected_x).all(), (result, expected_x)
print("ok")
