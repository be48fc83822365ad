"""Launches: the ways to pass parameters, geometry, attributes, errors of kernels, modelled time."""

from __future__ import annotations

import ctypes
import statistics
import struct

import driver_api as api
import pytest
from driver_api import Driver

COOPERATIVE, CLUSTER, PROGRAMMATIC, PRIORITY, SYNC_POLICY = 2, 4, 6, 8, 3


@pytest.fixture
def adder(cuda: Driver) -> tuple[int, tuple[int, int, int]]:
    return cuda.vector_add(), cuda.vectors(100)


def check(cuda: Driver, c: int, count: int = 100) -> None:
    cuda.do("cuCtxSynchronize")
    assert cuda.floats(c, count) == [3.0 * i for i in range(count)]
    cuda.do("cuMemsetD8_v2", c, 0, 4 * count)


def test_every_way_to_launch(cuda: Driver, adder):
    function, (a, b, c) = adder
    values = [a, b, c, ctypes.c_int(100)]
    for name in ("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel"):
        assert cuda.launch(function, (4,), (32,), values, name=name) == api.SUCCESS
        check(cuda, c)
    assert cuda.launch_ex(function, (4,), (32,), values) == api.SUCCESS
    check(cuda, c)


def launch_extra(cuda: Driver, function: int, buffer: bytes, size: int, tail: tuple[int, ...] = (0,)) -> int:
    data, length = ctypes.create_string_buffer(buffer, len(buffer)), ctypes.c_size_t(size)
    extra = (ctypes.c_void_p * (4 + len(tail)))(1, ctypes.addressof(data), 2, ctypes.addressof(length), *tail)
    return cuda.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, 0, None, extra)


def test_parameters_in_one_buffer(cuda: Driver, adder):
    function, (a, b, c) = adder
    buffer = struct.pack("QQQi", a, b, c, 100)
    assert launch_extra(cuda, function, buffer, len(buffer)) == api.SUCCESS
    check(cuda, c)
    assert launch_extra(cuda, function, buffer + bytes(4), len(buffer) + 4) == api.SUCCESS
    check(cuda, c)
    assert launch_extra(cuda, function, buffer, len(buffer) - 1) == api.INVALID_VALUE
    assert launch_extra(cuda, function, buffer, len(buffer), (77, 0, 0)) == api.INVALID_VALUE
    both = (ctypes.c_void_p * 1)(0)
    pointers, kept = api.parameter_array([a, b, c, ctypes.c_int(100)])
    assert cuda.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, 0, pointers, both) == api.INVALID_VALUE
    del kept


def test_parameters_are_copied_at_the_call(fresh):
    done = fresh(
        """
        f = d.vector_add()
        a, b, c = d.vectors(100)
        count = ctypes.c_int(100)
        pointers, kept = parameter_array([a, b, c, count])
        d.do("cuLaunchKernel", f, 4, 1, 1, 32, 1, 1, 0, 0, pointers, None)
        count.value = 0
        kept[0].value = 0
        print(d.floats(c, 100) == [3.0 * i for i in range(100)])
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("grid", "block", "shared", "error"),
    [
        ((0, 1, 1), (32, 1, 1), 0, api.INVALID_VALUE),
        ((1, 1, 1), (0, 1, 1), 0, api.INVALID_VALUE),
        ((1, 65536, 1), (32, 1, 1), 0, api.INVALID_VALUE),
        ((1, 1, 65536), (32, 1, 1), 0, api.INVALID_VALUE),
        ((1 << 31, 1, 1), (32, 1, 1), 0, api.INVALID_VALUE),
        ((1, 1, 1), (1025, 1, 1), 0, api.INVALID_VALUE),
        ((1, 1, 1), (1, 1, 65), 0, api.INVALID_VALUE),
        ((1, 1, 1), (32, 33, 1), 0, api.INVALID_VALUE),
        ((1, 1, 1), (32, 1, 1), 49153, api.INVALID_VALUE),
        ((65535, 65535, 65535), (1024, 1, 1), 0, api.COOPERATIVE_TOO_LARGE),
    ],
)
def test_bad_geometry_is_refused(cuda: Driver, adder, grid, block, shared, error):
    function, (a, b, c) = adder
    name = "cuLaunchCooperativeKernel" if error == api.COOPERATIVE_TOO_LARGE else "cuLaunchKernel"
    values = [a, b, c, ctypes.c_int(100)]
    assert cuda.launch(function, grid, block, values, shared_bytes=shared, name=name) == error
    cuda.do("cuCtxSynchronize")  # and no error remains


def test_bad_handles_and_missing_parameters_are_refused(cuda: Driver, adder):
    function, (a, b, c) = adder
    values = [a, b, c, ctypes.c_int(100)]
    assert cuda.launch(0, (1,), (1,), values) == api.INVALID_HANDLE
    assert cuda.launch(function + 8, (1,), (1,), values) == api.INVALID_HANDLE
    assert cuda.launch(function, (1,), (1,), values, stream=0xDEAD0) == api.INVALID_HANDLE
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, None, None) == api.INVALID_VALUE
    assert cuda.cuLaunchKernelEx(None, function, None, None) == api.INVALID_VALUE


def test_launch_attributes(cuda: Driver, adder):
    function, (a, b, c) = adder
    values = [a, b, c, ctypes.c_int(100)]

    def launch(*attributes: tuple[int, tuple[int, ...]], grid: int = 4) -> int:
        return cuda.launch_ex(function, (grid,), (32,), values, attributes)

    assert launch((COOPERATIVE, (1,)), (PROGRAMMATIC, (1,)), (PRIORITY, (0,)), (0, (0,))) == api.SUCCESS
    check(cuda, c)
    assert launch((CLUSTER, (2, 1, 1))) == api.SUCCESS
    check(cuda, c)
    assert launch((CLUSTER, (3, 1, 1))) == api.INVALID_CLUSTER_SIZE  # does not divide the grid
    assert launch((CLUSTER, (16, 1, 1)), grid=16) == api.INVALID_CLUSTER_SIZE  # above 8, not allowed yet
    cuda.do("cuFuncSetAttribute", function, 14, 1)
    assert launch((CLUSTER, (16, 1, 1)), grid=16) == api.SUCCESS
    assert launch((CLUSTER, (0, 1, 1))) == api.INVALID_VALUE
    assert launch((SYNC_POLICY, (1,))) == api.INVALID_VALUE  # for streams only
    assert launch((4711, (0,))) == api.INVALID_VALUE


def test_clusters_need_capability_9(fresh):
    done = fresh(
        """
        f = d.vector_add(); a, b, c = d.vectors(64)
        print(d.launch_ex(f, (2,), (32,), [a, b, c, ctypes.c_int(64)], [(4, (2, 1, 1))]))
        """,
        COMPUTE_CAPABILITY="8.0",
    )
    assert done.stdout.strip() == str(api.NOT_SUPPORTED)


def test_function_attributes_and_parameters(cuda: Driver, adder):
    function, _ = adder
    assert cuda.integer("cuFuncGetAttribute", 0, function) == 1024
    assert cuda.integer("cuFuncGetAttribute", 1, function) == 0
    assert cuda.integer("cuFuncGetAttribute", 5, function) == 80
    assert cuda.integer("cuFuncGetAttribute", 6, function) == 90
    assert cuda.integer("cuFuncGetAttribute", 8, function) == 49152
    cuda.do("cuFuncSetAttribute", function, 8, 232448)
    assert cuda.integer("cuFuncGetAttribute", 8, function) == 232448
    assert cuda.cuFuncSetAttribute(function, 8, 232449) == api.INVALID_VALUE
    assert cuda.cuFuncSetAttribute(function, 0, 5) == api.INVALID_VALUE
    assert cuda.cuFuncGetAttribute(api.out(ctypes.c_int()), 999, function) == api.INVALID_VALUE
    layout = []
    for index in range(10):
        offset, size = api.handle(), api.handle()
        error = cuda.cuFuncGetParamInfo(function, index, api.out(offset), api.out(size))
        if error:
            assert error == api.INVALID_VALUE
            break
        layout.append((offset.value, size.value))
    assert layout == [(0, 8), (8, 8), (16, 8), (24, 4)]
    name = ctypes.c_char_p()
    cuda.do("cuFuncGetName", api.out(name), function)
    assert name.value == b"vector_add"


def test_dynamic_shared_memory_needs_permission(cuda: Driver, adder):
    function, (a, b, c) = adder
    values = [a, b, c, ctypes.c_int(100)]
    assert cuda.launch(function, (4,), (32,), values, shared_bytes=100000) == api.INVALID_VALUE
    cuda.do("cuFuncSetAttribute", function, 8, 100000)
    assert cuda.launch(function, (4,), (32,), values, shared_bytes=100000) == api.SUCCESS


def test_occupancy(cuda: Driver, adder):
    function, _ = adder

    def blocks(threads: int, shared: int = 0) -> int:
        return cuda.integer("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)

    assert blocks(1024) == 2
    assert blocks(256) == 8
    assert blocks(32) == 32  # the limit of blocks, not of threads
    assert blocks(33) == 32
    assert blocks(256, 40000) == 5  # 233472 // (40000 + 1024, in units of 128)
    assert blocks(256, 49153) == 0
    grid, block = ctypes.c_int(), ctypes.c_int()
    cuda.do("cuOccupancyMaxPotentialBlockSize", api.out(grid), api.out(block), function, None, 0, 0)
    assert (grid.value, block.value) == (32, 1024)
    cuda.do("cuOccupancyMaxPotentialBlockSize", api.out(grid), api.out(block), function, None, 0, 500)
    assert (grid.value, block.value) == (16 * 8, 256)  # 480 threads would fill 1920 of 2048
    shared = api.handle()
    cuda.do("cuOccupancyAvailableDynamicSMemPerBlock", api.out(shared), function, 8, 256)
    assert shared.value == 233472 // 8 // 128 * 128 - 1024
    clusters = ctypes.c_int()
    config = api.LaunchConfig((16, 1, 1), (256, 1, 1), 0, None, None, 0)
    cuda.do("cuOccupancyMaxActiveClusters", api.out(clusters), function, api.out(config))
    assert clusters.value == 16 * 8


TIMED = """
    f = d.vector_add()
    a, b, c = d.vectors(1 << 12)
    start, end = d.make("cuEventCreate", 0), d.make("cuEventCreate", 0)
    times = []
    for _ in range(200):
        d.do("cuEventRecord", start, 0)
        assert d.launch(f, (16,), (256,), [a, b, c, ctypes.c_int(1 << 12)]) == 0
        d.do("cuEventRecord", end, 0)
        d.do("cuCtxSynchronize")
        elapsed = ctypes.c_float()
        d.do("cuEventElapsedTime_v2", out(elapsed), start, end)
        times.append(elapsed.value)
    import statistics
    print(repr((statistics.mean(times), statistics.pstdev(times), len(set(times)), times[:5])))
    """


def timed(fresh, **settings: str) -> tuple[float, float, int, list[float]]:
    return eval(fresh(TIMED, **settings).stdout)


def test_modelled_time_is_the_same_every_time(fresh):
    first, second = timed(fresh), timed(fresh)
    assert first == second
    assert first[2] == 1
    assert 0.002 < first[0] < 0.1  # milliseconds


def test_slowdown_multiplies_matching_kernels_only(fresh):
    plain = timed(fresh)[0]
    assert timed(fresh, SLOWDOWN="^vector_:1.05")[0] == pytest.approx(1.05 * plain, rel=1e-3)
    assert timed(fresh, SLOWDOWN="^other:1.05")[0] == plain


def test_noise_is_seeded_and_has_its_deviation(fresh):
    plain = timed(fresh)[0]
    mean, deviation, distinct, _ = timed(fresh, NOISE="0.02")
    assert mean == pytest.approx(plain, rel=0.01)
    assert deviation / mean == pytest.approx(0.02, rel=0.25)
    assert distinct > 50
    assert timed(fresh, NOISE="0.02")[3] == timed(fresh, NOISE="0.02", NOISE_SEED="1")[3]
    assert timed(fresh, NOISE="0.02", NOISE_SEED="2")[3] != timed(fresh, NOISE="0.02")[3]


def test_noise_of_a_process_is_one_factor_of_all_its_kernels(fresh):
    plain = timed(fresh)[0]
    means = []
    for seed in range(1, 9):
        mean, deviation, _, _ = timed(fresh, PROCESS_NOISE="0.02", NOISE_SEED=str(seed))
        assert deviation <= 1e-3 * mean
        means.append(mean / plain)
    assert len(set(means)) == 8
    assert 0.005 < statistics.stdev(means) < 0.05
    assert statistics.fmean(means) == pytest.approx(1, abs=0.03)


def test_streams_overlap_in_modelled_time(fresh):
    done = fresh(
        """
        a = d.alloc(8 << 20)
        first, second = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1)
        events = [d.make("cuEventCreate", 0) for _ in range(3)]
        d.do("cuEventRecord", events[0], first)
        d.do("cuMemsetD8Async", a, 0, 4 << 20, first)
        d.do("cuEventRecord", events[1], first)
        d.do("cuMemsetD8Async", a + (4 << 20), 0, 4 << 20, second)
        d.do("cuEventRecord", events[2], second)
        d.do("cuCtxSynchronize")
        times = []
        for event in events[1:]:
            elapsed = ctypes.c_float()
            d.do("cuEventElapsedTime", out(elapsed), events[0], event)
            times.append(elapsed.value)
        print(times[0] == times[1] > 0)
        """
    )
    assert done.stdout.strip() == "True"


HANG = """
    f = d.vector_add()
    a, b, c = d.vectors(32)
    print(d.launch(f, (1,), (32,), [a, b, c, ctypes.c_int(32)]), d.cuCtxSynchronize(), d.cuMemFree_v2(a))
    """


def test_hanging_kernel_ends_at_the_timeout(fresh):
    assert fresh(HANG, HANG="vector", TIMEOUT="50").stdout.split() == ["0", "702", "702"]


def test_scripted_crash_kills_the_process(fresh):
    import signal

    fresh(HANG, SEGV="vector", status=-signal.SIGSEGV)
    assert fresh(HANG, SEGV="^ector").stdout.split() == ["0", "0", "0"]
