"""Linear, host and managed memory, pointers and pools."""

from __future__ import annotations

import ctypes
import mmap

import driver_api as api
import pytest
from driver_api import Driver


def memory_info(cuda: Driver) -> tuple[int, int]:
    free, total = api.handle(), api.handle()
    cuda.do("cuMemGetInfo_v2", api.out(free), api.out(total))
    return free.value, total.value


def test_allocations_are_aligned_separate_and_zero(cuda: Driver):
    sizes = [1, 511, 512, 513, 4096, 1 << 20, (1 << 20) + 1, 3 << 20]
    ranges = sorted((cuda.alloc(size), size) for size in sizes)
    for (low, size), (high, _) in zip(ranges, ranges[1:], strict=False):
        assert low % 512 == 0
        assert high - (low + size) >= 512  # room in which an overrun is seen
    for address, size in ranges:
        assert cuda.read(address, size) == bytes(size)


def test_freed_memory_is_used_again_and_is_zero_again(cuda: Driver):
    first = cuda.alloc(4096)
    cuda.write(first, b"\xff" * 4096)
    cuda.do("cuMemFree_v2", first)
    second = cuda.alloc(4096)
    assert second == first
    assert cuda.read(second, 4096) == bytes(4096)


def test_many_allocations_free_everything(cuda: Driver):
    before = memory_info(cuda)
    pointers = [cuda.alloc(1000 * (i % 7) + 1) for i in range(500)]
    assert len(set(pointers)) == 500
    for pointer in pointers[::2] + pointers[1::2]:
        cuda.do("cuMemFree_v2", pointer)
    assert memory_info(cuda) == before


def test_memory_runs_out_with_its_error(cuda: Driver):
    free, total = memory_info(cuda)
    assert free <= total
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), total + 1) == api.OUT_OF_MEMORY
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), 1 << 63) == api.OUT_OF_MEMORY
    assert memory_info(cuda) == (free, total)


def test_bad_allocations_and_frees(cuda: Driver):
    pointer = cuda.alloc(4096)
    assert cuda.cuMemAlloc_v2(None, 16) == api.INVALID_VALUE
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), 0) == api.INVALID_VALUE
    assert cuda.cuMemFree_v2(pointer + 8) == api.INVALID_VALUE
    cuda.do("cuMemFree_v2", pointer)
    assert cuda.cuMemFree_v2(pointer) == api.INVALID_VALUE


def test_pitched_rows_are_aligned(cuda: Driver):
    pointer, pitch = api.handle(), api.handle()
    cuda.do("cuMemAllocPitch_v2", api.out(pointer), api.out(pitch), 1000, 10, 4)
    assert (pitch.value, pointer.value % 512) == (1024, 0)
    assert cuda.cuMemAllocPitch_v2(api.out(pointer), api.out(pitch), 1000, 10, 5) == api.INVALID_VALUE
    assert cuda.cuMemAllocPitch_v2(api.out(pointer), api.out(pitch), 1 << 40, 1 << 40, 4) == api.OUT_OF_MEMORY


def test_address_range_names_base_and_size_from_inside(cuda: Driver):
    pointer = cuda.alloc(1000)
    base, size = api.handle(), api.handle()
    cuda.do("cuMemGetAddressRange_v2", api.out(base), api.out(size), pointer + 999)
    assert (base.value, size.value) == (pointer, 1000)
    assert cuda.cuMemGetAddressRange_v2(api.out(base), api.out(size), pointer + 1000) == api.NOT_FOUND


def attribute(cuda: Driver, number: int, pointer: int) -> int:
    value = api.handle(0)
    cuda.do("cuPointerGetAttribute", api.out(value), number, pointer)
    return value.value


def test_pointer_attributes_tell_kinds_apart(cuda: Driver):
    device, managed = cuda.alloc(64), cuda.make("cuMemAllocManaged", 64, 1)
    pinned = cuda.make("cuMemHostAlloc", 64, 0)
    context, memory_type, host_pointer, is_managed, start, size = 1, 2, 4, 8, 11, 12
    assert [attribute(cuda, memory_type, p) for p in (device, managed, pinned)] == [2, 2, 1]
    assert [attribute(cuda, is_managed, p) for p in (device, managed, pinned)] == [0, 1, 0]
    assert attribute(cuda, context, device + 63) == cuda.context
    assert attribute(cuda, start, device + 63) == device
    assert attribute(cuda, size, device + 63) == 64
    assert attribute(cuda, host_pointer, pinned + 5) == pinned + 5
    assert cuda.cuPointerGetAttribute(api.out(api.handle()), host_pointer, device) == api.INVALID_VALUE
    assert cuda.cuPointerGetAttribute(api.out(api.handle()), memory_type, 0x1234) == api.INVALID_VALUE
    assert [attribute(cuda, 21, p) for p in (device, managed, pinned)] == [
        0,
        0,
        0,
    ]  # IS_HW_DECOMPRESS_CAPABLE
    assert len({attribute(cuda, 7, p) for p in (device, managed, pinned)}) == 3  # buffer ids


def test_plural_pointer_attributes_accept_unknown_pointers(cuda: Driver):
    kinds = (ctypes.c_int * 2)(2, 11)
    memory_type, start = ctypes.c_uint(9), api.handle(9)
    data = (ctypes.c_void_p * 2)(ctypes.addressof(memory_type), ctypes.addressof(start))
    cuda.do("cuPointerGetAttributes", 2, kinds, data, 0x1234)
    assert (memory_type.value, start.value) == (0, 0)


def test_host_memory_reaches_kernels_only_when_registered(fresh):
    done = fresh(
        """
        f = d.vector_add()
        a, b, c = d.vectors(64)
        import mmap
        page = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        d.do("cuMemHostRegister_v2", address, 4096, 0)
        mapped = d.make("cuMemHostGetDevicePointer_v2", address, 0)
        print(d.launch(f, (1,), (64,), [a, b, mapped, ctypes.c_int(64)]), d.cuCtxSynchronize())
        print(struct.unpack("64f", page[:256]) == tuple(3.0 * i for i in range(64)))
        d.do("cuMemHostUnregister", address)
        print(d.launch(f, (1,), (64,), [a, b, mapped, ctypes.c_int(64)]), d.cuCtxSynchronize())
        """
    )
    assert done.stdout.split() == ["0", "0", "True", "0", "700"]


def test_registration_is_exclusive_and_exact(cuda: Driver):
    page = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    cuda.do("cuMemHostRegister_v2", address, 8192, 0)
    assert cuda.cuMemHostRegister_v2(address + 4096, 4096, 0) == api.ALREADY_REGISTERED
    assert cuda.cuMemHostUnregister(address + 4096) == api.NOT_REGISTERED
    cuda.do("cuMemHostUnregister", address)
    assert cuda.cuMemHostUnregister(address) == api.NOT_REGISTERED


def test_host_allocations(cuda: Driver):
    pointer = cuda.make("cuMemHostAlloc", 100, 1)
    flags = ctypes.c_uint()
    cuda.do("cuMemHostGetFlags", api.out(flags), pointer)
    assert flags.value & 3 == 3
    assert cuda.make("cuMemHostGetDevicePointer_v2", pointer, 0) == pointer
    ctypes.memset(pointer, 7, 100)
    cuda.do("cuMemFreeHost", pointer)
    assert cuda.cuMemFreeHost(pointer) == api.INVALID_VALUE
    assert cuda.cuMemHostAlloc(api.out(api.handle()), 100, 0x100) == api.INVALID_VALUE


def test_poison_fills_fresh_memory(fresh):
    done = fresh(
        "print({size: set(d.read(d.alloc(size), size)) for size in (100, 3 << 20)})",
        POISON="1",
    )
    assert done.stdout.strip() == "{100: {205}, 3145728: {205}}"


def test_memory_setting_bounds_allocation(fresh):
    done = fresh(
        "print([d.cuMemAlloc_v2(out(handle()), 3 << 20) for i in range(3)])", MEMORY_BYTES=str(8 << 20)
    )
    assert done.stdout.strip() == "[0, 0, 2]"


def test_stream_ordered_allocation_and_pools(cuda: Driver):
    pool = cuda.make("cuDeviceGetDefaultMemPool", 0)
    assert cuda.make("cuDeviceGetMemPool", 0) == pool
    pointer = cuda.make("cuMemAllocAsync", 5000, 0)
    used = api.handle()
    cuda.do("cuMemPoolGetAttribute", pool, 7, api.out(used))
    assert used.value >= 5000
    assert attribute(cuda, 17, pointer) == pool
    cuda.do("cuMemFreeAsync", pointer, 0)
    cuda.do("cuMemPoolGetAttribute", pool, 7, api.out(used))
    assert used.value == 0
    assert cuda.cuMemFreeAsync(pointer, 0) == api.INVALID_VALUE
    assert cuda.cuMemPoolDestroy(pool) == api.INVALID_VALUE


@pytest.mark.parametrize("name", ["cuMemAdvise", "cuMemPrefetchAsync"])
def test_managed_hints_are_accepted_for_managed_memory_only(cuda: Driver, name: str):
    managed, device = cuda.make("cuMemAllocManaged", 4096, 1), cuda.alloc(4096)
    arguments = (4096, 1, 0) if name == "cuMemAdvise" else (4096, 0, 0)
    assert getattr(cuda, name)(managed, *arguments) == api.SUCCESS
    assert getattr(cuda, name)(device, *arguments) == api.INVALID_VALUE


def page_aligned(cuda: Driver, size: int) -> int:
    """Managed memory that begins with a page, because advice applies to whole pages."""
    return -(-cuda.make("cuMemAllocManaged", size + 4096, 1) // 4096) * 4096


def range_attribute(cuda: Driver, number: int, address: int, size: int, count: int = 1) -> list[int]:
    values = (ctypes.c_int * count)(*[99] * count)
    cuda.do("cuMemRangeGetAttribute", values, 4 * count, number, address, size)
    return list(values)


def test_advice_is_remembered_by_page(cuda: Driver):
    read_mostly, preferred, accessed_by, prefetched, preferred_type = 1, 2, 3, 4, 5
    page, host, none = 4096, -1, -2
    base = page_aligned(cuda, 8 * page)
    cuda.do("cuMemAdvise", base + 2 * page + 1, 1, 1, 0)  # read mostly, one byte: its page
    assert range_attribute(cuda, read_mostly, base + 2 * page, page) == [1]
    assert range_attribute(cuda, read_mostly, base + 2 * page, page + 1) == [0]
    cuda.do("cuMemAdvise", base, 4 * page, 3, 0)  # prefer device 0
    cuda.do("cuMemAdvise", base + 4 * page, 4 * page, 3, host)
    assert range_attribute(cuda, preferred, base, 4 * page) == [0]
    assert range_attribute(cuda, preferred, base + 4 * page, page) == [host]
    assert range_attribute(cuda, preferred, base, 8 * page) == [none]
    assert range_attribute(cuda, preferred_type, base + 4 * page, page) == [2]
    assert range_attribute(cuda, preferred_type, base, 8 * page) == [0]
    cuda.do("cuMemAdvise", base, 8 * page, 5, 0)  # accessed by device 0, and in part by the host
    cuda.do("cuMemAdvise", base, page, 5, host)
    assert range_attribute(cuda, accessed_by, base, page, 3) == [0, host, none]
    assert range_attribute(cuda, accessed_by, base, 8 * page, 3) == [0, none, none]
    cuda.do("cuMemAdvise", base, 8 * page, 6, 0)
    assert range_attribute(cuda, accessed_by, base, 8 * page) == [none]
    assert range_attribute(cuda, prefetched, base, page) == [none]
    cuda.do("cuMemPrefetchAsync", base, 2 * page, 0, 0)
    assert range_attribute(cuda, prefetched, base, 2 * page) == [0]
    assert range_attribute(cuda, prefetched, base, 3 * page) == [none]
    assert cuda.cuMemAdvise(base, 8 * page, 7, 0) == api.INVALID_VALUE
    assert cuda.cuMemAdvise(base, 8 * page, 3, 5) == api.INVALID_DEVICE
    assert cuda.cuMemAdvise(base, 1 << 40, 1, 0) == api.INVALID_VALUE


def test_batches_of_prefetches_take_their_places(cuda: Driver):
    base, stream = page_aligned(cuda, 3 << 12), cuda.make("cuStreamCreate", 1)
    addresses, sizes = (api.handle * 3)(*[base + (i << 12) for i in range(3)]), (api.handle * 3)(*[4096] * 3)
    places, starts = (ctypes.c_int * 4)(1, 0, 2, 0), (api.handle * 2)(0, 2)
    arguments = (addresses, sizes, 3, places, starts, 2, 0, stream)
    cuda.do("cuMemPrefetchBatchAsync", *arguments)
    assert [range_attribute(cuda, 4, base + (i << 12), 4096) for i in range(3)] == [[0], [0], [-1]]
    starts[1] = 3
    assert cuda.cuMemPrefetchBatchAsync(*arguments) == api.INVALID_VALUE
    assert cuda.cuMemDiscardBatchAsync(addresses, sizes, 3, 0, 0) == api.INVALID_VALUE  # the legacy stream
    cuda.do("cuMemDiscardBatchAsync", addresses, sizes, 3, 0, stream)


def test_attachment_names_a_whole_allocation(cuda: Driver):
    base, stream = cuda.make("cuMemAllocManaged", 8192, 1), cuda.make("cuStreamCreate", 1)
    assert cuda.cuStreamAttachMemAsync(stream, base, 0, 4) == api.SUCCESS
    assert cuda.cuStreamAttachMemAsync(stream, base, 8192, 4) == api.SUCCESS
    assert cuda.cuStreamAttachMemAsync(stream, base, 4096, 4) == api.INVALID_VALUE
    assert cuda.cuStreamAttachMemAsync(stream, base + 4096, 0, 4) == api.INVALID_VALUE
    assert cuda.cuStreamAttachMemAsync(0, base, 0, 4) == api.INVALID_VALUE
    assert cuda.cuStreamAttachMemAsync(stream, base, 0, 3) == api.INVALID_VALUE


def test_host_memory_running_out_is_an_error_and_no_crash(fresh):
    done = fresh(
        """
        import resource
        f, (a, b, c) = d.vector_add(), d.vectors(4096)
        used = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20),) * 2)
        total, free, results, pointers = handle(), handle(), set(), []
        for size in (1 << 30, 3 << 20, 1 << 16):
            while (error := d.cuMemAlloc_v2(out(pointer := handle()), size)) == 0:
                pointers.append(pointer.value)
            results.add(error)
        for _ in range(50):
            results |= {d.cuMemHostAlloc(out(handle()), 1 << 20, 0), d.cuMemAllocAsync(out(handle()), 1 << 20, 0),
                        d.cuMemAddressReserve(out(handle()), 1 << 21, 0, 0, 0)}
        print(results, d.launch(f, (32,), (128,), [a, b, c, ctypes.c_int(4096)]), d.cuCtxSynchronize())
        for pointer in pointers:
            d.do("cuMemFree_v2", pointer)
        d.do("cuMemGetInfo_v2", out(free), out(total))
        print(total.value - free.value == 3 * 16384)
        """
    )
    assert done.stdout.splitlines() == ["{2} 0 0", "True"]


def test_only_memory_that_is_there_can_be_registered(cuda: Driver):
    with mmap.mmap(-1, 3 * mmap.PAGESIZE) as pages:
        view = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(view)
        assert cuda.cuMemHostRegister_v2(address, 1 << 45, 0) == api.INVALID_VALUE
        assert cuda.cuMemHostRegister_v2(0x1000, mmap.PAGESIZE, 0) == api.INVALID_VALUE
        cuda.do("cuMemHostRegister_v2", address, 3 * mmap.PAGESIZE, 0)
        cuda.do("cuMemHostUnregister", address)
        del view
