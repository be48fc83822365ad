"""Captured calls are rebuilt as they were made: arguments by role, live handles and addresses, named exceptions."""

from __future__ import annotations

import ctypes
import struct

import pytest

from replay.engine.census import Site, Word
from replay.engine.placing.pieces import Placed
from replay.errors import EngineError
from replay.planning.spans import Span

from ...helpers.fake_driver import store
from ...helpers.small_snapshots import u64
from ..wiring import BASE, DEVICE, LIVE, SIZE, bytes_at, call, relocated


def launch(f=0xF0, parameters=None, layout=None, number=1, extra=None):
    inputs = {}
    if parameters is not None:
        inputs["kernelParams.0"] = parameters
    if layout is not None:
        inputs["kernelParams.1"] = b"".join(struct.pack("<II", *slot) for slot in layout)
    if extra is not None:
        inputs["extra.0"] = extra
    return call("cuLaunchKernel", [f, 4, 1, 1, 32, 1, 1, 0, 0, 1, 0], inputs=inputs, number=number)


# -- by role


def test_captured_device_becomes_the_chosen_one(executor, driver):
    executor.run_setup(call("cuDevicePrimaryCtxRetain", [0x10, 0], "setup", outputs={"pctx": u64(0xC0)}))
    assert driver.last("cuDevicePrimaryCtxRetain")[1] == DEVICE


def test_handles_given_out_stand_for_the_captured_ones(executor, driver):
    executor.run_setup(call("cuStreamCreate", [0x10, 1], "setup", outputs={"phStream": u64(0x51)}))
    executor.run_setup(call("cuEventCreate", [0x10, 0], "setup", outputs={"phEvent": u64(0xE1)}))
    executor.make(call("cuEventRecord", [0xE1, 0x51]))
    assert driver.last("cuEventRecord") == [0x1010, 0x1000]


def test_default_streams_are_themselves(executor, driver):
    for stream in (0, 1, 2):
        executor.make(call("cuStreamSynchronize", [stream]))
        assert driver.last("cuStreamSynchronize") == [stream]


def test_handle_that_no_call_created_is_named(executor):
    prepared = executor.prepare(call("cuStreamSynchronize", [0x51], number=12))
    with pytest.raises(EngineError, match=r"call 12 cuStreamSynchronize: uses the CUstream 0x51"):
        executor.run(prepared)


def test_kernel_may_stand_where_a_function_is_asked_for(executor, driver):
    executor.handles.bind("CUkernel", 0xA1, 0x99)
    executor.make(launch(f=0xA1))
    assert driver.last("cuLaunchKernel")[0] == 0x99


def test_addresses_are_translated(executor, driver):
    executor.make(call("cuMemsetD32_v2", [BASE + 64, 7, 16]))
    assert driver.last("cuMemsetD32_v2") == [LIVE + 64, 7, 16]


def test_address_outside_captured_memory_is_refused(executor):
    prepared = executor.prepare(call("cuMemsetD32_v2", [0x9999_0000, 7, 16]))
    with pytest.raises(EngineError, match="belongs to no captured memory"):
        executor.run(prepared)


def test_host_bytes_are_passed_as_they_were(executor, driver):
    seen = []
    driver.answers["cuMemcpyHtoD_v2"] = lambda target, source, size: seen.append(bytes_at(source, size))
    executor.make(call("cuMemcpyHtoD_v2", [BASE, 0x7F0000, 5], inputs={"srcHost": b"hello"}))
    assert seen == [b"hello"]
    assert driver.last("cuMemcpyHtoD_v2")[0] == LIVE


def test_host_output_is_kept_for_comparison(executor, driver):
    driver.answers["cuMemcpyDtoH_v2"] = lambda target, source, size: ctypes.memmove(target, b"other", 5) * 0
    prepared = executor.prepare(
        call("cuMemcpyDtoH_v2", [0x7F0000, BASE, 5], outputs={"dstHost": b"right"}, number=4)
    )
    executor.run(prepared)
    (output,) = prepared.host_outputs
    assert (output.expected, bytes_at(output.address, 5)) == (b"right", b"other")
    assert "call 4 cuMemcpyDtoH_v2" in output.label


def test_pinned_host_memory_is_used_itself(driver):
    pinned = ctypes.create_string_buffer(64)
    address = ctypes.addressof(pinned)
    executor = relocated(driver, placed=[
        Placed(Span(BASE, SIZE, False), BASE, "same_address"),
        Placed(Span(address, 64, True), address, "same_address"),
    ])  # fmt: skip
    executor.make(call("cuMemcpyHtoDAsync_v2", [BASE, address + 8, 5, 0], inputs={"srcHost": b"hello"}))
    assert driver.last("cuMemcpyHtoDAsync_v2")[1] == address + 8
    assert pinned.raw[8:13] == b"hello"  # as the application's host code had left it


def test_host_bytes_never_run_over_pinned_memory(driver):
    pinned = ctypes.create_string_buffer(64)
    address = ctypes.addressof(pinned)
    executor = relocated(driver, placed=[Placed(Span(address, 32, True), address, "same_address")])
    executor.addresses.bind(BASE, 64, LIVE)
    copy = call("cuMemcpyHtoDAsync_v2", [BASE, address + 30, 5, 0], inputs={"srcHost": b"hello"})
    executor.make(copy)
    assert pinned.raw == bytes(64)


def test_strings_end_with_nul(executor, driver):
    seen = []
    executor.handles.bind("CUmodule", 0xD0, 0xDD)
    driver.answers["cuModuleGetFunction"] = lambda out, module, name: seen.append(ctypes.string_at(name))
    executor.make(
        call("cuModuleGetFunction", [1, 0xD0, 2], inputs={"name": b"k" * 300}, outputs={"hfunc": u64(5)})
    )
    assert seen == [b"k" * 300]


def test_missing_input_is_named(executor):
    with pytest.raises(EngineError, match="what srcHost pointed to was not captured"):
        executor.prepare(call("cuMemcpyHtoD_v2", [BASE, 0x7F0000, 5]))


def test_wrong_number_of_arguments_is_refused(executor):
    with pytest.raises(EngineError, match="takes 3"):
        executor.prepare(call("cuMemsetD32_v2", [BASE, 7]))


def test_enormous_count_is_refused(executor):
    with pytest.raises(EngineError, match="elements"):
        executor.prepare(call("cuMemcpyDtoH_v2", [0x7F0000, BASE, 1 << 62]))


# -- exceptions


@pytest.fixture
def launched(executor, driver):
    """Run a launch and give back the values the driver was handed for its parameters."""

    def run(prepared_call, words=None, sizes=()):
        for number, found in (words or {}).items():
            executor.census.calls[number] = Site(words=found)
        executor.handles.bind("CUfunction", 0xF0, 0xFF)
        values = []

        def answer(*arguments):
            array, extra = arguments[9], arguments[10]
            if array:
                pointers = (ctypes.c_uint64 * len(sizes)).from_address(array)
                values.extend(bytes_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True))
            if extra:
                pairs = (ctypes.c_uint64 * 5).from_address(extra)
                size = ctypes.c_uint64.from_address(pairs[3]).value
                assert (pairs[0], pairs[2], pairs[4]) == (1, 2, 0)
                values.append(bytes_at(pairs[1], size))

        driver.answers["cuLaunchKernel"] = answer
        executor.make(prepared_call)
        return values

    return run


def test_parameters_are_handed_over_by_their_layout(launched):
    buffer = u64(1, 2) + struct.pack("<I", 3)
    assert launched(launch(parameters=buffer, layout=[(0, 8), (8, 8), (16, 4)]), sizes=(8, 8, 4)) == [
        u64(1), u64(2), struct.pack("<I", 3),
    ]  # fmt: skip


def test_parameters_without_a_layout_go_through_extra(launched):
    assert launched(launch(extra=b"0123456789abcdef")) == [b"0123456789abcdef"]


def test_pointers_in_parameters_are_patched_where_the_census_says(launched):
    buffer = u64(BASE, BASE + 16, BASE)
    words = {5: [Word(0, BASE), Word(8, BASE + 16)]}  # the third is a number that looks like a pointer
    values = launched(launch(parameters=buffer, layout=[(0, 24)], number=5), words, sizes=(24,))
    assert values == [u64(LIVE, LIVE + 16, BASE)]


def test_pointer_to_a_variable_that_loads_later_is_patched_when_it_is_there(executor, driver):
    """The window loads the module itself: when its calls are prepared, the variable has no address yet."""
    executor.census.calls[5] = Site(words=[Word(0, 0x9000)])
    executor.handles.bind("CUfunction", 0xF0, 0xFF)
    prepared = executor.prepare(launch(parameters=u64(0x9000), layout=[(0, 8)], number=5))
    seen = []

    def answer(*arguments):
        pointer = ctypes.c_uint64.from_address(arguments[9]).value
        seen.append(ctypes.c_uint64.from_address(pointer).value)

    driver.answers["cuLaunchKernel"] = answer
    for live in (0xABC0, 0xDEF0):  # another address in every iteration
        executor.addresses.bind(0x9000, 64, live)
        executor.run(prepared)
    assert seen == [0xABC0, 0xDEF0]


def test_layout_beyond_the_buffer_is_refused(executor):
    with pytest.raises(EngineError, match="exceeds their buffer"):
        executor.prepare(launch(parameters=bytes(8), layout=[(4, 8)]))


def test_launch_attributes_carry_live_handles(executor, driver):
    executor.handles.bind("CUfunction", 0xF0, 0xFF)
    executor.handles.bind("CUstream", 0x51, 0x5151)
    executor.handles.bind("CUevent", 0xE1, 0xE1E1)

    def attribute(kind, value):
        return struct.pack("<I4x", kind) + value.ljust(64, b"\0")

    cluster, event = struct.pack("<III", 2, 1, 1), u64(0xE1)
    attributes = attribute(4, cluster) + attribute(7, event) + attribute(13, b"") + attribute(1, u64(BASE))
    config = struct.pack("<7I4xQQI4x", 4, 1, 1, 32, 1, 1, 256, 0x51, 0xDEAD, 4)
    seen = []

    def answer(config_address, *rest):
        fields = struct.unpack("<7I4xQQI4x", bytes_at(config_address, 56))
        seen.append((fields[:8], bytes_at(fields[8], 72 * fields[9])))

    driver.answers["cuLaunchKernelEx"] = answer
    inputs = {"config.0": config, "config.1": attributes}
    executor.make(call("cuLaunchKernelEx", [1, 0xF0, 0, 0], inputs=inputs))
    (fields, kept), *_ = seen
    assert fields == (4, 1, 1, 32, 1, 1, 256, 0x5151)
    assert kept == attribute(4, cluster) + attribute(7, u64(0xE1E1)) + attribute(1, u64(LIVE))
    assert any("launch attribute was left out" in note for note in executor.notes)


def test_jit_options_that_point_into_the_application_are_dropped(executor, driver):
    seen = []

    def answer(module, image, count, options, values):
        keys = list((ctypes.c_uint32 * count).from_address(options))
        seen.append(dict(zip(keys, (ctypes.c_uint64 * count).from_address(values), strict=True)))
        assert ctypes.string_at(image) == b".version 7.0"

    driver.answers["cuModuleLoadDataEx"] = answer
    inputs = {
        "image": b".version 7.0",
        "options": struct.pack("<4I", 0, 5, 6, 7),
        "optionValues": u64(32, 0xDEAD, 100, 2),
    }
    executor.make(call("cuModuleLoadDataEx", [1, 2, 4, 3, 4], inputs=inputs, outputs={"module": u64(0xD0)}))
    (options,) = seen
    assert (options[0], options[7]) == (32, 2)
    assert options[5] != 0xDEAD  # a log of our own


def test_module_file_is_loaded_from_its_captured_contents(executor, driver):
    inputs = {"fname": b"/gone/kernels.ptx", "fname.1": b".version 7.0"}
    executor.make(call("cuModuleLoad", [1, 2], inputs=inputs, outputs={"module": u64(0xD0)}))
    assert driver.symbols()[-1] == "cuModuleLoadData"
    assert ctypes.string_at(driver.last("cuModuleLoadData")[1]) == b".version 7.0"
    assert executor.handles.find("CUmodule", 0xD0) == 0x1000


def test_module_variable_is_found_where_it_lives_now(executor, driver):
    executor.handles.bind("CUmodule", 0xD0, 0xDD)

    def answer(address, size, module, name):
        store(size, 64)
        return store(address, 0xABC0)

    driver.answers["cuModuleGetGlobal_v2"] = answer
    executor.make(call(
                "cuModuleGetGlobal_v2", [0, 0, 0xD0, 4],
                inputs={"name": b"table"}, outputs={"name.1": u64(0x9000, 64)},
            ))  # fmt: skip
    assert executor.addresses.find(0x9010) == 0xABD0
    assert executor.appeared == [0x9000]


def rectangle(**fields):
    order = ("srcXInBytes", "srcY", "srcMemoryType", "srcHost", "srcDevice", "srcArray", "srcPitch",
             "dstXInBytes", "dstY", "dstMemoryType", "dstHost", "dstDevice", "dstArray", "dstPitch",
             "WidthInBytes", "Height")  # fmt: skip
    return struct.pack("<16Q", *(fields.get(name, 0) for name in order))


def test_host_rows_of_a_rectangle_are_packed_and_device_rows_keep_their_pitch(executor, driver):
    rows = b"abcdefgh" * 3
    seen = []

    def answer(copy):
        fields = struct.unpack("<16Q", bytes_at(copy, 128))
        seen.append((fields, bytes_at(fields[3], 24)))

    driver.answers["cuMemcpy2D_v2"] = answer
    copy = rectangle(srcXInBytes=4, srcY=1, srcMemoryType=1, srcHost=0xDEAD, srcPitch=100, dstXInBytes=16,
                     dstMemoryType=2, dstDevice=BASE, dstPitch=512, WidthInBytes=8, Height=3)  # fmt: skip
    executor.make(call("cuMemcpy2D_v2", [1], inputs={"pCopy.0": copy, "pCopy.1": rows}))
    ((fields, source),) = seen
    assert source == rows
    assert (fields[0], fields[1], fields[2], fields[6]) == (0, 0, 1, 8)
    assert (fields[7], fields[11], fields[13]) == (16, LIVE, 512)


def test_host_rows_that_a_rectangle_writes_are_compared(executor, driver):
    copy = rectangle(srcMemoryType=2, srcDevice=BASE, srcPitch=512, dstMemoryType=1, dstHost=0xDEAD,
                     dstPitch=100, dstY=2, WidthInBytes=8, Height=3)  # fmt: skip
    prepared = executor.prepare(
        call("cuMemcpy2D_v2", [1], inputs={"pCopy.0": copy}, outputs={"pCopy.2": b"x" * 24})
    )
    (output,) = prepared.host_outputs
    assert (output.size_bytes, output.expected) == (24, b"x" * 24)


def test_an_array_side_of_a_rectangle_gets_the_live_handle_and_keeps_its_place(executor, driver):
    seen = []
    driver.answers["cuMemcpy2D_v2"] = lambda copy: seen.append(struct.unpack("<16Q", bytes_at(copy, 128)))
    copy = rectangle(srcXInBytes=8, srcY=3, srcMemoryType=3, srcArray=5, dstMemoryType=2, dstDevice=BASE,
                     WidthInBytes=8, Height=1)  # fmt: skip
    prepared = executor.prepare(call("cuMemcpy2D_v2", [1], inputs={"pCopy.0": copy}))
    executor.handles.bind("CUarray", 5, 0x5550)
    executor.run(prepared)
    ((x, y, kind, _, _, array, _, *_),) = seen
    assert (x, y, kind, array) == (8, 3, 3, 0x5550)


def test_unified_copy_takes_either_side_from_where_it_is(executor, driver):
    seen = []
    driver.answers["cuMemcpy"] = lambda target, source, size: seen.append((target, bytes_at(source, size)))
    executor.make(call("cuMemcpy", [BASE + 4, 0x7F00, 5], inputs={"src.1": b"hello"}))
    assert seen == [(LIVE + 4, b"hello")]


def test_pageable_memory_that_shares_a_page_with_captured_memory_is_not_part_of_it(executor, driver):
    """Registered memory is mapped page by page; what was after it may reach beyond its last page."""
    seen = []
    driver.answers["cuMemcpy"] = lambda target, source, size: seen.append((target, source, size))
    last = BASE + SIZE - 8
    prepared = executor.prepare(call("cuMemcpy", [last, BASE, 16], outputs={"dst.2": b"x" * 16}))
    executor.run(prepared)
    (output,) = prepared.host_outputs
    ((target, source, size),) = seen
    assert (target, source, size) == (output.address, LIVE, 16)
    assert not LIVE <= target < LIVE + SIZE
