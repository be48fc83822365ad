"""Raw capture -> snapshot: the shortest setup, calls in their order, honest about everything that is missing."""

from __future__ import annotations

import json

import pytest

from replay.api.vocabulary import NoteCode
from replay.errors import FileError, FormatError
from replay.pack import pack
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Contents

from ..helpers.packed import A, Packed, noise, open_window_on_a
from ..helpers.raw_writer import (
    CONTEXT,
    FUNCTION,
    MODULE,
    PTX,
    STREAM,
    THREAD,
    RawWriter,
    scale_capture,
    word,
)


def test_one_launch_becomes_a_whole_snapshot(folder):
    before, after = noise(700_001), noise(700_001, 2)
    writer = scale_capture(folder, before=before, after=after, address=A)
    writer.close()
    packed = Packed(folder)
    (item,) = packed.ranges
    assert (item.kind, item.address, item.size_bytes, item.context) == ("device", A, 700_001, CONTEXT)
    assert (item.born_call, item.died_call) == (None, None)
    assert packed.bytes == {(1, "before"): before, (1, "after"): after}
    assert packed.symbols("window") == ["cuLaunchKernel"]
    assert packed.symbols("setup") == [
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuModuleLoadData",
        "cuModuleGetFunction",
    ]
    (kernel,) = packed.kernels
    assert (kernel.name, kernel.launches, kernel.grid, kernel.block) == ("scale", 1, [4, 1, 1], [128, 1, 1])
    assert [(slot.offset_bytes, slot.size_bytes) for slot in kernel.parameters] == [(0, 8), (8, 4)]
    assert packed.images[0].kind == "ptx"
    assert packed.images[0].digest == kernel.image == packed.calls[3].inputs["image"]
    assert packed.kinds == [
        "header", "environment", "image", "kernel", "call", "range", "census", "note", "summary",
    ]  # fmt: skip
    assert (packed.summary.state, packed.summary.launches, packed.summary.window_calls) == ("complete", 1, 1)
    assert packed.environment.driver_version == 13000
    assert packed.environment.devices[0].compute_capability == "9.0"


def test_setup_leaves_out_what_is_dead_or_unused(folder):
    writer = RawWriter(folder)
    writer.start()
    other = PTX.replace(b"scale", b"other")
    writer.call("cuModuleLoadData", [0x1, 0x2], {"image": other}, {"module": word(0xD1)})
    writer.call("cuModuleGetFunction", [0x1, 0xD1, 0x2], {"name": b"other"}, {"hfunc": word(0xF1)})
    writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(STREAM)})
    writer.call("cuStreamDestroy_v2", [STREAM])
    used = writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(STREAM)})  # the handle again
    writer.call("cuStreamCreate", [0x1, 1], outputs={"phStream": word(0x52)})
    writer.call("cuStreamCreate", [0x1, 1], result=2)
    writer.call("cuEventCreate", [0x1, 0], outputs={"phEvent": word(0xE0)})
    for value in range(5):
        last = writer.call("cuFuncSetAttribute", [FUNCTION, 8, value])
    carveout = writer.call("cuFuncSetAttribute", [FUNCTION, 9, 50])
    writer.call("cuFuncSetAttribute", [0xF1, 8, 1])
    limit = writer.call("cuCtxSetLimit", [0, 4096])
    writer.allocate(A, 4096)
    writer.open_window()
    writer.launch(word(A), [(0, 8)], stream=STREAM)
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    setup = [call.number for call in packed.calls if call.section == "setup"]
    assert setup == [1, 2, 3, 4, 5, used, last, carveout, limit]
    assert len(packed.images) == 1


def test_objects_of_a_destroyed_context_or_module_are_gone(folder):
    writer = RawWriter(folder)
    writer.process(pid=77)
    writer.call("cuInit", [0])
    writer.call("cuCtxCreate_v2", [0x1, 0, 0], outputs={"pctx": word(0xC1)})
    writer.call("cuModuleLoadData", [0x1, 0x2], {"image": PTX}, {"module": word(MODULE)})
    writer.call("cuModuleGetFunction", [0x1, MODULE, 0x2], {"name": b"scale"}, {"hfunc": word(FUNCTION)})
    writer.call("cuCtxDestroy_v2", [0xC1])
    create = writer.call("cuCtxCreate_v2", [0x1, 0, 0], outputs={"pctx": word(0xC2)})
    load = writer.call("cuModuleLoadData", [0x1, 0x2], {"image": PTX}, {"module": word(MODULE)})
    get = writer.call(
        "cuModuleGetFunction", [0x1, MODULE, 0x2], {"name": b"scale"}, {"hfunc": word(FUNCTION)}
    )
    writer.open_window()
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    setup = [call.number for call in Packed(folder).calls if call.section == "setup"]
    assert setup == [1, create, load, get]


def test_current_contexts_are_brought_about_for_creation_and_for_the_window(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.call("cuDevicePrimaryCtxRetain", [0x1, 1], outputs={"pctx": word(0xC9)})
    writer.call("cuCtxSetCurrent", [0xC9])
    writer.call("cuStreamCreate", [0x1, 0], outputs={"phStream": word(STREAM)})
    back = writer.call("cuCtxSetCurrent", [CONTEXT])
    second = writer.call("cuCtxSetCurrent", [CONTEXT], thread=2)
    writer.open_window()
    writer.launch(b"", [], stream=STREAM, thread=2)
    writer.call("cuStreamSynchronize", [STREAM])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    current = [
        (call.thread, call.arguments[0], call.number)
        for call in packed.calls
        if call.function == "cuCtxSetCurrent"
    ]
    assert current == [(THREAD, CONTEXT, 3), (THREAD, 0xC9, 7), (2, CONTEXT, second), (THREAD, CONTEXT, back)]
    order = packed.symbols("setup")
    assert order.index("cuStreamCreate") == len(order) - 3


def test_kernels_of_a_library_are_found_through_its_handles(folder):
    writer = RawWriter(folder)
    writer.start(kernel="unused")
    writer.call("cuLibraryLoadData", [0x1, 0x2, 0, 0, 0, 0, 0, 0], {"code": PTX}, {"library": word(0x71)})
    writer.call("cuLibraryGetKernel", [0x1, 0x71, 0x2], {"name": b"scale"}, {"pKernel": word(0x72)})
    writer.call("cuKernelGetFunction", [0x1, 0x72], outputs={"pFunc": word(0x73)})
    writer.open_window()
    number = writer.call(
        "cuLaunchKernel", [0x73, 1, 1, 1, 1, 1, 1, 0, 0, 0x3, 0], {"kernelParams.0": word(A)}
    )
    writer.call("cuLaunchKernel", [0x72, 1, 1, 1, 1, 1, 1, 0, 0, 0x3, 0], {"kernelParams.0": word(A)})
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert [(kernel.name, kernel.launches) for kernel in packed.kernels] == [("scale", 2)]
    # The layout was not recorded, so the image says it.
    assert [slot.size_bytes for slot in packed.kernels[0].parameters] == [8, 4]
    assert packed.symbols("setup")[-3:] == ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"]
    assert packed.summary.opened_call == number


def test_application_killed_inside_a_call_of_the_window(folder):
    writer, _ = open_window_on_a(folder)
    writer.enter("cuCtxSynchronize", [])
    writer.kill()
    packed = Packed(folder)
    assert packed.summary.state == "truncated"
    assert "cuCtxSynchronize" in packed.summary.state_text
    assert packed.symbols("window") == ["cuLaunchKernel", "cuCtxSynchronize"]
    assert [call.result for call in packed.calls][-2:] == [0, None]
    assert "CALL_IN_FLIGHT" in packed.codes()
    assert packed.ranges[0].after is None


@pytest.mark.parametrize(
    ("status", "flying", "state"),
    [(0, False, "complete"), (3, False, "complete"), (0, True, "truncated"), (-9, False, "truncated")],
)
def test_a_program_that_exits_without_a_word_is_whole(folder, status, flying, state):
    """As Go does, and `_exit`; unless a thread was in the middle of a call."""
    writer, _ = open_window_on_a(folder)
    if flying:
        writer.enter("cuCtxSynchronize", [])
    writer.kill()
    (folder / "launcher.json").write_text(json.dumps({"pid": writer.pid, "exit_status": status}))
    packed = Packed(folder)
    assert packed.summary.state == state
    assert bool(packed.summary.state_text) is (state == "truncated")


def test_every_cut_of_a_capture_packs_or_has_no_window(folder):
    writer = scale_capture(folder, before=noise(5000), after=noise(5000, 2))
    writer.close()
    whole = writer.path.read_bytes()
    launched = 0
    for cut in [*writer.offsets, *(offset + 20 for offset in writer.offsets)]:
        writer.path.write_bytes(whole[:cut])
        packed = Packed(folder)
        if packed.report.snapshots:
            assert packed.summary.state == "truncated"
            launched += packed.summary.launches
    assert launched > 0


def test_calls_of_threads_stand_in_the_order_in_which_they_began(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.open_window()
    slow = writer.enter("cuStreamSynchronize", [0], thread=1)
    quick = [writer.call("cuMemsetD8_v2", [A, 0, 4], thread=2) for _ in range(3)]
    writer.leave("cuStreamSynchronize", slow, thread=1)
    late = writer.enter("cuStreamSynchronize", [0], thread=1)
    writer.call("cuMemsetD8_v2", [A, 0, 4], thread=2)
    writer.leave("cuStreamSynchronize", late, thread=1)
    writer.close_window()
    writer.close()
    window = [call for call in Packed(folder).calls if call.section == "window"]
    assert [call.number for call in window] == [slow, *quick, late, late + 1]
    assert all(call.result == 0 and call.leave_ns > call.enter_ns for call in window)


def test_attachments_are_inline_when_small_and_chunks_when_large(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 1 << 20)
    writer.open_window()
    large = noise(600_000)
    writer.call("cuMemcpyHtoD_v2", [A, 0x9, 600_000], {"srcHost": large})
    writer.call("cuMemcpyHtoD_v2", [A, 0x9, 4096], {"srcHost": large[:4096]})
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    first, second = [call.inputs["srcHost"] for call in packed.calls if call.section == "window"]
    assert isinstance(first, Contents)
    assert second == large[:4096]
    with Snapshot(packed.path) as snapshot:
        assert snapshot.read(first, 1 << 20) == large


def test_each_process_with_a_window_has_a_snapshot(folder):
    for pid in (500, 501, 502):
        writer = RawWriter(folder, pid)
        writer.start()
        if pid != 500:
            writer.open_window()
            writer.launch(word(pid), [(0, 8)])
            writer.close_window()
        writer.close()
    (folder / "launcher.json").write_text(
        json.dumps({"pid": 502, "command": ["app", "a b"], "selection": "--kernel scale", "exit_status": -9})
    )
    packed = Packed(folder)
    assert [item.pid for item in packed.report.snapshots] == [502, 501]
    assert [item.path.name for item in packed.report.snapshots] == ["x.rsnap", "x.501.rsnap"]
    assert packed.environment.command == ["app", "a b"]
    assert packed.environment.exit_status == -9
    assert packed.summary.selection == "--kernel scale"
    with Snapshot(packed.report.snapshots[1].path) as other:
        assert other.environment().exit_status is None
    assert len(packed.report.skipped) == 1


def test_capture_without_a_window_gives_no_file_and_says_what_was_seen(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.note(NoteCode.LAUNCH_MATCHED, "1 scale")
    writer.note(NoteCode.NO_WINDOW, "1 launches matched")
    writer.close()
    packed = Packed(folder)
    assert not packed.path.exists()
    assert packed.report.matched_launches == 1
    assert packed.report.kernels_seen == ["scale"]
    assert packed.report.used_cuda


def test_functions_that_cannot_be_replayed_are_noted(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.open_window()
    for _ in range(3):
        writer.call("cuLaunchHostFunc", [0, 1, 2])
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    notes = [note for note in Packed(folder).notes if note.code == "UNSUPPORTED_CALL"]
    assert [note.function for note in notes] == ["cuLaunchHostFunc"]


def test_damaged_record_keeps_what_comes_before(folder):
    writer = scale_capture(folder, before=noise(5000), after=noise(5000, 2))
    writer.call("cuCtxSynchronize", [])
    writer.close()
    data = bytearray(writer.path.read_bytes())
    data[writer.offsets[-3] + 20] ^= 4
    writer.path.write_bytes(data)
    packed = Packed(folder)
    assert packed.summary.state == "damaged"
    assert str(writer.offsets[-3]) in packed.summary.state_text
    assert packed.bytes[1, "after"] == noise(5000, 2)


def test_what_is_no_raw_capture_is_refused(tmp_path):
    with pytest.raises(FileError, match="no such raw capture"):
        pack(tmp_path / "missing.rcap", tmp_path / "x.rsnap")
    (tmp_path / "file").write_text("text")
    with pytest.raises(FileError, match="is no folder"):
        pack(tmp_path / "file", tmp_path / "x.rsnap")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="not a raw capture"):
        pack(tmp_path / "empty", tmp_path / "x.rsnap")
