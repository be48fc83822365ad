# covers: Halide: a schedule on blocks and threads, compiled by Halide itself to PTX, in a context of its own
# needs: halide
import platform

import halide as hl
import numpy

x, y = hl.Var("x"), hl.Var("y")
xi, yi = hl.Var("xi"), hl.Var("yi")
source = numpy.random.default_rng(3).random((66, 50), dtype=numpy.float32)
given = hl.ImageParam(hl.Float(32), 2)
across, blur = hl.Func("across"), hl.Func("blur")
across[x, y] = (given[x, y] + given[x + 1, y] + given[x + 2, y]) / 3
blur[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) / 3
blur.gpu_tile(x, y, xi, yi, 16, 8)
across.compute_root().gpu_tile(x, y, xi, yi, 16, 8)

# The host's part in what every processor has: what Halide finds on a virtual machine may not be allowed there.
target = hl.Target({"x86_64": "x86-64-linux-sse41", "aarch64": "arm-64-linux"}[platform.machine()] + "-cuda")
given.set(hl.Buffer(source))
result = numpy.array(blur.realize([48, 64], target))
rows = (source[:, :-2] + source[:, 1:-1] + source[:, 2:]) / 3
expected = (rows[:-2] + rows[1:-1] + rows[2:]) / 3
assert result.shape == expected.shape, result.shape
assert numpy.allclose(result, expected, rtol=1e-5), abs(result - expected).max()
print("ok")
