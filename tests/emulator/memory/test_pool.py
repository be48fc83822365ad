"""Memory pools: what they hold, whom they serve, and freeing in stream order."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver

MEBIBYTE = 1 << 20
THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8
PINNED, DEVICE, HOST, NUMA = 1, 1, 2, 3


class Properties(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("largest", ctypes.c_size_t),
        ("reserved", ctypes.c_ubyte * 56),
    ]


def create(cuda: Driver, place: int = DEVICE, ordinal: int = 0, largest: int = 0) -> int:
    return cuda.make("cuMemPoolCreate", api.out(Properties(PINNED, 0, place, ordinal, None, largest)))


def get(cuda: Driver, pool: int, attribute: int) -> int:
    value = api.handle()
    cuda.do("cuMemPoolGetAttribute", pool, attribute, api.out(value))
    return value.value


def test_reserved_memory_goes_back_at_a_synchronisation(cuda: Driver):
    before, pool = cuda.free_bytes(), create(cuda)
    pointer = cuda.make("cuMemAllocFromPoolAsync", 3 * MEBIBYTE, pool, 0)
    assert (get(cuda, pool, USED), get(cuda, pool, RESERVED)) == (4 * MEBIBYTE, 4 * MEBIBYTE)
    cuda.do("cuMemFreeAsync", pointer, 0)
    assert (get(cuda, pool, USED), get(cuda, pool, RESERVED)) == (0, 4 * MEBIBYTE)
    assert before - cuda.free_bytes() == 4 * MEBIBYTE
    cuda.do("cuStreamSynchronize", 0)
    assert get(cuda, pool, RESERVED) == 0
    assert cuda.free_bytes() == before


def test_release_threshold_keeps_and_trim_gives_back(cuda: Driver):
    before, pool = cuda.free_bytes(), create(cuda)
    cuda.do("cuMemPoolSetAttribute", pool, THRESHOLD, api.out(api.handle(6 * MEBIBYTE)))
    for pointer in [cuda.make("cuMemAllocFromPoolAsync", 4 * MEBIBYTE, pool, 0) for _ in range(2)]:
        cuda.do("cuMemFreeAsync", pointer, 0)
    cuda.do("cuCtxSynchronize")
    assert get(cuda, pool, RESERVED) == 6 * MEBIBYTE == before - cuda.free_bytes()
    second = cuda.make("cuMemAllocFromPoolAsync", 4 * MEBIBYTE, pool, 0)  # from what is reserved
    assert get(cuda, pool, RESERVED) == 6 * MEBIBYTE
    cuda.do("cuMemPoolTrimTo", pool, 0)
    assert get(cuda, pool, RESERVED) == 4 * MEBIBYTE  # what is in use stays
    assert (get(cuda, pool, RESERVED_HIGH), get(cuda, pool, USED_HIGH)) == (8 * MEBIBYTE, 8 * MEBIBYTE)
    for attribute in (RESERVED_HIGH, USED_HIGH):
        assert cuda.cuMemPoolSetAttribute(pool, attribute, api.out(api.handle(1))) == api.INVALID_VALUE
        cuda.do("cuMemPoolSetAttribute", pool, attribute, api.out(api.handle(0)))
        assert get(cuda, pool, attribute) == 4 * MEBIBYTE
    cuda.do("cuMemFree_v2", second)
    cuda.do("cuMemPoolDestroy", pool)
    assert cuda.free_bytes() == before


def test_unused_reservations_make_room_for_others(fresh):
    done = fresh(
        """
        from test_pool import *
        pool, other = create(d), create(d)
        d.do("cuMemPoolSetAttribute", pool, THRESHOLD, out(handle(1 << 40)))
        d.do("cuMemFreeAsync", d.make("cuMemAllocFromPoolAsync", 6 << 20, pool, 0), 0)
        d.do("cuCtxSynchronize")
        print(get(d, pool, RESERVED) >> 20, d.free_bytes() >> 20)
        kept = d.make("cuMemAllocFromPoolAsync", 4 << 20, other, 0)
        print(get(d, pool, RESERVED) >> 20)
        print(d.cuMemAlloc_v2(out(handle()), 4 << 20), d.cuMemAlloc_v2(out(handle()), 4 << 20))
        """,
        MEMORY_BYTES=str(8 * MEBIBYTE),
    )
    assert done.stdout.split() == ["6", "2", "0", "0", "2"]


def test_largest_size_of_a_pool_holds(cuda: Driver):
    pool = create(cuda, largest=4 * MEBIBYTE)
    cuda.make("cuMemAllocFromPoolAsync", 2 * MEBIBYTE, pool, 0)
    assert cuda.cuMemAllocFromPoolAsync(api.out(api.handle()), 3 * MEBIBYTE, pool, 0) == api.OUT_OF_MEMORY
    cuda.make("cuMemAllocFromPoolAsync", 2 * MEBIBYTE, pool, 0)


def test_destroyed_pool_lives_until_its_last_allocation(cuda: Driver):
    before, pool = cuda.free_bytes(), create(cuda)
    cuda.do("cuDeviceSetMemPool", 0, pool)
    pointer = cuda.make("cuMemAllocAsync", 64, 0)
    cuda.do("cuMemPoolDestroy", pool)
    assert cuda.make("cuDeviceGetMemPool", 0) == cuda.make("cuDeviceGetDefaultMemPool", 0)
    assert cuda.cuMemPoolDestroy(pool) == api.INVALID_VALUE
    cuda.write(pointer, b"still here")
    assert cuda.read(pointer, 10) == b"still here"
    cuda.do("cuMemFreeAsync", pointer, 0)
    cuda.do("cuCtxSynchronize")
    assert cuda.free_bytes() == before


def test_host_pools_hand_out_host_memory(cuda: Driver):
    before = cuda.free_bytes()
    for pool in (create(cuda, HOST), create(cuda, NUMA)):
        pointer = cuda.make("cuMemAllocFromPoolAsync", 4096, pool, 0)
        ctypes.memset(pointer, 65, 4096)
        memory_type = api.handle()
        cuda.do("cuPointerGetAttribute", api.out(memory_type), 2, pointer)
        assert memory_type.value == 1
        assert cuda.free_bytes() == before
        cuda.do("cuMemFreeAsync", pointer, 0)
        assert get(cuda, pool, USED) == 0


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (Properties(0, 0, DEVICE, 0), api.INVALID_VALUE),
        (Properties(PINNED, 0, DEVICE, 9), api.INVALID_DEVICE),
        (Properties(PINNED, 0, 4, 0), api.INVALID_VALUE),
        (Properties(PINNED, 0, NUMA, 3), api.INVALID_VALUE),
        (Properties(PINNED, 1, DEVICE, 0), api.NOT_SUPPORTED),
        (Properties(PINNED, 1, HOST, 0), api.INVALID_VALUE),
        (Properties(2, 0, DEVICE, 0), api.NOT_SUPPORTED),
    ],
)
def test_pools_that_cannot_be(cuda: Driver, properties: Properties, error: int):
    assert cuda.cuMemPoolCreate(api.out(api.handle()), api.out(properties)) == error


def test_access_to_a_pool_is_the_pools_own(fresh):
    done = fresh(
        """
        from test_pool import *
        from test_virtual_memory import Access, Location
        contexts = [handle(), handle()]
        for ordinal, context in enumerate(contexts):
            d.do("cuDevicePrimaryCtxRetain", out(context), ordinal)
        pool = create(d)
        pointer = d.make("cuMemAllocFromPoolAsync", 256, pool, 0)
        def use():
            context = handle()
            d.do("cuCtxCreate_v2", out(context), 0, 1)
            d.do("cuCtxEnablePeerAccess", contexts[0], 0)
            f, (a, b, _) = d.vector_add(), d.vectors(64)
            error = d.launch(f, (1,), (64,), [a, b, pointer, ctypes.c_int(64)]) or d.cuCtxSynchronize()
            d.do("cuCtxDestroy_v2", context)
            return error
        def allow(flags):
            return d.cuMemPoolSetAccess(pool, out(Access(Location(1, 1), flags)), 1)
        def flags(ordinal):
            value = ctypes.c_int(9)
            d.do("cuMemPoolGetAccess", out(value), pool, out(Location(1, ordinal)))
            return value.value
        print(use(), flags(0), flags(1), allow(3), use(), flags(1), allow(1), use(), allow(0), use(), flags(1))
        print(d.cuMemPoolSetAccess(pool, out(Access(Location(1, 0), 0)), 1))
        """,
        DEVICES="2",
    )
    assert done.stdout.split() == ["700", "3", "0", "0", "0", "3", "0", "700", "0", "700", "0", "1"]


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_use_after_a_free_in_stream_order_is_found(fresh, deferred: str):
    done = fresh(
        """
        stream, f = d.make("cuStreamCreate", 1), d.vector_add()
        a, b, _ = d.vectors(64)
        c = d.make("cuMemAllocAsync", 256, stream)
        print(d.launch(f, (1,), (64,), [a, b, c, ctypes.c_int(64)], stream=stream))
        print(d.cuMemFreeAsync(c, stream), d.cuMemFreeAsync(c, stream), d.cuMemFree_v2(c))
        print(d.cuMemsetD8Async(c, 0, 256, stream), d.cuMemcpyDtoDAsync_v2(c, a, 256, stream))
        print(d.launch(f, (1,), (64,), [a, b, c, ctypes.c_int(64)], stream=stream))
        print(d.cuStreamSynchronize(stream), d.cuMemAlloc_v2(out(handle()), 4))
        """,
        DEFERRED=deferred,
    )
    assert done.stdout.split() == ["0", "0", "1", "1", "1", "1", "0", "700", "700"]


@pytest.mark.parametrize(
    "work", ["cuMemcpyDtoDAsync_v2(b, a, 1 << 22, first)", "cuMemsetD8Async(b, 1, 8, first)"]
)
def test_work_whose_memory_goes_before_its_turn_is_found(fresh, work: str):
    done = fresh(
        f"""
        first, second = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1)
        a, b = d.alloc(1 << 22), d.make("cuMemAllocAsync", 1 << 22, first)
        print(d.{work}, d.cuMemFreeAsync(b, second))
        print(d.cuStreamSynchronize(second), d.cuStreamSynchronize(first))
        """,
        DEFERRED="1",
    )
    assert done.stdout.split() == ["0", "0", "0", "700"]
