# covers: Triton's tl.dot in half, bfloat16, tf32 and int8, of blocks for warps (mma.sync) and for warpgroups (wgmma);
# tensor descriptors; attention in one kernel; layer norm over several warps.
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
def product(a, b, c, N, K, AS: tl.constexpr, SUM: tl.constexpr, M_BLOCK: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * M_BLOCK + tl.arange(0, M_BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((M_BLOCK, BLOCK), dtype=SUM)
    for k in range(0, K, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(x.to(AS), y.to(AS), total, out_dtype=SUM)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def described(a, b, c, M, N, K, M_BLOCK: tl.constexpr, BLOCK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [M_BLOCK, BLOCK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [M_BLOCK, BLOCK])
    row, column = tl.program_id(0) * M_BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((M_BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        total = tl.dot(left.load([row, k]), right.load([k, column]), total)
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
def layer_norm(x, out, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    away = tl.where(at < columns, values - tl.sum(values, 0) / columns, 0.0)
    scaled = away * tl.rsqrt(tl.sum(away * away, 0) / columns + 1e-5)
    tl.store(out + row * columns + at, scaled, mask=at < columns)


use_primary_context()
random = np.random.default_rng(0)
N = K = 64
HALF, BF16, TF32 = (("f4", of, "f4", tl.float32) for of in (tl.float16, tl.bfloat16, tl.float32))
HALF_SUMS, BYTES = ("f4", tl.float16, "f2", tl.float16), ("i1", tl.int8, "i4", tl.int32)
for rows, types in ((32, (HALF, TF32, BYTES)), (64, (HALF_SUMS, BF16, TF32, BYTES))):
    # Small integers, of which every type has all sums.
    for kind, of, result, sums in types:
        a, b = random.integers(-3, 4, (rows, K)), random.integers(-3, 4, (K, N))
        c = DeviceArray(np.zeros((rows, N), result))
        product[(1, N // 32)](
            DeviceArray(a.astype(kind)), DeviceArray(b.astype(kind)), c, N, K, of, sums, rows, 32
        )
        np.testing.assert_array_equal(c.numpy(), a @ b, err_msg=f"{of}, {rows} rows")

    length, d = 64, 64
    q, k, v = (random.normal(size=(2, length, d)).astype("f2") for _ in range(3))
    out = DeviceArray(np.zeros((2, length, d), "f4"))
    attention[(length // rows, 2)](*map(DeviceArray, (q, k, v)), out, 0.125, LENGTH=length, D=d, M=rows, N=32)
    scores = np.einsum("hqd,hkd->hqk", q.astype("f8"), k.astype("f8")) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(
        out.numpy(), weights / weights.sum(-1, keepdims=True) @ v.astype("f8"), atol=3e-3
    )

# Through tensor maps that the kernel makes.
triton.set_allocator(lambda size, alignment, stream: DeviceArray(np.zeros(size, "u1")))
a, b = random.integers(-3, 4, (128, K)).astype("f2"), random.integers(-3, 4, (K, 128)).astype("f2")
c = DeviceArray(np.zeros((128, 128), "f2"))
described[(2, 2)](DeviceArray(a), DeviceArray(b), c, 128, 128, K, 64, 64)
np.testing.assert_array_equal(c.numpy(), a @ b)

x = random.normal(size=(5, 1000)).astype("f4")
out = DeviceArray(np.zeros_like(x))
layer_norm[(5,)](DeviceArray(x), out, 1000, BLOCK=1024, num_warps=8)
expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)
print("ok")
