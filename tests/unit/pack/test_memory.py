"""Raw capture -> snapshot: exact contents of memory and variables, pointers, and reasons for what is missing."""

from __future__ import annotations

import pytest

from replay.api.vocabulary import Moment, NoteCode
from replay.pack.contents.writer import changed_bytes
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents

from ..helpers.packed import A, B, C, Packed, noise, open_window_on_a
from ..helpers.raw_writer import (
    CONTEXT,
    MODULE,
    PTX,
    RawWriter,
    scale_capture,
    word,
)


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


def test_census_finds_pointers_in_contents_and_parameters(folder):
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    writer.allocate(B, 1 << 20)
    table = bytearray(noise(4096))
    table[64:72], table[72:80], table[80:88] = word(B), word(B + (1 << 20) - 1), word(B + (1 << 20))
    table[88:96] = word(A + 4096)  # just past the lower range
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
    writer, number = open_window_on_a(folder)
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


def test_changed_bytes_counts_chunks_that_differ():
    one, two = b"1" * 16, b"2" * 16
    before = Contents(2 * CHUNK_BYTES + 5, one + one + one)
    assert changed_bytes(before, before) == 0
    assert changed_bytes(before, Contents(2 * CHUNK_BYTES + 5, one + two + two)) == CHUNK_BYTES + 5
    assert changed_bytes(None, before) == 2 * CHUNK_BYTES + 5
    assert changed_bytes(before, None) == 0
