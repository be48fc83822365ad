# covers: tinygrad training in half: products on tensor cores forwards and backwards, an optimiser, a jitted step.
# needs: tinygrad
# environment: DEV=CUDA REPLAY_EMULATOR_COMPUTE_CAPABILITY=8.0
# relocation: proven
import numpy as np
from tinygrad import Context, Tensor, TinyJit, dtypes
from tinygrad.nn.optim import SGD

random = np.random.default_rng(4)
ROWS, INNER, HIDDEN, RATE = 64, 32, 64, 0.5
x = random.normal(size=(ROWS, INNER)).astype(np.float16)
target = (np.tanh(x.astype("f8") @ random.normal(size=(INNER, 16))) / 2).astype(np.float16)
first = (random.normal(size=(INNER, HIDDEN)) / 6).astype(np.float16)
second = (random.normal(size=(HIDDEN, 16)) / 8).astype(np.float16)


def reference() -> list[float]:
    """The losses of the same steps in f64."""
    w, v, losses = first.astype("f8"), second.astype("f8"), []
    for _ in range(4):
        hidden = np.maximum(x.astype("f8") @ w, 0)
        away = hidden @ v - target.astype("f8")
        losses.append((away * away).mean())
        slope = 2 * away / away.size
        w, v = (
            w - RATE * x.astype("f8").T @ ((slope @ v.T) * (hidden > 0)),
            v - RATE * hidden.T @ slope,
        )
    return losses


weights = [Tensor(values) for values in (first, second)]
optimiser = SGD(weights, lr=RATE)


@TinyJit
def step(data: Tensor, wanted: Tensor) -> Tensor:
    optimiser.zero_grad()
    away = (data @ weights[0]).relu() @ weights[1] - wanted
    loss = (away.cast(dtypes.float32) ** 2).mean()
    return loss.backward().realize(*optimiser.schedule_step())


with Context(TRAINING=1):
    losses = [step(Tensor(x).realize(), Tensor(target).realize()).item() for _ in range(4)]
np.testing.assert_allclose(losses, reference(), rtol=2e-2)
assert losses[-1] < losses[0]
print("ok")
