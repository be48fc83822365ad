# covers: Taichi: fields, nested loops, atomic sums, structures; its library is loaded with RTLD_DEEPBIND
# needs: taichi
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)
assert ti.lang.impl.current_cfg().arch == ti.cuda, "fell back to another backend"
n = 64
grid = ti.field(ti.f32, (n, n))
total = ti.field(ti.i32, ())
points = ti.Vector.field(3, ti.f32, n)


@ti.kernel
def fill():
    for i, j in grid:
        grid[i, j] = i * 0.5 + j
        total[None] += i * j
    for i in points:
        points[i] = ti.Vector([i, 2 * i, ti.sqrt(float(i))])


@ti.kernel
def trace() -> ti.f32:
    found = 0.0
    for i in range(n):
        found += grid[i, i]
    return found


fill()
assert total[None] == sum(range(n)) ** 2, total[None]
assert abs(trace() - 1.5 * sum(range(n))) < 1e-2, trace()
assert list(points[49]) == [49, 98, 7], points[49]
print("ok")
