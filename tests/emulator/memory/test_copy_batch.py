"""Batches of copies: attributes, ordering of source accesses, the failing copy's number."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver

STREAM_ORDER, DURING_CALL, ANY = 1, 2, 3
POINTER, ARRAY = 1, 2
NO_COPY = (1 << 64) - 1


class Attributes(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_int),
        ("source_hint", ctypes.c_int * 2),
        ("destination_hint", ctypes.c_int * 2),
        ("flags", ctypes.c_uint),
    ]


class Operand(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("words", ctypes.c_uint64 * 4)]


class Operation(ctypes.Structure):
    _fields_ = [
        ("source", Operand),
        ("destination", Operand),
        ("extent", ctypes.c_size_t * 3),
        ("order", ctypes.c_int),
        ("flags", ctypes.c_uint),
    ]


def words(*values: int) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * max(len(values), 1))(*values)


def batch(
    cuda: Driver,
    destinations: list[int],
    sources: list[int],
    sizes: list[int],
    stream: int,
    orders: tuple[int, ...] = (STREAM_ORDER,),
    starts: tuple[int, ...] = (0,),
    *,
    failing: ctypes.c_uint64 | None = None,
) -> int:
    rows = (Attributes * len(orders))(*[Attributes(order) for order in orders])
    head = (
        words(*destinations),
        words(*sources),
        words(*sizes),
        len(sizes),
        rows,
        words(*starts),
        len(orders),
    )
    if failing is None:
        return cuda.cuMemcpyBatchAsync_v2(*head, stream)
    return cuda.cuMemcpyBatchAsync(*head, api.out(failing), stream)


def test_every_copy_of_a_batch_is_made(cuda: Driver):
    stream, device = cuda.make("cuStreamCreate", 1), cuda.alloc(1024)
    cuda.write(device, bytes(range(256)) * 2 + bytes(512))
    failing = api.handle(7)
    targets, sources = [device + 512, device + 600, device + 700], [device, device + 1, device + 300]
    assert batch(cuda, targets, sources, [8, 16, 32], stream, (1, 3), (0, 2), failing=failing) == api.SUCCESS
    assert failing.value == NO_COPY
    cuda.do("cuStreamSynchronize", stream)
    content = cuda.read(device, 1024)
    for target, source, size in zip(targets, sources, (8, 16, 32), strict=True):
        assert content[target - device :][:size] == content[source - device :][:size] != bytes(size)


@pytest.mark.parametrize(
    ("changes", "failing_copy"),
    [
        ({"sizes": [8, 4096]}, 1),
        ({"orders": (STREAM_ORDER, 0), "starts": (0, 1)}, 1),
        ({"orders": (STREAM_ORDER, ANY), "starts": (0, 0)}, 0),
        ({"orders": (STREAM_ORDER,), "starts": (1,)}, 0),
    ],
)
def test_a_bad_batch_copies_nothing_and_names_the_copy(
    cuda: Driver, changes: dict[str, object], failing_copy: int
):
    stream, device = cuda.make("cuStreamCreate", 1), cuda.alloc(1024)
    cuda.write(device, b"\1" * 1024)
    failing = api.handle()
    values = {"sizes": [8, 8], "orders": (STREAM_ORDER,), "starts": (0,)} | changes
    targets, sources = [device + 512, device + 600], [device, device]
    error = batch(cuda, targets, sources, values.pop("sizes"), stream, **values, failing=failing)
    assert (error, failing.value) == (api.INVALID_VALUE, failing_copy)
    assert cuda.read(device, 1024) == b"\1" * 1024


def test_the_legacy_stream_and_empty_batches_are_refused(cuda: Driver):
    device = cuda.alloc(64)
    assert batch(cuda, [device], [device + 32], [8], 0) == api.INVALID_VALUE
    stream = cuda.make("cuStreamCreate", 0)
    assert batch(cuda, [], [], [], stream) == api.INVALID_VALUE
    assert cuda.cuMemcpyBatchAsync_v2(None, None, None, 1, None, None, 1, stream) == api.INVALID_VALUE
    assert cuda.cuMemcpy3DBatchAsync_v2(1, None, 0, stream) == api.INVALID_VALUE
    assert batch(cuda, [device], [device + 32], [8], api.PER_THREAD_STREAM) == api.SUCCESS


def test_source_is_read_when_its_attribute_says(fresh):
    done = fresh(
        """
        from test_copy_batch import *
        stream, target = d.make("cuStreamCreate", 1), d.alloc(64)
        source = ctypes.create_string_buffer(b"before", 64)
        address = ctypes.addressof(source)
        batch(d, [target, target + 32], [address, address], [6, 6], stream, (DURING_CALL, STREAM_ORDER), (0, 1))
        source.value = b"after!"
        d.do("cuStreamSynchronize", stream)
        print(d.read(target, 6), d.read(target + 32, 6))
        pageable = ctypes.create_string_buffer(6)
        batch(d, [ctypes.addressof(pageable)], [target], [6], stream)
        print(pageable.raw)
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["b'before' b'after!'", "b'before'"]


def test_boxes_move_between_pointers_and_arrays_in_elements(cuda: Driver):
    from array_api import U16, create
    from test_array import pattern, whole

    stream, device, array = cuda.make("cuStreamCreate", 1), cuda.alloc(4096), create(cuda, 8, 4, 2, kind=U16)
    data = pattern(4096)
    cuda.write(device, data)
    operations = (Operation * 2)(
        Operation(
            Operand(POINTER, words(device, 10, 5, 0)),
            Operand(ARRAY, words(array, 1, 1, 0)),
            (ctypes.c_size_t * 3)(6, 3, 2),
            STREAM_ORDER,
        ),
        Operation(
            Operand(POINTER, words(device, 0, 0, 0)),
            Operand(POINTER, words(device + 2048, 16, 0, 0)),
            (ctypes.c_size_t * 3)(5, 2, 1),
            ANY,
        ),
    )
    cuda.do("cuMemcpy3DBatchAsync_v2", 2, operations, 0, stream)
    cuda.do("cuStreamSynchronize", stream)
    expected = bytearray(8 * 4 * 2 * 2)
    for z in range(2):
        for y in range(3):
            at = ((z * 4 + y + 1) * 8 + 1) * 2
            expected[at : at + 12] = data[(z * 5 + y) * 20 :][:12]
    assert whole(cuda, array, 16, 4, 2) == bytes(expected)
    assert cuda.read(device + 2048, 5) == data[:5]
    assert cuda.read(device + 2064, 5) == data[5:10]
    operations[0].destination.words[1] = 3  # past the row
    failing = api.handle()
    assert cuda.cuMemcpy3DBatchAsync(2, operations, api.out(failing), 0, stream) == api.INVALID_VALUE
    assert failing.value == 0


def test_a_single_copy_with_attributes(cuda: Driver):
    stream, device = cuda.make("cuStreamCreate", 1), cuda.alloc(64)
    cuda.write(device, b"hello" + bytes(59))
    attributes = Attributes(STREAM_ORDER)
    assert (
        cuda.cuMemcpyWithAttributesAsync(device + 32, device, 5, api.out(attributes), stream) == api.SUCCESS
    )
    assert cuda.cuMemcpyWithAttributesAsync(device + 32, device, 5, None, stream) == api.INVALID_VALUE
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.read(device + 32, 5) == b"hello"
