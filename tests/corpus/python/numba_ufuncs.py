# covers: numba-cuda: vectorize and guvectorize, managed and mapped arrays, records, random numbers
# needs: numba.cuda
import numpy as np
from numba import cuda, guvectorize, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

RECORD = np.dtype([("key", np.int32), ("weight", np.float64)], align=True)


@vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
def distance(x, y):
    return (x * x + y * y) ** 0.5


@guvectorize(["void(int32[:], int32[:])"], "(n)->(n)", target="cuda")
def running(values, out):
    total = 0
    for i in range(values.shape[0]):
        total += values[i]
        out[i] = total


@cuda.jit
def scale(records, shared, factor):
    i = cuda.grid(1)
    if i < records.size:
        records[i].weight *= factor
        shared[i] += records[i].key


@cuda.jit
def inside(states, counts):
    i = cuda.grid(1)
    hits = 0
    for _ in range(200):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        hits += x * x + y * y < 1
    counts[i] = hits


x, y = (np.random.default_rng(k).random(1000) for k in (1, 2))
np.testing.assert_allclose(distance(x, y), np.hypot(x, y), rtol=1e-15)
rows = np.arange(60, dtype=np.int32).reshape(6, 10)
np.testing.assert_array_equal(running(rows), np.cumsum(rows, axis=1))

records = np.zeros(300, RECORD)
records["key"], records["weight"] = np.arange(300), 0.5
shared = cuda.managed_array(300, np.int32)
shared[:] = 7
device = cuda.to_device(records)
scale[3, 128](device, shared, 4.0)
cuda.synchronize()
np.testing.assert_array_equal(device.copy_to_host()["weight"], 2)
np.testing.assert_array_equal(shared, np.arange(300) + 7)

counts = cuda.mapped_array(256, np.int32)
inside[4, 64](create_xoroshiro128p_states(256, seed=1), counts)
cuda.synchronize()
assert abs(counts.sum() / 256 / 200 * 4 - np.pi) < 0.05
print("ok")
