# covers: Triton's tl.dot_scaled for compute capability 12.0: mma.sync with factors for blocks of A and B, of mxfp8
# and mxfp4 (powers of two) and nvfp4 (e4m3).
# needs: triton
# environment: REPLAY_EMULATOR_COMPUTE_CAPABILITY=12.0
# relocation: proven
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402

M, N, K = 64, 64, 128
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def product(
    a, a_scale, b, b_scale, c,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BLOCK: tl.constexpr,
    A_EACH: tl.constexpr, B_EACH: tl.constexpr,
):  # fmt: skip
    rows, columns, blocks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // BLOCK)
    x = tl.load(a + rows[:, None] * (K // A_EACH) + tl.arange(0, K // A_EACH)[None, :])
    y = tl.load(b + tl.arange(0, K // B_EACH)[:, None] + columns[None, :] * (K // B_EACH))
    of_a = tl.load(a_scale + rows[:, None] * (K // BLOCK) + blocks[None, :])
    of_b = tl.load(b_scale + columns[:, None] * (K // BLOCK) + blocks[None, :])
    total = tl.dot_scaled(x, of_a, A, y, of_b, B)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def e4m3(codes: np.ndarray) -> np.ndarray:
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent, (8 + fraction) * 2.0 ** (exponent - 10.0), fraction * 2.0**-9)
    return np.where(codes & 128, -magnitude, magnitude)


def elements(kind: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """What lies in memory, and the numbers."""
    if kind == "e2m1":
        codes = random.integers(0, 16, shape)
        return (codes[:, ::2] | codes[:, 1::2] << 4).astype("u1"), E2M1[codes]
    codes = random.integers(0, 0x48, shape) | random.integers(0, 2, shape) << 7
    return codes.astype("u1"), e4m3(codes)


use_primary_context()
random = np.random.default_rng(0)
for a_kind, b_kind, block in (
    ("e4m3", "e4m3", 32),
    ("e4m3", "e2m1", 32),
    ("e2m1", "e2m1", 32),
    ("e2m1", "e2m1", 16),
):
    a, left = elements(a_kind, (M, K))
    b, right = elements(b_kind, (N, K))
    scales, factors = [], []
    for lines in (M, N):
        if block == 16:
            codes = random.integers(0x30, 0x48, (lines, K // block))
            factors.append(e4m3(codes))
        else:
            codes = random.integers(124, 131, (lines, K // block))
            factors.append(2.0 ** (codes - 127.0))
        scales.append(codes.astype("u1"))
    device = [DeviceArray(array) for array in (a, scales[0], b, scales[1])]
    if block == 16:
        device[1].dtype = device[3].dtype = "fp8e4nv"
    c = DeviceArray(np.zeros((M, N), "f4"))
    compiled = product[(1,)](
        *device, c, M, N, K, a_kind, b_kind, block, 2 if a_kind == "e2m1" else 1, 2 if b_kind == "e2m1" else 1
    )
    exact = (left * np.repeat(factors[0], block, 1)) @ (right * np.repeat(factors[1], block, 1)).T
    np.testing.assert_allclose(c.numpy(), exact, rtol=1e-5, atol=1e-3, err_msg=f"{a_kind} {b_kind} {block}")
    # Triton widens what is of two kinds.
    assert ("block_scale" in compiled.asm["ptx"]) == (a_kind == b_kind), f"{a_kind} {b_kind}"
print("ok")
