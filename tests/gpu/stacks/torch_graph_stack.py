# needs: torch
# capture: --kernel vectorized_elementwise_kernel --launch 8
# capture: --profiler-api
# expand: yes
"""A CUDA graph of PyTorch: warm-up on a side stream, stream capture, three replays."""

import torch

x = torch.zeros(100_000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(2):
        y = (x * 2 + 1).relu()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = (x * 2 + 1).relu()
    x.copy_(y)
x.zero_()
torch.cuda.synchronize()
torch.cuda.profiler.start()
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
torch.cuda.profiler.stop()
assert torch.equal(x.cpu(), torch.full((100_000,), 7.0))
