"""Captured calls are made again: which, on what objects, in what contexts."""

from __future__ import annotations

import ctypes
import struct

import pytest

from replay.api.functions import by_symbol, listed_functions
from replay.api.vocabulary import Keep
from replay.engine.arguments.families import BUILDERS
from replay.engine.driver import argument_type, argument_value
from replay.errors import EngineError

from ...helpers.small_snapshots import u64
from ..wiring import BASE, LIVE, SIZE, call

# -- the table ----------------------------------------------------------------------------------------------------


def test_every_recorded_exception_of_the_table_is_named():
    custom = {row.custom for row in listed_functions() if row.custom and row.keep != Keep.NEVER}
    assert custom == {*BUILDERS, "tensor_map"}  # encoders are called again for maps alone


def test_every_listed_function_has_an_exact_abi():
    for row in listed_functions():
        ctypes.CFUNCTYPE(ctypes.c_int32, *[argument_type(parameter) for parameter in row.parameters])


def test_argument_words_become_exactly_the_bits_of_the_parameter():
    parameter = {p.name: p for p in by_symbol()["cuMemsetD8_v2"].parameters}
    assert argument_value(parameter["uc"], 0xFFFF_FFFF_FFFF_FFAB) == 0xAB
    location = next(p for p in by_symbol()["cuMemPrefetchAsync_v2"].parameters if p.kind == "struct")
    assert bytes(argument_value(location, 0x0000_0007_0000_0001)) == struct.pack("<II", 1, 7)


@pytest.mark.parametrize(
    "function", ["cuLogsDumpToFile", "cuLinkAddFile_v2", "cuCoredumpSetAttribute", "cuGraphCreate"]
)
def test_functions_that_no_capture_records_are_never_called(executor, driver, function):
    """A snapshot comes from a stranger: it must not make the driver write files."""
    words = [0] * len(by_symbol()[function].parameters)
    with pytest.raises(EngineError, match="never replayed"):
        executor.prepare(call(function, words, "setup"))
    assert driver.calls == []


def test_unknown_function_is_refused(executor):
    with pytest.raises(EngineError, match="does not know"):
        executor.prepare(call("cuFormatDisk", []))


# -- whether a call is made again ------------------------------------------------------------------------------------


def test_copy_that_was_refused_in_the_application_touches_nothing(executor, driver):
    """Its size was wrong there; here memory comes in larger pieces, and it would succeed."""
    assert executor.prepare(call("cuMemsetD32_v2", [BASE, 7, 1 << 12], result=1)) is None
    assert "cuMemsetD32_v2 was not executed where it failed" in " ".join(executor.notes)
    assert executor.prepare(call("cuMemsetD32_v2", [BASE, 7, 16], result=700)) is not None


def test_call_on_what_had_ended_fails_as_it_did(executor, driver):
    late = executor.prepare(call("cuCtxSetLimit", [2, 64], result=709))
    late.context = 0xDEAD
    assert executor.run(late) == 709
    assert "cuCtxSetLimit" not in driver.symbols()


def test_address_that_was_wrong_in_the_application_is_passed_to_no_driver(executor, driver):
    """Here it may be memory of this process."""
    assert executor.make(call("cuMemsetD32_v2", [0x9999_0000, 7, 16], result=1)) == 1
    assert "cuMemsetD32_v2" not in driver.symbols()
    assert any("failed in the application and was not executed" in note for note in executor.notes)


def test_memory_calls_are_not_executed(executor, driver):
    for function, arguments in (
        ("cuMemAlloc_v2", [0x10, 64]), ("cuMemFree_v2", [BASE]), ("cuMemAddressReserve", [0x10, SIZE, 0, 0, 0]),
        ("cuMemMap", [BASE, SIZE, 0, 1, 0]), ("cuMemHostRegister_v2", [BASE, 64, 0]), ("cuInit", [0]),
    ):  # fmt: skip
        assert executor.prepare(call(function, arguments)) is None
    assert driver.calls == []


def test_setup_call_that_failed_in_the_application_is_left_out(executor, driver):
    executor.run_setup(call("cuStreamCreate", [0x10, 1], "setup", result=1))
    assert driver.calls == []


# -- objects and contexts -----------------------------------------------------------------------------------------


def test_objects_of_the_setup_survive_their_destruction_in_the_window(executor, driver):
    """The next iteration needs them."""
    executor.run_setup(call("cuEventCreate", [0x10, 0], "setup", outputs={"phEvent": u64(0xE1)}))
    executor.handles.permanent = set(executor.handles.made)
    assert executor.prepare(call("cuEventDestroy_v2", [0xE1])) is None
    # The value may be given out again: that object is the window's own.
    executor.make(call("cuEventCreate", [0x10, 0], outputs={"phEvent": u64(0xE1)}))
    executor.make(call("cuEventDestroy_v2", [0xE1]))
    assert driver.last("cuEventDestroy_v2") == [0x1010]
    assert ("CUevent", 0xE1) not in {
        key for key in executor.handles.made if executor.handles.made[key] == 0x1010
    }


def test_each_thread_runs_in_its_own_context(executor, driver):
    for context, thread in ((0xC1, 1), (0xC2, 2)):
        executor.handles.bind("CUcontext", context, context + 0x1000)
        executor.run_setup(call("cuCtxSetCurrent", [context], "setup", thread=thread))
    for thread in (1, 2, 2, 1):
        executor.make(call("cuCtxSynchronize", [], thread=thread))
    assert [words[0] for name, words in driver.calls if name == "cuCtxSetCurrent"] == [0x10C1, 0x10C2, 0x10C1]


def test_pushed_and_popped_contexts_are_followed(executor, driver):
    for context in (0xC1, 0xC2):
        executor.handles.bind("CUcontext", context, context + 0x1000)
    executor.run_setup(call("cuCtxSetCurrent", [0xC1], "setup"))
    executor.run_setup(call("cuCtxPushCurrent_v2", [0xC2], "setup"))
    inner = executor.prepare(call("cuCtxSynchronize", []))
    executor.run_setup(call("cuCtxPopCurrent_v2", [0x10], "setup", outputs={"pctx": u64(0xC2)}))
    outer = executor.prepare(call("cuCtxSynchronize", []))
    assert (inner.context, outer.context) == (0xC2, 0xC1)


def test_created_context_becomes_the_threads_own(executor, driver):
    executor.run_setup(call("cuCtxCreate_v2", [0x10, 0, 0], "setup", outputs={"pctx": u64(0xC3)}))
    executor.make(call("cuCtxSynchronize", []))
    assert driver.last("cuCtxSetCurrent") == [0x1000]


def test_contexts_are_destroyed_when_none_is_current(executor, driver):
    """ffmpeg pops each context that it makes, and destroys them one after the other."""
    for context in (0xC1, 0xC2):
        executor.run_setup(call("cuCtxCreate_v2", [0x10, 0, 0], "setup", outputs={"pctx": u64(context)}))
        executor.run_setup(call("cuCtxPopCurrent_v2", [0x10], "setup", outputs={"pctx": u64(context)}))
    both = [executor.prepare(call("cuCtxDestroy_v2", [context])) for context in (0xC2, 0xC1)]
    assert [destroyed.context for destroyed in both] == [0xC2, 0]


def test_settled_windows_look_up_only_what_they_make_themselves(executor, driver):
    executor.run_setup(call("cuStreamCreate", [0x10, 1], "setup", outputs={"phStream": u64(0x51)}))
    window = [
        executor.prepare(call("cuEventCreate", [0x10, 0], outputs={"phEvent": u64(0xE1)})),
        executor.prepare(call("cuEventRecord", [0xE1, 0x51])),
        executor.prepare(call("cuMemsetD32_v2", [BASE + 8, 7, 16])),
    ]
    executor.settle(window)
    assert [late[:3] for late in window[1].late_arguments] == [(0, "CUevent", 0xE1)]
    for _ in range(2):  # a new event each time, the same stream
        for prepared in window:
            executor.run(prepared)
    records = [words for name, words in driver.calls if name == "cuEventRecord"]
    assert records == [[0x1010, 0x1000], [0x1020, 0x1000]]
    assert driver.last("cuMemsetD32_v2") == [LIVE + 8, 7, 16]
