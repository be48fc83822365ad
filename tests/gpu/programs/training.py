"""A small training loop of many short kernels, so that the host's part of a launch counts. Prints its fastest step."""

import time

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(
    *(layer for _ in range(12) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU()))
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(32, 64, device="cuda")
fastest_s = float("inf")
for _ in range(300):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
    fastest_s = min(fastest_s, time.perf_counter() - begin)
print(f"fastest step {fastest_s:.9f} s")
