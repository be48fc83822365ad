"""Copies and fills: every form, bounds, and what is waited for."""

from __future__ import annotations

import ctypes
import struct

import driver_api as api
import pytest
from copy_api import ARRAY, DEVICE, HOST, UNIFIED, Copy2D, Copy3D
from driver_api import Driver

PATTERN = bytes(range(256)) * 16


def filled(cuda: Driver) -> int:
    pointer = cuda.alloc(len(PATTERN))
    cuda.write(pointer, PATTERN)
    return pointer


@pytest.mark.parametrize("stream", [0, api.LEGACY_STREAM, api.PER_THREAD_STREAM])
def test_linear_copies(cuda: Driver, stream: int):
    source, target = filled(cuda), cuda.alloc(4096)
    cuda.do("cuMemcpyDtoD_v2", target, source, 100)
    cuda.do("cuMemcpyDtoDAsync_v2", target + 100, source + 100, 100, stream)
    cuda.do("cuMemcpy", target + 200, source + 200, 100)
    cuda.do("cuMemcpyAsync", target + 300, source + 300, 100, stream)
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.read(target, 400) == PATTERN[:400]
    back = ctypes.create_string_buffer(400)
    cuda.do("cuMemcpy", ctypes.addressof(back), target, 400)  # direction inferred
    assert back.raw == PATTERN[:400]
    cuda.do("cuMemcpyPeer", target, cuda.context, source + 7, cuda.context, 64)
    assert cuda.read(target, 64) == PATTERN[7:71]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuMemcpyHtoD_v2", ("end", b"x" * 16, 16)),
        ("cuMemcpyDtoH_v2", (ctypes.create_string_buffer(16), "end", 16)),
        ("cuMemcpyDtoD_v2", ("start", "end", 16)),
        ("cuMemcpyDtoD_v2", ("end", "start", 16)),
        ("cuMemcpyHtoDAsync_v2", ("end", b"x" * 16, 16, 0)),
        ("cuMemcpyHtoD_v2", (0, b"x" * 16, 16)),
        ("cuMemcpyDtoH_v2", (None, "start", 16)),
        ("cuMemcpyDtoD_v2", ("start", "start", 1 << 62)),
        ("cuMemsetD8_v2", ("end", 1, 16)),
        ("cuMemsetD32_v2", ("start", 1, 1 << 62)),
    ],
)
def test_ranges_outside_an_allocation_are_refused(cuda: Driver, name: str, arguments: tuple[object, ...]):
    start = filled(cuda)
    places = {"start": start, "end": start + len(PATTERN) - 8}
    values = [places[a] if isinstance(a, str) else a for a in arguments]
    assert getattr(cuda, name)(*values) == api.INVALID_VALUE
    assert cuda.read(start, len(PATTERN)) == PATTERN


def test_zero_bytes_are_nothing(cuda: Driver):
    assert cuda.cuMemcpyHtoD_v2(0, None, 0) == api.SUCCESS
    assert cuda.cuMemsetD8_v2(0, 0, 0) == api.SUCCESS


def test_fills_of_each_width(cuda: Driver):
    pointer = cuda.alloc(64)
    cuda.do("cuMemsetD8_v2", pointer, 0x1AB, 3)
    cuda.do("cuMemsetD16_v2", pointer + 4, 0x1234, 2)
    cuda.do("cuMemsetD32Async", pointer + 8, 0xDEADBEEF, 2, 0)
    expected = b"\xab\xab\xab\0" + struct.pack("<HHII", 0x1234, 0x1234, 0xDEADBEEF, 0xDEADBEEF) + bytes(48)
    assert cuda.read(pointer, 64) == expected
    assert cuda.cuMemsetD16_v2(pointer + 1, 0, 1) == api.INVALID_VALUE
    assert cuda.cuMemsetD32_v2(pointer + 2, 0, 1) == api.INVALID_VALUE


def test_two_dimensional_fill_leaves_the_padding(cuda: Driver):
    pointer = cuda.alloc(32)
    cuda.do("cuMemsetD2D16_v2", pointer, 10, 0x0101, 3, 3)
    assert cuda.read(pointer, 32) == (b"\1" * 6 + b"\0" * 4) * 2 + b"\1" * 6 + b"\0" * 6
    assert cuda.cuMemsetD2D8_v2(pointer, 10, 1, 11, 2) == api.INVALID_VALUE  # wider than its pitch


@pytest.mark.parametrize("name", ["cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"])
def test_rectangle_is_cut_out_of_device_memory(cuda: Driver, name: str):
    source = filled(cuda)
    result = ctypes.create_string_buffer(5 * 20)
    copy = Copy2D(
        source_x=3, source_y=2, source_type=DEVICE, source_device=source, source_pitch=64,
        destination_x=1, destination_y=1, destination_type=HOST,
        destination_host=ctypes.addressof(result), destination_pitch=20, width=7, height=4,
    )  # fmt: skip
    cuda.do(name, api.out(copy), *([0] if name.endswith("Async_v2") else []))
    expected = bytearray(100)
    for row in range(4):
        at = (row + 2) * 64 + 3
        expected[(row + 1) * 20 + 1 : (row + 1) * 20 + 8] = PATTERN[at : at + 7]
    assert result.raw == bytes(expected)


def test_box_is_cut_out_of_device_memory(cuda: Driver):
    source, target = filled(cuda), cuda.alloc(512)
    copy = Copy3D(
        source_x=1, source_y=1, source_z=1, source_type=UNIFIED, source_device=source, source_pitch=16,
        source_height=8, destination_type=DEVICE, destination_device=target, destination_pitch=8,
        destination_height=4, width=5, rows=3, depth=2,
    )  # fmt: skip
    cuda.do("cuMemcpy3D_v2", api.out(copy))
    expected = bytearray(512)
    for z in range(2):
        for y in range(3):
            at = (z + 1) * 128 + (y + 1) * 16 + 1
            expected[z * 32 + y * 8 : z * 32 + y * 8 + 5] = PATTERN[at : at + 5]
    assert cuda.read(target, 512) == bytes(expected)


def test_shaped_copies_check_their_bounds(cuda: Driver):
    source = filled(cuda)
    result = ctypes.create_string_buffer(8192)

    def copy(**changes: int) -> int:
        values = {
            "source_type": DEVICE, "source_device": source, "source_pitch": 64, "destination_type": HOST,
            "destination_host": ctypes.addressof(result), "destination_pitch": 64, "width": 64, "height": 64,
        }  # fmt: skip
        return cuda.cuMemcpy2D_v2(api.out(Copy2D(**(values | changes))))

    assert copy() == api.SUCCESS
    assert copy(source_y=1) == api.INVALID_VALUE
    assert copy(source_x=1) == api.INVALID_VALUE
    assert copy(width=65) == api.INVALID_VALUE
    assert copy(height=1 << 60) == api.INVALID_VALUE
    assert copy(source_type=9) == api.INVALID_VALUE
    assert copy(source_type=ARRAY) == api.INVALID_HANDLE
    assert cuda.cuMemcpy2D_v2(None) == api.INVALID_VALUE


def test_rows_that_begin_beyond_the_pitch_are_copied_and_told(fresh):
    """As Dr.Jit copies; the documentation wants the offset and the width to fit into the pitch."""
    done = fresh(
        """
        from copy_api import DEVICE, HOST, Copy2D
        target = d.alloc(4096)
        d.do("cuMemsetD8_v2", target, 0, 4096)
        words = ctypes.create_string_buffer(b"abcdefgh", 8)
        def copy(**changes):
            values = dict(source_type=HOST, source_host=ctypes.addressof(words), source_pitch=4,
                          destination_type=DEVICE, destination_device=target, destination_pitch=64,
                          destination_x=100, width=4, height=2)
            return d.cuMemcpy2D_v2(out(Copy2D(**(values | changes))))
        print(copy(), copy(), copy(destination_x=4090), copy(destination_pitch=3))
        found = d.read(target, 4096)
        print(found[100:104] + found[164:168], sum(found) == sum(b"abcdefgh"))
        """
    )
    assert done.stdout.split() == ["0", "0", "1", "1", "b'abcdefgh'", "True"]
    assert done.stderr.count("a copy of rows begins beyond the pitch") == 1


def test_pageable_source_may_be_overwritten_after_the_call(fresh):
    done = fresh(
        """
        target, stream = d.alloc(64), d.make("cuStreamCreate", 1)
        source = ctypes.create_string_buffer(b"before", 64)
        d.do("cuMemcpyHtoDAsync_v2", target, source, 6, stream)
        source.value = b"after!"
        d.do("cuStreamSynchronize", stream)
        print(d.read(target, 6))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "b'before'"


def test_pinned_source_is_read_when_the_copy_runs(fresh):
    done = fresh(
        """
        target, stream = d.alloc(64), d.make("cuStreamCreate", 1)
        pinned = d.make("cuMemHostAlloc", 64, 0)
        ctypes.memmove(pinned, b"before", 6)
        d.do("cuMemcpyHtoDAsync_v2", target, pinned, 6, stream)
        ctypes.memmove(pinned, b"after!", 6)
        d.do("cuStreamSynchronize", stream)
        print(d.read(target, 6))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "b'after!'"


def test_pageable_target_is_complete_at_return_even_if_deferred(fresh):
    done = fresh(
        """
        source, stream = d.alloc(64), d.make("cuStreamCreate", 1)
        d.do("cuMemsetD8Async", source, 65, 4, stream)
        pageable, pinned = ctypes.create_string_buffer(4), d.make("cuMemHostAlloc", 4, 0)
        d.do("cuMemcpyDtoHAsync_v2", pinned, source, 4, stream)
        print(ctypes.string_at(pinned, 4))
        d.do("cuMemcpyDtoHAsync_v2", pageable, source, 4, stream)
        print(pageable.raw, ctypes.string_at(pinned, 4))
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["b'\\x00\\x00\\x00\\x00'", "b'AAAA' b'AAAA'"]


@pytest.mark.parametrize("kind", ["cuMemAlloc_v2", "cuMemHostAlloc", "cuMemAllocManaged"])
def test_synchronous_copy_from_pageable_memory_may_return_before_it_has_arrived(fresh, kind: str):
    """ "the DMA to final destination may not have completed": another stream that joins nothing may come first."""
    made = {"cuMemAlloc_v2": "64", "cuMemHostAlloc": "64, 0", "cuMemAllocManaged": "64, 1"}[kind]
    done = fresh(
        f"""
        target, stream = d.make({kind!r}, {made}), d.make("cuStreamCreate", 1)
        pinned = d.make("cuMemHostAlloc", 4, 0)
        source = ctypes.create_string_buffer(b"here", 4)
        d.do("cuMemcpyHtoD_v2", target, source, 4)
        source.raw = b"lost"
        d.do("cuMemcpyDtoHAsync_v2", pinned, target, 4, stream)
        d.do("cuStreamSynchronize", stream)
        print(ctypes.string_at(pinned, 4), d.read(target, 4))
        """,
        DEFERRED="1",
    )
    seen = bytes(4) if kind == "cuMemAlloc_v2" else b"here"
    assert done.stdout.strip() == f"{seen!r} {b'here'!r}"
