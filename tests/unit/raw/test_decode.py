"""Records become calls: joined across threads, attachments by name, nothing trusted."""

from __future__ import annotations

import struct

import pytest

from replay.api.vocabulary import Moment, NoteCode, RecordKind
from replay.errors import DamagedError
from replay.raw.attachments import BlobsFile
from replay.raw.decode import Decoder
from replay.raw.events import Entered, Left, ProcessText, RawContents, RawNote
from replay.raw.records import RawFile

from ..helpers.raw_writer import RawWriter, word


def events(writer):
    with RawFile(writer.path) as raw:
        decoder = Decoder(raw)
        return list(decoder.events()), decoder


def test_enter_and_leave_are_joined_across_threads(tmp_path):
    writer = RawWriter(tmp_path)
    slow = writer.enter("cuStreamSynchronize", [1], thread=1)
    quick = writer.enter("cuMemsetD8_v2", [0x1000, 7, 64], thread=2)
    writer.leave("cuMemsetD8_v2", quick, 0, thread=2)
    writer.leave("cuStreamSynchronize", slow, 700, thread=1)
    writer.close()
    found, decoder = events(writer)
    assert [type(event) for event in found] == [Entered, Entered, Left, Left]
    assert found[2].call is found[1].call
    assert (found[3].call.result, found[3].call.thread, found[3].call.arguments) == (700, 1, (1,))
    assert not decoder.open_calls
    assert decoder.ending.state == "complete"


def test_attachments_bear_the_names_of_parameters_and_numbered_parts(tmp_path):
    writer = RawWriter(tmp_path)
    writer.call(
        "cuModuleLoadDataEx",
        [0x10, 0x20, 1, 0x30, 0x40],
        {"image": b"i" * 5000, "options": struct.pack("<I", 5), "optionValues": word(9), "image.1": b"more"},
        {"module": word(0xD0)},
    )
    writer.call(
        "cuLaunchKernel", [1] * 11, {"kernelParams.0": b"abcd", "kernelParams.1": struct.pack("<II", 0, 4)}
    )
    writer.close()
    found, _ = events(writer)
    load, launch = found[0].call, found[2].call
    assert list(load.inputs) == ["image", "options", "optionValues", "image.1"]
    assert load.inputs["image"].data is None
    assert load.inputs["image"].length == 5000
    assert load.output_word("module") == 0xD0
    assert load.output_word("image") is None
    assert launch.inputs["kernelParams.0"].data == b"abcd"
    assert launch.argument("gridDimX") == 1
    with BlobsFile(writer.blobs.name) as blobs:
        assert blobs.read_attachment(load.inputs["image"]) == b"i" * 5000


def test_per_thread_twin_is_the_same_function_with_a_mark(tmp_path):
    writer = RawWriter(tmp_path)
    writer.enter("cuMemsetD8_v2", [0x1000, 7, 64], per_thread=True)
    writer.close()
    found, decoder = events(writer)
    assert found[0].call.per_thread
    assert found[0].call.function.symbol == "cuMemsetD8_v2"
    assert list(decoder.open_calls) == [1]


def test_end_without_a_reason_to_stop_is_complete_and_a_stop_is_truncated(tmp_path):
    for reason, state in ((0, "complete"), (1, "truncated")):
        writer = RawWriter(tmp_path / f"{reason}", pid=reason + 1)
        writer.call("cuInit", [0])
        writer.close(reason)
        assert events(writer)[1].ending.state == state


def test_killed_process_leaves_its_last_call_open(tmp_path):
    writer = RawWriter(tmp_path)
    writer.call("cuInit", [0])
    writer.enter("cuCtxSynchronize", [])
    writer.kill()
    _, decoder = events(writer)
    assert decoder.ending.state == "truncated"
    assert [call.function.symbol for call in decoder.open_calls.values()] == ["cuCtxSynchronize"]
    assert decoder.last_call == 2


def test_notes_process_texts_and_contents(tmp_path):
    writer = RawWriter(tmp_path)
    writer.process(pid=77, command="a=b c")
    writer.note(NoteCode.MEMORY_NOT_READ, "öops", call=3)
    writer.record(RecordKind.NOTE, struct.pack("<II", 999, 0))
    writer.contents(0x1000, b"x" * 100, Moment.AFTER, 5, offset=8, allocation_bytes=200)
    writer.contents(0x1000, bytes(100), Moment.BEFORE, 5)
    writer.close()
    process, note, newer, contents, zeros = events(writer)[0]
    assert process == ProcessText({"pid": "77", "command": "a=b c"})
    assert note == RawNote("MEMORY_NOT_READ", "öops", 3, "")
    assert newer.code == "NOTE_999"
    assert isinstance(contents, RawContents)
    assert (contents.address, contents.length, contents.allocation_bytes) == (0x1008, 100, 200)
    assert contents.moment == Moment.AFTER
    assert zeros.blob_offset is None


ENTER_CUINIT = struct.pack("<Q", 0)
MALFORMED = {
    "parameter out of range": (RecordKind.ENTER, 1, ENTER_CUINIT + struct.pack("<HBBIQ", 9, 0, 0, 0, 0)),
    "bytes beyond the record": (RecordKind.ENTER, 1, ENTER_CUINIT + struct.pack("<HBBIQ", 0, 0, 0, 0, 4096)),
    "huge length": (RecordKind.ENTER, 1, ENTER_CUINIT + struct.pack("<HBBIQQ", 0, 0, 1, 0, 1 << 63, 0)),
    "unknown storage": (RecordKind.ENTER, 1, ENTER_CUINIT + struct.pack("<HBBIQ", 0, 0, 7, 0, 0)),
    "arguments missing": (RecordKind.ENTER, 150, b""),
    "contents outside": (RecordKind.BLOB, 0, struct.pack("<QQQQQII", 0x900, 16, 0, 0x1000, 64, 0, 0)),
    "contents past the end": (RecordKind.BLOB, 0, struct.pack("<QQQQQII", 0x1000, 65, 0, 0x1000, 64, 0, 0)),
    "contents that wrap": (
        RecordKind.BLOB,
        0,
        struct.pack("<QQQQQII", 2**64 - 8, 16, 0, 2**64 - 8, 16, 0, 0),
    ),
    "unknown moment": (RecordKind.BLOB, 0, struct.pack("<QQQQQII", 0x1000, 16, 0, 0x1000, 64, 99, 0)),
    "short note": (RecordKind.NOTE, 0, b""),
    "end without reason": (RecordKind.END, 0, b""),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_record_that_makes_no_sense_ends_the_reading_there(tmp_path, case):
    kind, function, payload = MALFORMED[case]
    writer = RawWriter(tmp_path)
    writer.call("cuInit", [0])
    writer.record(kind, payload, function=function, call=9)
    writer.call("cuInit", [0])
    writer.close()
    found, decoder = events(writer)
    assert len(found) == 2
    assert (decoder.ending.state, decoder.ending.offset) == ("damaged", writer.offsets[2])


def test_functions_of_a_newer_shim_are_counted_not_fatal(tmp_path):
    writer = RawWriter(tmp_path)
    writer.record(RecordKind.ENTER, b"", function=0x7FFE, call=1)
    writer.record(RecordKind.LEAVE, struct.pack("<iI", 0, 0), function=0x7FFE, call=1)
    writer.call("cuInit", [0])
    writer.close()
    found, decoder = events(writer)
    assert len(found) == 2
    assert decoder.unknown_functions == 1


def test_blob_that_is_cut_or_damaged_is_said_so(tmp_path):
    writer = RawWriter(tmp_path)
    writer.call("cuModuleLoadData", [0x10, 0x20], {"image": b"i" * 5000})
    writer.close()
    found, _ = events(writer)
    attachment = found[0].call.inputs["image"]
    path = tmp_path / "blobs.77.bin"
    data = path.read_bytes()
    path.write_bytes(data[:4000])
    with BlobsFile(path) as blobs, pytest.raises(DamagedError, match="ends before"):
        blobs.read_attachment(attachment)
    path.write_bytes(data[:100] + b"?" + data[101:])
    with BlobsFile(path) as blobs, pytest.raises(DamagedError, match="checksum"):
        blobs.read_attachment(attachment)
    path.unlink()
    with BlobsFile(path) as blobs, pytest.raises(DamagedError):
        blobs.read_attachment(attachment)
