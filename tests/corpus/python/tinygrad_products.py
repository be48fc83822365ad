# covers: tinygrad: products, reductions, a jitted step whose graph is replayed; memory from its own pool
# needs: tinygrad
# environment: DEV=CUDA
import numpy
from tinygrad import Tensor, TinyJit, dtypes

generator = numpy.random.default_rng(7)
a, b = (generator.standard_normal((40, 24)).astype(numpy.float32) for _ in range(2))
product = (Tensor(a) @ Tensor(b).T).relu().sum(axis=1).numpy()
assert numpy.allclose(product, numpy.maximum(a @ b.T, 0).sum(axis=1), rtol=1e-5), "product"

counts = Tensor(numpy.arange(1000, dtype=numpy.int32)).reshape(10, 100)
assert counts.cumsum(axis=1)[:, -1].tolist() == numpy.arange(1000).reshape(10, 100).sum(axis=1).tolist(), (
    "sums"
)
assert counts.cast(dtypes.float16).max().cast(dtypes.float32).item() == 999, "largest half"


@TinyJit
def step(x: Tensor) -> Tensor:
    return (x * 2 + 1).softmax().realize()


for value in range(4):
    x = numpy.linspace(value, 1, 64, dtype=numpy.float32)
    expected = numpy.exp(x * 2 + 1 - (x * 2 + 1).max())
    assert numpy.allclose(step(Tensor(x).realize()).numpy(), expected / expected.sum(), rtol=1e-4), (
        f"step {value}"
    )
print("ok")
