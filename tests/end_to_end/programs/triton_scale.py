"""Scales a vector with Triton, of which the grid follows BLOCK; autotuned where the autotuner may time it. Arguments:
BLOCK of each launch, or `negate`."""

import sys
from pathlib import Path

import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=1),
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=8),
    ],
    key=["n"],
)
@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 3, mask=at < n)


@triton.jit
def negate(out_ptr, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out_ptr + at, -tl.load(out_ptr + at, mask=at < n), mask=at < n)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "corpus" / "python"))
    import numpy as np
    from parts.arrays import DeviceArray, use_primary_context

    use_primary_context()
    n = 5000
    values = np.arange(n, dtype=np.int32)
    x, out = DeviceArray(values), DeviceArray(np.zeros(n, np.int32))
    for word in sys.argv[1:] or ["1024"]:
        if word == "negate":
            negate[(triton.cdiv(n, 1024),)](out, n, SIZE=1024)
        else:
            scale.fn[(triton.cdiv(n, int(word)),)](x, out, n, BLOCK=int(word), num_warps=8)
    np.testing.assert_array_equal(out.numpy(), values * (-3 if sys.argv[-1] == "negate" else 3))
