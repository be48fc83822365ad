"""Attention in one kernel of Triton's on the built-in CPU driver, beside a plain C loop; for emulator.py.

A batch of 1, 4 heads, 1,024 positions of 64 halves, with warps of `mma.sync`. Triton is imported here alone: where it
is not installed, `measure` raises ImportError.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any

import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]

HEADS, LENGTH, WIDTH = 4, 1024, 64
HALF_OF_PATTERN = 128  # of f16, from 1.0 on: steps of an eighth


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def forward(q, k, v, out, scale, LENGTH: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, across = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    head = tl.program_id(1) * LENGTH * D
    query = tl.load(q + head + rows[:, None] * D + across[None, :])
    most, weight = tl.full([M], -float("inf"), tl.float32), tl.zeros([M], tl.float32)
    total = tl.zeros([M, D], tl.float32)
    for start in range(0, LENGTH, N):
        keys = start + tl.arange(0, N)
        scores = tl.dot(query, tl.load(k + head + keys[None, :] * D + across[:, None])) * scale
        now = tl.maximum(most, tl.max(scores, 1))
        p, shrunk = tl.exp(scores - now[:, None]), tl.exp(most - now)
        weight = weight * shrunk + tl.sum(p, 1)
        values = tl.load(v + head + keys[:, None] * D + across[None, :])
        total = tl.dot(p.to(tl.float16), values, total * shrunk[:, None])
        most = now
    tl.store(out + head + rows[:, None] * D + across[None, :], total / weight[:, None])


@dataclass(frozen=True)
class Memory:
    """As much of a tensor as Triton asks for."""

    address: int
    dtype: str

    def data_ptr(self) -> int:
        return self.address


def measure(driver: Any, loops: ctypes.CDLL, rounds: int) -> dict[str, float]:
    """CPU time of all threads of the process, and wall time: of a launch, and of the loop, the least of the rounds.
    driver: emulator.Driver. Raises RuntimeError when the two results are not the same."""
    numbers = HEADS * LENGTH * WIDTH
    values = [(k * 2654435761 >> 7) % 7 for k in range(numbers)]
    halves = bytes((ctypes.c_uint16 * numbers)(*(0x3C00 + HALF_OF_PATTERN * value for value in values)))
    floats = (ctypes.c_float * numbers)(*(1 + value / 8 for value in values))
    operands = [Memory(driver.memory(halves), "fp16") for _ in range(3)]
    out, expected = Memory(driver.memory(bytes(4 * numbers)), "fp32"), (ctypes.c_float * numbers)()

    def launch() -> None:
        forward[(LENGTH // 64, HEADS)](*operands, out, 0.125, LENGTH=LENGTH, D=WIDTH, M=64, N=64)
        driver.call("cuCtxSynchronize")

    def loop() -> None:
        loops.attention(
            floats, floats, floats, expected, ctypes.c_float(0.125), ctypes.c_int(HEADS), ctypes.c_int(LENGTH)
        )

    launch()  # compiles it
    samples: dict[str, list[float]] = {"wall_s": [], "cpu_s": [], "loop_s": []}
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        launch()
        samples["wall_s"].append(time.perf_counter() - wall)
        samples["cpu_s"].append(time.process_time() - cpu)
        cpu = time.process_time()
        loop()
        samples["loop_s"].append(time.process_time() - cpu)
    found = (ctypes.c_float * numbers)()
    driver.call("cuMemcpyDtoH_v2", ctypes.addressof(found), out.address, 4 * numbers)
    if any(abs(a - b) > 3e-3 for a, b in zip(found, expected, strict=True)):
        raise RuntimeError("the kernel and the loop give different results")
    return {name: min(times) for name, times in samples.items()}
