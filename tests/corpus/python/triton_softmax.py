# covers: Triton without torch; row-wise softmax, reductions in registers and through shared memory
# needs: triton
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402


@triton.jit
def softmax(out, values, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(values + row * columns + at, mask=at < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * columns + at, x / tl.sum(x, axis=0), mask=at < columns)


use_primary_context()
for rows, columns, warps in ((37, 100, 4), (5, 1000, 8), (64, 32, 1)):
    x = np.random.default_rng(columns).normal(size=(rows, columns)).astype(np.float32)
    device, out = DeviceArray(x), DeviceArray(np.zeros_like(x))
    softmax[(rows,)](out, device, columns, BLOCK=triton.next_power_of_2(columns), num_warps=warps)
    expected = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
    np.testing.assert_allclose(out.numpy(), expected / expected.sum(1, keepdims=True), rtol=2e-6)
print("ok")
