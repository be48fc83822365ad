# covers: Triton's tl.dot_scaled for compute capability 10.0 of e4m3 with e2m1, both through tensor descriptors: the
# tensor map of the latter spreads sixteen numbers of 4 bits over 16 bytes, tcgen05.mma reads them there.
# needs: triton
# environment: REPLAY_EMULATOR_COMPUTE_CAPABILITY=10.0
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402

M, N, K, BLOCK = 128, 128, 256, 32
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def product(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, EACH: tl.constexpr):
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, 128):
        x = a.load([0, k])
        y = b.load([0, k // 2])
        blocks = k // EACH + tl.arange(0, 128 // EACH)
        of_x = tl.load(a_scale + tl.arange(0, M)[:, None] * (K // EACH) + blocks[None, :])
        of_y = tl.load(b_scale + tl.arange(0, N)[:, None] * (K // EACH) + blocks[None, :])
        total = tl.dot_scaled(x, of_x, "e4m3", y.T, of_y, "e2m1", total)
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], total)


def e4m3(codes):
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent, (8 + fraction) * 2.0 ** (exponent - 10.0), fraction * 2.0**-9)
    return np.where(codes & 128, -magnitude, magnitude)


class OneByte(str):
    """Triton's name of an element type, with the size that it asks torch's for."""

    itemsize = 1


def described(codes, dtype, block):
    """A tensor descriptor of rows of bytes."""
    held = DeviceArray(codes.astype("u1"))
    held.dtype = OneByte(dtype)
    return TensorDescriptor(held, list(codes.shape), [codes.shape[1], 1], block)


use_primary_context()
random = np.random.default_rng(0)
left = random.integers(0, 0x48, (M, K)) | random.integers(0, 2, (M, K)) << 7
right = random.integers(0, 16, (N, K))
factors = [random.integers(124, 131, (lines, K // BLOCK)) for lines in (M, N)]
scales = [DeviceArray(codes.astype("u1")) for codes in factors]
c = DeviceArray(np.zeros((M, N), "f4"))
compiled = product[(1,)](
    described(left, "fp8e4nv", [M, 128]), scales[0], described(right[:, ::2] | right[:, 1::2] << 4, "u8", [N, 64]),
    scales[1], c, M, N, K, BLOCK,
)  # fmt: skip
assert any(one["fp4_padded"] for one in compiled.metadata.tensordesc_meta)
by_block = [np.repeat(2.0 ** (codes - 127.0), BLOCK, 1) for codes in factors]
exact = (e4m3(left) * by_block[0]) @ (E2M1[right] * by_block[1]).T
np.testing.assert_allclose(c.numpy(), exact, rtol=1e-5, atol=1e-3)
print("ok")
