"""Lengths in a raw capture that somebody made: what is read because of them is bounded by what its files hold."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.api.functions import by_symbol
from replay.api.vocabulary import Moment, RecordKind
from replay.errors import DamagedError
from replay.pack import pack
from replay.raw import attachments
from replay.raw.attachments import BlobsFile, RawAttachment
from replay.raw.checksum import crc32c

from ..helpers.packed import A, Packed, noise
from ..helpers.raw_writer import RawWriter, word

pytestmark = pytest.mark.timeout(120)
TERABYTE = 1 << 40


def blob(path: Path, content: bytes, hole_bytes: int = 0) -> BlobsFile:
    path.write_bytes(content)
    os.truncate(path, len(content) + hole_bytes)
    return BlobsFile(path)


def test_what_was_written_is_believed_however_often_it_is_asked_for(tmp_path: Path) -> None:
    with blob(tmp_path / "x", noise(8192)) as blobs:
        for _ in range(3):
            blobs.believe(0, 4096)
            blobs.believe(4096, 4096)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ([(0, 8193)], "ends before byte 8193"),
        ([(1 << 60, 1)], "ends before"),
        ([(0, 8192), (0, 8191)], "shorter than its blobs together"),
        ([(4096, 4096), (0, 4097)], "shorter than its blobs together"),
    ],
)
def test_blobs_are_not_longer_than_their_file(
    tmp_path: Path, asked: list[tuple[int, int]], reason: str
) -> None:
    *others, last = asked
    with blob(tmp_path / "x", noise(8192)) as blobs:
        for offset, length in others:
            blobs.believe(offset, length)
        with pytest.raises(DamagedError, match=reason):
            blobs.believe(*last)


def test_a_hole_is_no_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAXIMUM_HOLE_BYTES", 1 << 20)
    with blob(tmp_path / "x", noise(65536), TERABYTE) as blobs:
        blobs.believe(0, 65536)
        blobs.believe(32768, 1 << 20)  # a part of it is
        with pytest.raises(DamagedError, match="is a hole"):
            blobs.believe(65536, 1 << 20)
        with pytest.raises(DamagedError, match="is a hole"):
            blobs.believe(1 << 30, 1 << 39)


def test_what_is_read_as_one_piece_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise(8192)
    with blob(tmp_path / "x", data) as blobs:
        image = RawAttachment(len(data), None, 0, crc32c(data))
        assert blobs.read_attachment(image) == data
        monkeypatch.setattr(attachments, "MAXIMUM_WHOLE_BYTES", 8191)
        with pytest.raises(DamagedError, match="8191 are the most"):
            blobs.read_attachment(image)


def of_an_image(writer: RawWriter) -> None:
    add(writer, "cuModuleLoadData", [0x7008, 0x7010], "image", TERABYTE)


def of_host_memory(writer: RawWriter) -> None:
    add(writer, "cuMemcpyHtoD_v2", [A, 0x7000, TERABYTE], "srcHost", TERABYTE)


def of_memory(writer: RawWriter) -> None:
    values = (A, TERABYTE, 0, A, TERABYTE, Moment.BEFORE, 0)
    writer.record(RecordKind.BLOB, struct.pack("<QQQQQII", *values), call=writer.number + 1)


def of_zeros(writer: RawWriter) -> None:
    values = (A, 1 << 62, (1 << 64) - 1, A, 1 << 62, Moment.BEFORE, 0)
    writer.record(RecordKind.BLOB, struct.pack("<QQQQQII", *values), call=writer.number + 1)


def of_zeros_that_the_host_wrote(writer: RawWriter) -> None:
    values = (A, 1 << 62, (1 << 64) - 1, A, 1 << 62, Moment.CHANGED, 0)
    writer.record(RecordKind.BLOB, struct.pack("<QQQQQII", *values), call=writer.number + 1)


def of_a_copy(writer: RawWriter) -> None:
    head = struct.pack("<QQIIII", A, 1 << 62, 1, Moment.BEFORE, 3, 256 * 1024)
    writer.record(RecordKind.COPY, head, call=writer.number + 1)


def add(writer: RawWriter, symbol: str, arguments: list[int], name: str, length: int) -> None:
    """A call with an attachment of so many bytes, which are a hole of the blobs file."""
    position = [parameter.name for parameter in by_symbol()[symbol].parameters].index(name)
    writer.number += 1
    payload = struct.pack(f"<{len(arguments)}Q", *arguments) + struct.pack(
        "<HBBIQQ", position, 0, 1, 0, length, 0
    )
    writer.record(RecordKind.ENTER, payload, function=by_symbol()[symbol].id, call=writer.number)
    writer.leave(symbol, writer.number)


@pytest.mark.parametrize(
    "length", [of_an_image, of_host_memory, of_memory, of_zeros, of_zeros_that_the_host_wrote, of_a_copy]
)
def test_pack_takes_neither_memory_nor_time_for_a_length(
    tmp_path: Path, length: Callable[[RawWriter], None]
) -> None:
    """In a file of a terabyte that takes a few kilobytes."""
    writer = RawWriter(tmp_path / "x.rcap")
    writer.start()
    writer.allocate(A, TERABYTE)
    number = writer.open_window()
    length(writer)
    writer.launch(word(A) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    writer.contents(A, noise(256), Moment.AFTER, number, allocation_bytes=TERABYTE)
    writer.close_window()
    writer.close()
    os.truncate(writer.folder / "blobs.77.bin", TERABYTE)
    tracemalloc.start()
    try:
        pack(writer.folder, tmp_path / "x.rsnap")
        assert tracemalloc.get_traced_memory()[1] < 512 << 20
    finally:
        tracemalloc.stop()


def test_a_capture_whose_windows_begin_with_the_same_bytes_is_packed_whole(tmp_path: Path) -> None:
    """What is read more than once is in the file once."""
    writer = RawWriter(tmp_path / "x.rcap")
    writer.start()
    data = noise(300_000)
    writer.allocate(A, len(data))
    writer.call("cuMemcpyHtoD_v2", [A, 0x7000, len(data)], {"srcHost": data})
    number = writer.open_window()
    writer.call("cuMemcpyHtoD_v2", [A, 0x7000, len(data)], {"srcHost": data})
    writer.contents(A, data, Moment.BEFORE, number)
    writer.launch(word(A) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    writer.close_window()
    writer.close()
    packed = Packed(writer.folder)
    assert packed.bytes == {(1, "before"): data}
    assert "MEMORY_NOT_READ" not in packed.codes()
