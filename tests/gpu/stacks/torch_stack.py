# needs: torch
# capture: --kernel vectorized_elementwise_kernel --launch 2
# capture: --kernel vectorized_elementwise_kernel --launch 2 --torch-blocks
"""PyTorch element-wise kernels: template names, and tensors in the middle of large segments."""

import torch

x = torch.arange(100_000, dtype=torch.float32, device="cuda")
expected = torch.arange(100_000, dtype=torch.float32)
for _ in range(3):
    x = x * 2 + 1
    expected = expected * 2 + 1
assert torch.equal(x.cpu(), expected)
