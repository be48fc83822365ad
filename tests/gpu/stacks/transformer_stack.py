# needs: torch
# capture: --kernel . --launch 200
# capture: --profiler-api
"""A transformer block of PyTorch, eager: forward and backward of three steps, with kernels of ATen, cuBLAS and the
attention library. One launch in the middle is captured, and a whole step between cudaProfilerStart and Stop.
"""

import torch

torch.manual_seed(1)
block = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, device="cuda")
x = torch.randn(4, 128, 256, device="cuda")


def step() -> float:
    block.zero_grad(set_to_none=True)
    loss = block(x).square().mean()
    loss.backward()
    return float(loss)


losses = [step(), step()]
torch.cuda.synchronize()
torch.cuda.profiler.start()
losses.append(step())
torch.cuda.synchronize()
torch.cuda.profiler.stop()
assert losses[0] == losses[1] == losses[2], losses
