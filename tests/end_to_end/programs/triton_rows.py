"""Sums the rows of a matrix with Triton, once for each `BLOCK:num_warps` on the command line; without torch."""

import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "corpus" / "python"))
from parts.arrays import DeviceArray, use_primary_context  # noqa: E402


@triton.jit
def row_sums(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for begin in range(0, columns, BLOCK):
        offsets = begin + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


if __name__ == "__main__":
    use_primary_context()
    values = np.arange(6 * 1000, dtype=np.int32).reshape(6, 1000)
    x, out = DeviceArray(values), DeviceArray(np.zeros(6, np.int32))
    for words in sys.argv[1:]:
        block, warps = map(int, words.split(":"))
        row_sums[(6,)](x, out, 1000, BLOCK=block, num_warps=warps)
        np.testing.assert_array_equal(out.numpy(), values.sum(axis=1))
