# needs: jax
# capture: --kernel . --launch 2
"""JAX: a jitted function of a product and element-wise work, compiled by XLA."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


@jax.jit
def step(x, w):
    return jnp.tanh(x @ w) + x


x = jnp.asarray(np.random.default_rng(1).standard_normal((128, 128), dtype=np.float32))
w = jnp.eye(128, dtype=jnp.float32)
for _ in range(3):
    result = step(x, w)
result.block_until_ready()
assert np.allclose(np.asarray(result), np.tanh(np.asarray(x)) + np.asarray(x), atol=1e-2)
