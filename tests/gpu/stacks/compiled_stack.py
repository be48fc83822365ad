# needs: torch, triton
# capture: --kernel ^triton_ --launch 2
"""The same kind of block through torch.compile: Triton kernels that Inductor wrote, forward and backward."""

import torch

torch.manual_seed(1)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        self.up = torch.nn.Linear(256, 1024)
        self.down = torch.nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


block = Block().cuda()
compiled = torch.compile(block)
x = torch.randn(8, 128, 256, device="cuda")
for _ in range(3):
    loss = compiled(x).square().mean()
    loss.backward()
expected = block(x).square().mean()
assert torch.allclose(loss, expected, rtol=1e-4), (loss, expected)
