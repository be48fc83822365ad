"""The Triton kernels of kernels_torch.py: Triton reads their source from a file."""

import triton
import triton.language as tl


@triton.jit
def softmax_rows(a, c, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    x = tl.load(a + offsets)
    x = tl.exp(x - tl.max(x, 0))
    tl.store(c + offsets, x / tl.sum(x, 0))


@triton.jit
def matmul(a, b, c, size, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, size, DEPTH):
        x = tl.load(a + rows[:, None] * size + (start + inner)[None, :])
        y = tl.load(b + (start + inner)[:, None] * size + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.bfloat16))
