"""Address reservation, physical memory, mappings and their rights."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import driver_api as api
import pytest
from driver_api import Driver

GRANULE = 2 << 20


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PINNED_ON_DEVICE_0 = Properties(1, 0, Location(1, 0), None)
READ, READ_WRITE = 1, 3


def reserve(cuda: Driver, size: int, address: int = 0) -> int:
    return cuda.make("cuMemAddressReserve", size, 0, address, 0)


def physical(cuda: Driver, size: int) -> int:
    return cuda.make("cuMemCreate", size, api.out(PINNED_ON_DEVICE_0), 0)


def allow(cuda: Driver, address: int, size: int, flags: int = READ_WRITE) -> int:
    return cuda.cuMemSetAccess(address, size, api.out(Access(Location(1, 0), flags)), 1)


def test_granularity_is_2_mib(cuda: Driver):
    for option in (0, 1):
        granularity = api.handle()
        cuda.do("cuMemGetAllocationGranularity", api.out(granularity), api.out(PINNED_ON_DEVICE_0), option)
        assert granularity.value == GRANULE


def test_memory_is_mapped_written_and_unmapped(cuda: Driver):
    address = reserve(cuda, 2 * GRANULE)
    memory = physical(cuda, GRANULE)
    cuda.do("cuMemMap", address, GRANULE, 0, memory, 0)
    assert cuda.cuMemcpyHtoD_v2(address, b"x", 1) == api.INVALID_VALUE  # no rights yet
    assert allow(cuda, address, GRANULE) == api.SUCCESS
    cuda.write(address, b"hello")
    assert cuda.read(address, 5) == b"hello"
    assert cuda.cuMemcpyHtoD_v2(address + GRANULE, b"x", 1) == api.INVALID_VALUE  # reserved, not mapped
    cuda.do("cuMemUnmap", address, GRANULE)
    assert cuda.cuMemcpyHtoD_v2(address, b"x", 1) == api.INVALID_VALUE
    cuda.do("cuMemRelease", memory)
    cuda.do("cuMemAddressFree", address, 2 * GRANULE)


def test_free_address_is_honoured(cuda: Driver):
    address = reserve(cuda, 4 * GRANULE)
    cuda.do("cuMemAddressFree", address, 4 * GRANULE)
    assert reserve(cuda, 2 * GRANULE, address + GRANULE) == address + GRANULE
    cuda.do("cuMemAddressFree", address + GRANULE, 2 * GRANULE)


def test_taken_address_is_only_a_hint(cuda: Driver):
    address = reserve(cuda, GRANULE)
    other = reserve(cuda, GRANULE, address)
    assert other not in (0, address)
    ordinary = cuda.alloc(4 * GRANULE)
    assert reserve(cuda, GRANULE, ordinary) != ordinary
    assert reserve(cuda, GRANULE, address + 12345) % GRANULE == 0
    cuda.write(ordinary, b"still here")
    assert cuda.read(ordinary, 10) == b"still here"


def test_memory_outlives_its_handle_while_mapped(cuda: Driver):
    address = reserve(cuda, GRANULE)
    memory = physical(cuda, GRANULE)
    cuda.do("cuMemMap", address, GRANULE, 0, memory, 0)
    cuda.do("cuMemRelease", memory)
    assert cuda.cuMemRelease(memory) == api.INVALID_VALUE
    allow(cuda, address, GRANULE)
    cuda.write(address, b"alive")
    again = cuda.make("cuMemRetainAllocationHandle", address)
    cuda.do("cuMemUnmap", address, GRANULE)
    second = reserve(cuda, GRANULE)
    cuda.do("cuMemMap", second, GRANULE, 0, again, 0)
    allow(cuda, second, GRANULE)
    assert cuda.read(second, 5) == b"alive"


def test_one_memory_at_two_addresses(cuda: Driver):
    first, second = reserve(cuda, GRANULE), reserve(cuda, GRANULE)
    memory = physical(cuda, GRANULE)
    for address in (first, second):
        cuda.do("cuMemMap", address, GRANULE, 0, memory, 0)
        allow(cuda, address, GRANULE)
    cuda.write(first, b"shared")
    assert cuda.read(second, 6) == b"shared"


PIECE = 256 << 10  # large enough for what nothing has written yet to be written through its file


def test_first_writes_of_every_sort_and_order_leave_the_right_bytes(cuda: Driver):
    memory = physical(cuda, GRANULE)
    address, other = reserve(cuda, GRANULE), reserve(cuda, GRANULE)
    for place in (address, other):
        cuda.do("cuMemMap", place, GRANULE, 0, memory, 0)
        assert allow(cuda, place, GRANULE) == api.SUCCESS
    expected = bytearray(GRANULE)

    def write(offset: int, data: bytes) -> None:
        cuda.write(address + offset, data)
        expected[offset : offset + len(data)] = data

    def clear(offset: int, size: int) -> None:
        cuda.do("cuMemsetD8_v2", other + offset, 0, size)
        expected[offset : offset + size] = bytes(size)

    clear(0, GRANULE)
    write(PIECE + 100, os.urandom(PIECE))  # no border of a page
    assert cuda.read(other, GRANULE) == expected
    write(PIECE - 7, os.urandom(2 * PIECE))  # partly written before
    clear(PIECE + 4000, PIECE)
    clear(4 * PIECE, PIECE)
    write(4 * PIECE + 1, b"x")
    clear(3 * PIECE, 2 * PIECE)  # its end was written
    write(GRANULE - PIECE, os.urandom(PIECE))
    assert cuda.read(address, GRANULE) == expected


def test_a_first_copy_over_neighbouring_memories_fills_both(cuda: Driver):
    address = reserve(cuda, 2 * GRANULE)
    for number in range(2):
        cuda.do("cuMemMap", address + number * GRANULE, GRANULE, 0, physical(cuda, GRANULE), 0)
    assert allow(cuda, address, 2 * GRANULE) == api.SUCCESS
    data = os.urandom(2 * PIECE)
    cuda.write(address + GRANULE - PIECE, data)
    assert cuda.read(address + GRANULE - PIECE, 2 * PIECE) == data
    cuda.do("cuMemsetD8_v2", address + GRANULE - PIECE - 8, 0, 2 * PIECE)
    assert cuda.read(address + GRANULE - PIECE - 8, 2 * PIECE + 8) == bytes(2 * PIECE) + data[-8:]


def test_read_only_mapping_cannot_be_written(cuda: Driver):
    address = reserve(cuda, GRANULE)
    cuda.do("cuMemMap", address, GRANULE, 0, physical(cuda, GRANULE), 0)
    assert allow(cuda, address, GRANULE, READ) == api.SUCCESS
    assert cuda.read(address, 4) == bytes(4)
    assert cuda.cuMemcpyHtoD_v2(address, b"x", 1) == api.INVALID_VALUE
    flags = api.handle()
    cuda.do("cuMemGetAccess", api.out(flags), api.out(Location(1, 0)), address)
    assert flags.value == READ


def test_copy_runs_over_neighbouring_mappings(cuda: Driver):
    address = reserve(cuda, 2 * GRANULE)
    for part in (0, GRANULE):
        cuda.do("cuMemMap", address + part, GRANULE, 0, physical(cuda, GRANULE), 0)
    assert allow(cuda, address, 2 * GRANULE) == api.SUCCESS
    cuda.write(address + GRANULE - 4, b"12345678")
    assert cuda.read(address + GRANULE - 4, 8) == b"12345678"


def test_kernels_use_mapped_memory(cuda: Driver):
    address = reserve(cuda, GRANULE)
    cuda.do("cuMemMap", address, GRANULE, 0, physical(cuda, GRANULE), 0)
    allow(cuda, address, GRANULE)
    a, b, _ = cuda.vectors(64)
    assert cuda.launch(cuda.vector_add(), (1,), (64,), [a, b, address, ctypes.c_int(64)]) == api.SUCCESS
    cuda.do("cuCtxSynchronize")
    assert cuda.floats(address, 64) == [3.0 * i for i in range(64)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuMemAddressReserve", (GRANULE + 1, 0, 0, 0)),
        ("cuMemAddressReserve", (0, 0, 0, 0)),
        ("cuMemAddressReserve", (GRANULE, 3, 0, 0)),
        ("cuMemAddressReserve", (GRANULE, 0, 0, 1)),
        ("cuMemCreate", (GRANULE - 1, api.out(PINNED_ON_DEVICE_0), 0)),
        ("cuMemCreate", (GRANULE, None, 0)),
        ("cuMemCreate", (GRANULE, api.out(Properties(0, 0, Location(1, 0), None)), 0)),
    ],
)
def test_bad_sizes_and_properties_are_refused(cuda: Driver, name: str, arguments: tuple[object, ...]):
    assert getattr(cuda, name)(api.out(api.handle()), *arguments) == api.INVALID_VALUE


def test_bad_mappings_are_refused(cuda: Driver):
    address, memory = reserve(cuda, 2 * GRANULE), physical(cuda, GRANULE)
    assert cuda.cuMemMap(address + 2 * GRANULE, GRANULE, 0, memory, 0) == api.INVALID_VALUE  # not reserved
    assert cuda.cuMemMap(address, 2 * GRANULE, 0, memory, 0) == api.INVALID_VALUE  # more than there is
    assert cuda.cuMemMap(address, GRANULE, 0, 4711, 0) == api.INVALID_VALUE
    cuda.do("cuMemMap", address, GRANULE, 0, memory, 0)
    assert cuda.cuMemMap(address, GRANULE, 0, memory, 0) == api.INVALID_VALUE  # mapped already
    assert cuda.cuMemAddressFree(address, 2 * GRANULE) == api.INVALID_VALUE  # still mapped
    assert cuda.cuMemUnmap(address + GRANULE, GRANULE) == api.INVALID_VALUE  # not mapped


FILE_DESCRIPTOR = 1
SHAREABLE = Properties(1, FILE_DESCRIPTOR, Location(1, 0), None)


def test_memory_travels_by_file_descriptor_inside_a_process(cuda: Driver):
    memory = cuda.make("cuMemCreate", GRANULE, api.out(SHAREABLE), 0)
    exported = ctypes.c_int()
    cuda.do("cuMemExportToShareableHandle", api.out(exported), memory, FILE_DESCRIPTOR, 0)
    again = cuda.make("cuMemImportFromShareableHandle", exported.value, FILE_DESCRIPTOR)
    os.close(exported.value)
    addresses = [reserve(cuda, GRANULE), reserve(cuda, GRANULE)]
    for address, one in zip(addresses, (memory, again), strict=True):
        cuda.do("cuMemMap", address, GRANULE, 0, one, 0)
        allow(cuda, address, GRANULE)
        cuda.do("cuMemRelease", one)
    cuda.write(addresses[0], b"shared")
    assert cuda.read(addresses[1], 6) == b"shared"


IMPORT = """
import sys
from test_virtual_memory import *
before = handle()
d.do("cuMemGetInfo_v2", out(before), out(handle()))
memory = d.make("cuMemImportFromShareableHandle", {file}, FILE_DESCRIPTOR)
properties = Properties()
d.do("cuMemGetAllocationPropertiesFromHandle", out(properties), memory)
address = reserve(d, 2 * GRANULE)
d.do("cuMemMap", address, 2 * GRANULE, 0, memory, 0)
allow(d, address, 2 * GRANULE)
print(d.read(address, 6).decode(), properties.location.id)
d.write(address + GRANULE, b"answer")
after = handle()
d.do("cuMemGetInfo_v2", out(after), out(handle()))
print(after.value == before.value)
"""


def test_memory_travels_by_file_descriptor_to_another_process(fresh):
    script = """
        import os, subprocess
        from test_virtual_memory import *
        shareable = Properties(1, FILE_DESCRIPTOR, Location(1, 1), None)
        memory = d.make("cuMemCreate", 2 * GRANULE, out(shareable), 0)
        address = reserve(d, 2 * GRANULE)
        d.do("cuMemMap", address, 2 * GRANULE, 0, memory, 0)
        d.do("cuMemSetAccess", address, 2 * GRANULE, out(Access(Location(1, 0), READ_WRITE)), 1)
        d.write(address, b"secret")
        file = ctypes.c_int()
        d.do("cuMemExportToShareableHandle", out(file), memory, FILE_DESCRIPTOR, 0)
        start = f"from driver_api import *; d = Driver({d.library._name!r}); d.start()"
        script = start + IMPORT.format(file=file.value)
        subprocess.run([sys.executable, "-c", script], pass_fds=[file.value], check=True)
        print(d.read(address + GRANULE, 6).decode())
        """
    done = fresh("import sys" + script.replace("\n        ", "\n"), DEVICES="2")
    assert done.stdout.split() == ["secret", "1", "True", "answer"]


def test_foreign_files_and_wrong_kinds_are_refused(cuda: Driver, tmp_path: Path):
    plain, exported = physical(cuda, GRANULE), ctypes.c_int()
    shareable = cuda.make("cuMemCreate", GRANULE, api.out(SHAREABLE), 0)
    assert cuda.cuMemExportToShareableHandle(api.out(exported), plain, 1, 0) == api.INVALID_VALUE
    assert cuda.cuMemExportToShareableHandle(api.out(exported), shareable, 8, 0) == api.NOT_SUPPORTED
    assert cuda.cuMemExportToShareableHandle(api.out(exported), 4711, 1, 0) == api.INVALID_VALUE
    assert cuda.cuMemExportToShareableHandle(None, shareable, 1, 0) == api.INVALID_VALUE
    (tmp_path / "file").write_bytes(bytes(GRANULE))
    imported = api.out(api.handle())
    with (tmp_path / "file").open("r+b") as file:
        assert cuda.cuMemImportFromShareableHandle(imported, file.fileno(), 1) == api.INVALID_VALUE
    unsealed = os.memfd_create("replay-device-memory:1:0")
    os.ftruncate(unsealed, GRANULE)
    assert cuda.cuMemImportFromShareableHandle(imported, unsealed, 1) == api.INVALID_VALUE
    os.close(unsealed)
    assert cuda.cuMemImportFromShareableHandle(imported, 1 << 20, 1) == api.INVALID_VALUE


def test_pointer_attributes_tell_reservation_and_mapping_apart(cuda: Driver):
    start, size, mapped, handle_types, base, mapping_size = 11, 12, 13, 14, 19, 18
    address = reserve(cuda, 3 * GRANULE)
    memory = cuda.make("cuMemCreate", GRANULE, api.out(SHAREABLE), 0)
    cuda.do("cuMemMap", address + GRANULE, GRANULE, 0, memory, 0)

    def attribute(number: int, pointer: int) -> int | None:
        value = api.handle()
        error = cuda.cuPointerGetAttribute(api.out(value), number, pointer)
        return None if error else value.value

    assert [attribute(n, address + GRANULE + 5) for n in (start, size)] == [address, 3 * GRANULE]
    assert [attribute(n, address + GRANULE + 5) for n in (base, mapping_size)] == [address + GRANULE, GRANULE]
    assert [attribute(n, address) for n in (start, size)] == [address, 3 * GRANULE]
    assert [attribute(n, address) for n in (base, mapping_size)] == [None, None]
    assert [attribute(mapped, address + part) for part in (0, GRANULE)] == [0, 1]
    assert attribute(handle_types, address + GRANULE) == FILE_DESCRIPTOR


def test_mapped_memory_has_no_synchronous_operations_of_its_own(cuda: Driver):
    """As NVIDIA's driver was seen to answer; the context has a flag for all of its memory."""
    address, memory = reserve(cuda, GRANULE), physical(cuda, GRANULE)
    cuda.do("cuMemMap", address, GRANULE, 0, memory, 0)
    assert allow(cuda, address, GRANULE) == 0
    synchronous, value = 6, ctypes.c_uint(1)  # CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    assert cuda.cuPointerSetAttribute(api.out(value), synchronous, address) == api.NOT_SUPPORTED
    cuda.do("cuPointerSetAttribute", api.out(value), synchronous, cuda.alloc(64))


# write(p, offset): one word at p + offset.
WRITE = (
    api.HEADER
    + """
.visible .entry write(.param .u64 p, .param .u64 offset)
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [offset]; add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], 7;
  ret;
}
"""
)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (4092, ""),
        (4096, ": 0 bytes past the end of the 4,096-byte allocation at 0x"),
        (8100, ": 92 bytes before the 8-byte allocation at 0x"),
        (8192, ""),
        (8200, ": 0 bytes past the end of the 8-byte allocation at 0x"),
        (1 << 20, ": 4 bytes into the 16-byte allocation at 0x"),
    ],
)
def test_kernels_find_the_ends_of_allocations_in_confined_memory(fresh, offset: int, words: str):
    offset += 4 if offset == 1 << 20 else 0
    done = fresh(
        f"""
        import test_virtual_memory as t
        p = t.reserve(d, t.GRANULE)
        d.do("cuMemMap", p, t.GRANULE, 0, t.physical(d, t.GRANULE), 0)
        assert t.allow(d, p, t.GRANULE) == 0
        function = d.function(d.module({WRITE!r}), "write")
        def confine(base, size, *pieces):
            pieces = (ctypes.c_uint64 * len(pieces))(*pieces)
            base, size, count = map(ctypes.c_uint64, (base, size, len(pieces) // 2))
            assert d.library.replayConfineMemory(base, size, pieces, count) == 0
        confine(p, t.GRANULE, p, 4096, p + 8192, 8, p + (1 << 20), 16)
        d.launch(function, (1,), (1,), (p, ctypes.c_uint64(1 << 20)))
        confine(p + (1 << 20), 16)
        d.do("cuMemsetD8_v2", p, 1, t.GRANULE)  # calls may touch all of it
        d.launch(function, (1,), (1,), (p, ctypes.c_uint64({offset})))
        print(d.cuCtxSynchronize())
        """
    )
    assert done.stdout.split() == ["700" if words else "0"]
    assert words in done.stderr
    assert (", which was freed" in done.stderr) == (offset > GRANULE // 4)
