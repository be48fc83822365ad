# covers: Triton for compute capability 10.0, whose tl.dot goes through tcgen05: products in half, bfloat16, tf32,
# float8, and of a whole grid by few blocks; attention in one kernel; products of matrices scaled block by block.
# environment: REPLAY_EMULATOR_COMPUTE_CAPABILITY=10.0
# needs: triton
# relocation: proven
import sys
from pathlib import Path

import numpy as np
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parent / "parts"))
from arrays import DeviceArray, use_primary_context  # noqa: E402


@triton.jit
def product(
    a, b, c, N, K, AS: tl.constexpr, M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr
):
    rows = tl.program_id(0) * M_BLOCK + tl.arange(0, M_BLOCK)
    columns = tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK)
    total = tl.zeros((M_BLOCK, N_BLOCK), dtype=tl.float32)
    for k in range(0, K, K_BLOCK):
        inner = k + tl.arange(0, K_BLOCK)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(x.to(AS), y.to(AS), total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def persistent(
    a,
    b,
    c,
    M,
    N,
    K,
    BLOCKS: tl.constexpr,
    M_BLOCK: tl.constexpr,
    N_BLOCK: tl.constexpr,
    K_BLOCK: tl.constexpr,
):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [M_BLOCK, K_BLOCK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [N_BLOCK, K_BLOCK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [M_BLOCK, N_BLOCK])
    across = tl.cdiv(N, N_BLOCK)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, M_BLOCK) * across, BLOCKS, flatten=True):
        row, column = tile // across * M_BLOCK, tile % across * N_BLOCK
        total = tl.zeros((M_BLOCK, N_BLOCK), dtype=tl.float32)
        for k in range(0, K, K_BLOCK):
            total = tl.dot(left.load([row, k]), right.load([column, k]).T, total)
        out.store([row, column], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, scale, LENGTH: tl.constexpr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
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


@triton.jit
def scaled(
    a,
    sa,
    b,
    sb,
    c,
    KIND: tl.constexpr,
    PACK: tl.constexpr,
    GROUP: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    inner, groups = tl.arange(0, K // PACK), tl.arange(0, K // GROUP)
    x = tl.load(a + rows[:, None] * (K // PACK) + inner[None, :])
    y = tl.load(b + columns[None, :] * (K // PACK) + inner[:, None])
    of_x = tl.load(sa + rows[:, None] * (K // GROUP) + groups[None, :])
    of_y = tl.load(sb + columns[:, None] * (K // GROUP) + groups[None, :])
    tl.store(c + rows[:, None] * N + columns[None, :], tl.dot_scaled(x, of_x, KIND, y, of_y, KIND))


def check_products(random: np.random.Generator) -> None:
    """Small integers, of which every type has all sums."""
    for rows, of in (
        (128, tl.float16),
        (64, tl.float16),
        (128, tl.bfloat16),
        (128, tl.float32),
        (128, tl.float8e4nv),
    ):
        a, b = random.integers(-3, 4, (rows, 128)), random.integers(-3, 4, (128, 64))
        c = DeviceArray(np.zeros((rows, 64), "f4"))
        product[(1, 2)](
            DeviceArray(a.astype("f4")), DeviceArray(b.astype("f4")), c, 64, 128, of, rows, 32, 64
        )
        np.testing.assert_array_equal(c.numpy(), a @ b, err_msg=f"{of}, {rows} rows")
    a, b = random.integers(-3, 4, (256, 128)).astype("f2"), random.integers(-3, 4, (192, 128)).astype("f2")
    c = DeviceArray(np.zeros((256, 192), "f2"))
    persistent[(2,)](DeviceArray(a), DeviceArray(b), c, 256, 192, 128, 2, 128, 64, 64)
    np.testing.assert_array_equal(c.numpy(), a.astype("f4") @ b.astype("f4").T)


def check_attention(random: np.random.Generator) -> None:
    length, d = 256, 64
    q, k, v = (random.normal(size=(2, length, d)).astype("f2") for _ in range(3))
    out = DeviceArray(np.zeros((2, length, d), "f4"))
    attention[(length // 128, 2)](*map(DeviceArray, (q, k, v)), out, 0.125, LENGTH=length, D=d, M=128, N=64)
    scores = np.einsum("hqd,hkd->hqk", q.astype("f8"), k.astype("f8")) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype("f8")
    np.testing.assert_allclose(out.numpy(), expected, atol=3e-3)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
# e4m3 of the integers from 0 to 4
E4M3 = np.array([0x00, 0x38, 0x40, 0x44, 0x48], "u1")


def check_scaled(random: np.random.Generator) -> None:
    for kind, group in (("e4m3", 32), ("e2m1", 32)):
        m, n, k = 128, 128, 256
        matrices, factors = [], []
        arrays = []
        for rows in (m, n):
            if kind == "e4m3":
                codes = random.integers(0, 5, (rows, k))
                matrices.append(codes.astype(float))
                arrays.append(E4M3[codes])
            else:
                codes = random.integers(0, 16, (rows, k)).astype("u1")
                matrices.append(E2M1[codes])
                arrays.append(codes[:, ::2] | codes[:, 1::2] << 4)
            exponents = random.integers(125, 130, (rows, k // group)).astype("u1")
            factors.append(np.repeat(2.0 ** (exponents.astype(float) - 127), group, axis=1))
            arrays.append(exponents)
        c = DeviceArray(np.zeros((m, n), "f4"))
        x, of_x, y, of_y = map(DeviceArray, arrays)
        if kind == "e4m3":
            x.dtype = y.dtype = "fp8e4nv"
        scaled[(1,)](x, of_x, y, of_y, c, kind, 1 if kind == "e4m3" else 2, group, m, n, k)
        left, right = (matrix * factor for matrix, factor in zip(matrices, factors, strict=True))
        np.testing.assert_array_equal(c.numpy(), left @ right.T, err_msg=kind)


use_primary_context()
triton.set_allocator(lambda size, alignment, stream: DeviceArray(np.zeros(size, "u1")))
numbers = np.random.default_rng(0)
check_products(numbers)
check_attention(numbers)
check_scaled(numbers)
print("ok")
