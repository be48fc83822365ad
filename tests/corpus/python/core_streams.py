# covers: cuda.core: streams that wait for events, pinned and pooled memory, occupancy, two PTX texts linked
# needs: cuda.core nvidia-cuda-nvrtc
import numpy as np
from cuda.core import (
    Device,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    Program,
    ProgramOptions,
    launch,
)

device = Device()
device.set_current()
options = ProgramOptions(arch="compute_75", relocatable_device_code=True)
caller = """extern __device__ int twice(int); extern "C" __global__ void fill(int* out, int start, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) out[i] = twice(start + i); }"""
callee = "__device__ int twice(int x) { return 2 * x; }"
parts = [Program(text, code_type="c++", options=options).compile("ptx") for text in (caller, callee)]
linked = Linker(*parts, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
kernel = linked.get_kernel("fill")

count = 5000
first, second = device.create_stream(), device.create_stream()
pinned = LegacyPinnedMemoryResource().allocate(count * 4)
buffer = device.memory_resource.allocate(count * 4, stream=first)
config = LaunchConfig(grid=(count + 255) // 256, block=256)
begin = first.record(options=EventOptions(timing_enabled=True))
for start in (1000, 7):
    launch(first, config, kernel, buffer, np.int32(start), np.int32(count))
done = first.record(options=EventOptions(timing_enabled=True))
second.wait(done)
buffer.copy_to(pinned, stream=second)
second.sync()
assert done.is_done
assert done - begin > 0
np.testing.assert_array_equal(np.from_dlpack(pinned).view(np.int32), 2 * (np.arange(count) + 7))
assert kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0) >= 1
buffer.close(first)
print("ok")
