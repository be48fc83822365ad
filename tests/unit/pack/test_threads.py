"""Calls of several threads: some are under way when a window opens, some end in another order than they began."""

from __future__ import annotations

from replay.api.vocabulary import Moment

from ..helpers.packed import A, B, Packed, noise
from ..helpers.raw_writer import CONTEXT, FUNCTION, MODULE, STREAM, RawWriter, word

OTHER = 502  # a thread


def started(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.call("cuCtxSetCurrent", [CONTEXT], thread=OTHER)
    return writer


def of_section(packed, section):
    return [call.number for call in packed.calls if call.section == section]


def test_an_object_that_is_being_made_when_the_window_opens_belongs_to_the_setup(folder):
    writer = started(folder)
    making = writer.enter("cuStreamCreate", [0x1, 1], thread=OTHER)
    writer.open_window()
    writer.leave("cuStreamCreate", making, outputs={"phStream": word(STREAM)}, thread=OTHER)
    launch = writer.launch(b"", [], stream=STREAM, thread=OTHER)
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert making in of_section(packed, "setup")
    assert of_section(packed, "window") == [launch]


def test_a_setting_that_is_being_changed_when_the_window_opens_belongs_to_the_setup(folder):
    writer = started(folder)
    first = writer.call("cuFuncSetAttribute", [FUNCTION, 8, 1])
    changing = writer.enter("cuFuncSetAttribute", [FUNCTION, 8, 2], thread=OTHER)
    writer.open_window()
    writer.leave("cuFuncSetAttribute", changing, thread=OTHER)
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    setup = of_section(Packed(folder), "setup")
    assert changing in setup
    assert first not in setup


def test_a_thread_that_is_taking_a_context_when_the_window_opens_has_it(folder):
    writer = RawWriter(folder)
    writer.start()
    taking = writer.enter("cuCtxSetCurrent", [CONTEXT], thread=OTHER)
    writer.open_window()
    writer.leave("cuCtxSetCurrent", taking, thread=OTHER)
    writer.launch(b"", [], thread=OTHER)
    writer.close_window()
    writer.close()
    setup = [call for call in Packed(folder).calls if call.section == "setup"]
    assert [(call.function, call.arguments) for call in setup if call.thread == OTHER] == [
        ("cuCtxSetCurrent", [CONTEXT])
    ]


def test_a_context_and_an_object_of_it_that_kernels_reach_by_handle(folder):
    """Both are made by calls that are under way when the window opens."""
    writer = RawWriter(folder)
    writer.start()
    making = writer.enter("cuCtxCreate_v2", [0x1, 0, 0], thread=OTHER)
    texture = writer.enter("cuTexObjectCreate", [0x1, 0x2, 0x3, 0])
    writer.open_window()
    writer.leave("cuCtxCreate_v2", making, outputs={"pctx": word(0xC9)}, thread=OTHER)
    writer.leave("cuTexObjectCreate", texture, outputs={"pTexObject": word(0x77)})
    writer.launch(word(0x77), [(0, 8)])
    stream = writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(STREAM)}, thread=OTHER)
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert {making, texture} <= set(of_section(packed, "setup"))
    assert stream in of_section(packed, "window")


def test_what_begins_in_one_window_and_ends_in_the_next_belongs_to_the_setup_of_that(folder):
    writer = started(folder)
    writer.open_window("launch 1")
    writer.launch(b"", [])
    making = writer.enter("cuStreamCreate", [0x1, 1], thread=OTHER)
    allocating = writer.enter("cuMemAlloc_v2", [0x1, 4096], thread=503)
    writer.close_window()
    writer.open_window("launch 2")
    writer.leave("cuStreamCreate", making, outputs={"phStream": word(STREAM)}, thread=OTHER)
    writer.leave("cuMemAlloc_v2", allocating, outputs={"dptr": word(A)}, thread=503)
    number = writer.number + 1
    writer.contents(A, noise(4096), Moment.BEFORE, number)
    writer.launch(word(A), [(0, 8)], stream=STREAM, thread=OTHER)
    writer.contents(A, noise(4096, 2), Moment.AFTER, number)
    writer.close_window()
    writer.close()
    first, second = Packed(folder, window=1), Packed(folder, window=2)
    assert of_section(first, "window") == [writer.number - 3, making, allocating]
    assert making in of_section(second, "setup")
    assert of_section(second, "window") == [number]
    assert [(item.address, item.born_call) for item in second.ranges] == [(A, None)]


def test_an_end_that_is_recorded_late_is_not_that_of_what_has_the_handle_again(folder):
    """One thread destroys a stream and loads no module any more; another gets the handles before that is recorded."""
    writer = started(folder)
    for handle in (STREAM, STREAM + 1):
        writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(handle)})
    ending = writer.enter("cuStreamDestroy_v2", [STREAM])
    made = writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(STREAM)}, thread=OTHER)
    writer.leave("cuStreamDestroy_v2", ending)
    unloading = writer.enter("cuModuleUnload", [MODULE])
    loaded = writer.call("cuModuleLoadData", [0x1, 0x2], {"image": b".version 8.0"}, {"module": word(MODULE)},
                         thread=OTHER)  # fmt: skip
    where = word(B) + word(8)
    names = {"name": b"table"}
    outputs = {"dptr": word(B), "bytes": word(8), "name.1": where}
    writer.call("cuModuleGetGlobal_v2", [0x1, 0x2, MODULE, 0x3], names, outputs, thread=OTHER)
    got = writer.call("cuModuleGetFunction", [0x1, MODULE, 0x2], {"name": b"scale"}, {"hfunc": word(FUNCTION)},
                      thread=OTHER)  # fmt: skip
    writer.leave("cuModuleUnload", unloading)
    number = writer.open_window()
    writer.contents(B, b"12345678", Moment.BEFORE, number)
    writer.launch(b"", [], stream=STREAM, thread=OTHER)
    writer.contents(B, b"12345679", Moment.AFTER, number)
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert {made, loaded, got} <= set(of_section(packed, "setup"))
    assert [(item.kind, item.name) for item in packed.ranges] == [("global", "table")]
