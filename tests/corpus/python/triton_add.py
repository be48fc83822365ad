# covers: Triton: sums of vectors in three types with masked loads, called without torch.
# needs: triton cuda.bindings numpy
import numpy as np
import triton
import triton.language as tl
from parts.arrays import DeviceArray, use_primary_context


@triton.jit
def add(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


use_primary_context()
for dtype in (np.float32, np.float16, np.int64):
    for count in (1, 512, 4099):
        x = (np.arange(count) % 1000).astype(dtype)
        y = (np.arange(count)[::-1] % 100).astype(dtype)
        out = DeviceArray(np.full(count + 1, -1, dtype))
        add[(triton.cdiv(count, 256),)](DeviceArray(x), DeviceArray(y), out, count, BLOCK=256)
        np.testing.assert_array_equal(out.numpy(), np.append(x + y, dtype(-1)))
print("ok")
