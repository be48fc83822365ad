# covers: Dr.Jit: traced arithmetic, sums and prefix sums, loops, scatter and gather, derivatives
# needs: drjit
# replay: are the application's own code
import drjit
from drjit.cuda import Float, UInt32
from drjit.cuda.ad import Float as Differentiable

x = drjit.arange(Float, 40)
assert drjit.sum(x)[0] == 780, "sum of a number of elements that is no multiple of a warp"
assert list(drjit.prefix_sum(UInt32([3, 1, 4, 1, 5]))) == [0, 3, 4, 8, 9], "prefix sum"
assert drjit.allclose(drjit.sqrt(x * x), x), "square root"

target = drjit.zeros(UInt32, 8)
drjit.scatter_reduce(drjit.ReduceOp.Add, target, UInt32(1), drjit.arange(UInt32, 100) % 8)
assert list(target) == [13, 13, 13, 13, 12, 12, 12, 12], "scattered counts"
assert list(drjit.gather(Float, x, UInt32([39, 0, 7]))) == [39, 0, 7], "gather"


@drjit.syntax
def collatz(n):
    steps = UInt32(0)
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


assert list(collatz(UInt32([1, 6, 7, 27]))) == [0, 8, 16, 111], "loops of several lengths"

y = Differentiable([1.0, 2.0, 3.0])
drjit.enable_grad(y)
drjit.backward(drjit.sum(y * y * y))
assert list(y.grad) == [3, 12, 27], "derivatives"
print("ok")
