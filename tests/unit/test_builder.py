"""Raw capture -> snapshot: exact contents, the shortest setup, honest about everything that is missing."""

from __future__ import annotations

import json
import random
import struct
import sys
from pathlib import Path

import pytest

from replay.api.vocabulary import Moment, NoteCode
from replay.errors import FileError, FormatError
from replay.snapshot.builder import pack
from replay.snapshot.contents import Snapshot
from replay.snapshot.contents_writer import changed_bytes
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Census, Contents, from_wire

sys.path.insert(0, str(Path(__file__).resolve().parent))

from raw_writer import (  # noqa: E402
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

A, B, C = 0x10_0000_0000, 0x10_4000_0000, 0x10_8000_0000


class Packed:
    """Everything that stands in a snapshot."""

    def __init__(self, folder, output=None):
        self.path = output or folder.with_suffix(".rsnap")
        self.report = pack(folder, self.path)
        if not self.report.snapshots:
            return
        with Snapshot(self.path) as snapshot:
            self.calls = list(snapshot.calls())
            self.ranges = list(snapshot.ranges())
            self.notes = list(snapshot.notes())
            self.kernels = list(snapshot.kernels())
            self.images = list(snapshot.images())
            self.environment, self.summary = snapshot.environment(), snapshot.summary()
            self.census = [from_wire(Census, item) for item in snapshot.reader.objects("census")]
            self.bytes = {
                (item.id, moment): snapshot.read(contents, 1 << 30)
                for item in self.ranges
                for moment in ("before", "after")
                if (contents := getattr(item, moment)) is not None
            }
            kinds = [kind for kind, _ in snapshot.reader.iter_objects() if kind != "chunk"]
            self.kinds = list(dict.fromkeys(kinds))

    def symbols(self, section):
        return [call.function for call in self.calls if call.section == section]

    def codes(self):
        return [note.code for note in self.notes]

    def words(self, kind, site):
        packed = b"".join(item.words for item in self.census if (item.kind, item.site) == (kind, site))
        return [entry[:3] for entry in struct.iter_unpack("<QQII", packed)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "x.rcap"


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


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


def test_unchanged_chunks_are_stored_once_and_zeros_never(folder):
    size = 8 * CHUNK_BYTES
    before = noise(3 * CHUNK_BYTES) + bytes(size - 3 * CHUNK_BYTES)
    after = before[:CHUNK_BYTES] + b"!" + before[CHUNK_BYTES + 1 :]
    writer = scale_capture(folder, before=before, after=after)
    writer.close()
    packed = Packed(folder)
    assert packed.summary.stored_bytes == 4 * CHUNK_BYTES + len(PTX)
    assert packed.summary.written_bytes == CHUNK_BYTES
    assert packed.ranges[0].before.digests.endswith(ZERO_DIGEST * 5)
    assert packed.bytes[1, "after"] == after


@pytest.mark.parametrize("piece", [CHUNK_BYTES, 3 * CHUNK_BYTES, CHUNK_BYTES - 8, 4096, 1000])
def test_pieces_of_any_size_join_to_the_allocation(folder, piece):
    size = 5 * CHUNK_BYTES + 123
    content = noise(2 * CHUNK_BYTES) + bytes(2 * CHUNK_BYTES) + noise(CHUNK_BYTES + 123, 3)
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, size)
    number = writer.open_window()
    for offset in range(0, size, piece):
        part = content[offset : offset + piece]
        writer.contents(A, part, Moment.BEFORE, number, offset=offset, allocation_bytes=size)
    writer.launch(word(A), [(0, 8)])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert packed.bytes == {(1, "before"): content}
    same = scale_capture(folder.with_name("y.rcap"), before=content, after=content)
    same.close()
    assert Packed(same.folder).ranges[0].before == packed.ranges[0].before, "digests depend on the pieces"


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


def test_census_finds_pointers_in_contents_and_parameters(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    writer.allocate(B, 1 << 20)
    table = bytearray(noise(4096))
    table[64:72], table[72:80], table[80:88] = word(B), word(B + (1 << 20) - 1), word(B + (1 << 20))
    table[88:96] = word(A + 4096)  # just behind the lower range
    table[100:108] = word(B)  # not aligned
    far = bytearray(1 << 20)
    far[600_000:600_008] = word(A + 4088)
    number = writer.open_window()
    writer.contents(A, bytes(table), Moment.BEFORE, number)
    writer.contents(B, bytes(far), Moment.BEFORE, number)
    writer.launch(word(7) + word(A + 16) + word(B) + word(A + 4096), [(0, 8), (8, 8), (16, 8), (24, 8)])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert packed.words("call", number) == [(8, 16, 1), (16, 0, 2), (24, 4096, 1)]  # the last is the end of A
    assert packed.words("range", 1) == [(64, 0, 2), (72, (1 << 20) - 1, 2), (80, 1 << 20, 2), (88, 4096, 1)]
    assert packed.words("range", 2) == [(600_000, 4088, 1)]
    assert packed.summary.census_words == 8


def test_address_used_again_inside_the_window_gives_two_ranges(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    number = writer.open_window()
    writer.contents(A, b"a" * 4096, Moment.BEFORE, number)
    writer.launch(word(A), [(0, 8)])
    writer.contents(A, b"b" * 4096, Moment.AFTER, number)
    free = writer.enter("cuMemFree_v2", [A])
    # Another thread gets the address before the answer of the free is on file.
    born = writer.enter("cuMemAlloc_v2", [0x1, 8192], thread=2)
    writer.leave("cuMemAlloc_v2", born, 0, {"dptr": word(A)}, thread=2)
    writer.leave("cuMemFree_v2", free)
    second = writer.number + 1
    writer.contents(A, b"c" * 8192, Moment.BEFORE, second)
    writer.launch(word(A), [(0, 8)])
    writer.contents(A, b"d" * 8192, Moment.AFTER, second)
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert [(r.size_bytes, r.born_call, r.died_call) for r in packed.ranges] == [
        (4096, None, free),
        (8192, born, None),
    ]
    assert packed.bytes[1, "after"] == b"b" * 4096
    assert packed.bytes[2, "before"] == b"c" * 8192
    assert packed.words("call", number) == [(0, 0, 1)]
    assert packed.words("call", second) == [(0, 0, 2)]


def test_globals_and_host_memory_have_their_kinds(folder):
    writer = RawWriter(folder)
    writer.start()
    get = writer.call(
        "cuModuleGetGlobal_v2", [0, 0, MODULE, 0x2], {"name": b"table"}, {"name.1": word(B) + word(256)}
    )
    writer.call("cuMemHostAlloc", [0x1, 4096, 2], outputs={"pp": word(C)})
    writer.call("cuMemHostRegister_v2", [C + 8192, 100, 1])
    writer.call("cuMemHostGetDevicePointer_v2", [0x1, C + 8192, 0], outputs={"pdptr": word(A + 64)})
    number = writer.open_window()
    for base, size in ((B, 256), (C, 4096), (C + 8192, 100)):
        writer.contents(base, b"x" * size, Moment.BEFORE, number)
    writer.launch(word(C) + word(A + 100), [(0, 8), (8, 8)])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    found = [(r.kind, r.name, r.owner, r.host_flags, r.size_bytes) for r in packed.ranges]
    assert found == [
        ("global", "table", MODULE, 0, 256),
        ("host", "", 0, 2, 4096),
        ("registered", "", 0, 1, 100),
    ]
    assert [(r.address, r.host_address) for r in packed.ranges[1:]] == [(C, 0), (A + 64, C + 8192)]
    assert packed.words("call", number) == [(0, 0, 2), (8, 36, 3)]
    assert get in [call.number for call in packed.calls if call.section == "setup"]


def test_variables_that_no_call_named_are_noted(folder):
    image = PTX.replace(
        b".visible", b".global .align 4 .b8 hidden[16];\n.global .align 4 .b8 named[16];\n.visible"
    )
    writer = RawWriter(folder)
    writer.start(image=image)
    writer.call("cuModuleGetGlobal_v2", [0, 0, MODULE, 2], {"name": b"named"}, {"name.1": word(B) + word(16)})
    writer.open_window()
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    (note,) = [note for note in Packed(folder).notes if note.code == "INCOMPLETE_GLOBALS"]
    assert "hidden" in note.text
    assert "named" not in note.text


def ask_by_capture(writer, owner, name, address, context=CONTEXT):
    """What the interposer records when it looks for a variable itself."""
    arguments = [context, 0, owner, 2]
    number = writer.enter("cuModuleGetGlobal_v2", arguments, {"name": name}, by_capture=True)
    writer.leave("cuModuleGetGlobal_v2", number, outputs={"name.1": word(address) + word(16)})
    return number


def test_variables_that_capture_asked_for_are_memory_and_no_calls_of_the_application(folder):
    image = PTX.replace(b".visible", b".global .align 4 .b8 hidden[16];\n.visible")
    writer = RawWriter(folder)
    writer.start(image=image)
    number = writer.open_window()
    ask_by_capture(writer, MODULE, b"hidden", B)
    writer.contents(B, b"h" * 16, Moment.BEFORE, number)
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert packed.symbols("window") == ["cuLaunchKernel"]
    assert packed.summary.window_calls == 1
    assert not [note for note in packed.notes if note.code == "INCOMPLETE_GLOBALS"]
    (variable,) = packed.ranges
    assert (variable.kind, variable.name, variable.owner, variable.context) == (
        "global",
        "hidden",
        MODULE,
        CONTEXT,
    )
    assert (variable.born_call, variable.died_call) == (None, None)


def test_variables_of_a_module_that_the_window_loads_are_asked_for_in_the_replay(folder):
    """In the context that the interposer says, not the one that was current in the thread."""
    image = PTX.replace(b".visible", b".global .align 4 .b8 hidden[16];\n.visible")
    other = CONTEXT + 0x100
    writer = RawWriter(folder)
    writer.start(image=image)
    writer.call("cuCtxCreate_v2", [1, 0, 0], outputs={"pctx": word(other)})
    writer.call("cuCtxSetCurrent", [CONTEXT])
    writer.open_window()
    load = writer.call("cuModuleLoadData", [1, 2], {"image": image}, {"module": word(MODULE + 8)})
    asked = ask_by_capture(writer, MODULE + 8, b"hidden", B, other)
    writer.contents(B, b"h" * 16, Moment.BEFORE, asked)
    writer.launch(b"", [])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    kept = [call for call in packed.calls if call.by_capture]
    assert [(call.number, call.function, call.arguments[0]) for call in kept] == [
        (asked, "cuModuleGetGlobal_v2", other)
    ]
    assert [(item.name, item.born_call, item.context) for item in packed.ranges] == [("hidden", load, other)]


def test_application_killed_inside_a_call_of_the_window(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    number = writer.open_window()
    writer.contents(A, b"a" * 4096, Moment.BEFORE, number)
    writer.launch(word(A), [(0, 8)])
    writer.enter("cuCtxSynchronize", [])
    writer.kill()
    packed = Packed(folder)
    assert packed.summary.state == "truncated"
    assert "cuCtxSynchronize" in packed.summary.state_text
    assert packed.symbols("window") == ["cuLaunchKernel", "cuCtxSynchronize"]
    assert [call.result for call in packed.calls][-2:] == [0, None]
    assert "CALL_IN_FLIGHT" in packed.codes()
    assert packed.ranges[0].after is None


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


def test_contents_that_are_incomplete_or_damaged_are_left_out_with_a_reason(folder):
    writer = RawWriter(folder)
    writer.start()
    for base in (A, B, C):
        writer.allocate(base, 8192)
    number = writer.open_window()
    writer.contents(A, b"a" * 4096, Moment.BEFORE, number, allocation_bytes=8192)
    writer.contents(B, b"b" * 8192, Moment.BEFORE, number, check=1)
    writer.contents(C, b"c" * 8192, Moment.BEFORE, number)
    writer.launch(word(A) + word(B) + word(C), [(0, 8), (8, 8), (16, 8)])
    writer.close_window()
    writer.close()
    packed = Packed(folder)
    assert packed.bytes == {(3, "before"): b"c" * 8192}
    texts = [note.text for note in packed.notes if note.code == "MEMORY_NOT_READ"]
    assert len(texts) == 2
    assert "4096 of 8192" in texts[0]
    assert "checksum" in texts[1]


def test_memory_that_could_not_be_copied_is_still_a_range(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    number = writer.open_window()
    writer.note(NoteCode.MEMORY_SKIPPED, "4096 bytes: the limit is reached", number)
    writer.launch(word(A + 100), [(0, 8)])
    writer.close_window()
    writer.close()
    (item,) = (packed := Packed(folder)).ranges
    assert (item.address, item.before, item.after) == (A, None, None)
    assert packed.words("call", number) == [(0, 100, 1)]
    assert packed.summary.notes["MEMORY_SKIPPED"] == 1


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


def test_damaged_record_keeps_what_stands_before(folder):
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


def test_changed_bytes_counts_chunks_that_differ():
    one, two = b"1" * 16, b"2" * 16
    before = Contents(2 * CHUNK_BYTES + 5, one + one + one)
    assert changed_bytes(before, before) == 0
    assert changed_bytes(before, Contents(2 * CHUNK_BYTES + 5, one + two + two)) == CHUNK_BYTES + 5
    assert changed_bytes(None, before) == 2 * CHUNK_BYTES + 5
    assert changed_bytes(before, None) == 0
