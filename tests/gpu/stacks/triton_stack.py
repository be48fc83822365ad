# needs: torch, triton
# capture: --kernel ^axpb --launch 2
"""A Triton kernel, three times: hidden parameters at the end, launched through cuLaunchKernelEx."""

import torch
import triton
import triton.language as tl


@triton.jit
def axpb(x_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


x = torch.arange(10_000, dtype=torch.float32, device="cuda")
expected = torch.arange(10_000, dtype=torch.float32)
for _ in range(3):
    axpb[(triton.cdiv(x.numel(), 512),)](x, x.numel(), BLOCK=512)
    expected = expected * 2 + 1
assert torch.equal(x.cpu(), expected)
