# needs: torch
# capture: --kernel gemm|cutlass|sm80|sm90 --launch 12
"""A CUDA graph of PyTorch: warm-up, capture, other work, then launches of the graph alone. Its kernels come from
cuBLAS, so the driver answers the shim's questions with functions that no recorded call gave out."""

import torch

torch.manual_seed(1)
weights = torch.randn(256, 256, device="cuda") / 16
batch = torch.randn(64, 256, device="cuda")


def forward():
    return torch.relu(batch @ weights) @ weights


stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):
        forward()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = forward()
for _ in range(6):
    batch.copy_(torch.randn(64, 256))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(result, forward(), rtol=1e-3, atol=1e-3)
