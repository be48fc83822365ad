"""Raw record files: every ending, every damage, and nothing that is not checked."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from replay.api.vocabulary import Moment, NoteCode, RecordKind
from replay.errors import FileError, FormatError, VersionError
from replay.raw import checksum, records
from replay.raw.appending import Appender
from replay.raw.records import RawFile

from ..helpers.raw_writer import RawWriter, scale_capture


def read(path):
    """The offsets of all records that are given out, and the ending."""
    with RawFile(path) as raw:
        return [record.offset for record in raw.records()], raw.ending


@pytest.fixture
def small(tmp_path):
    """A whole capture, and the writer that knows where its records are."""
    writer = scale_capture(tmp_path / "x.rcap", before=bytes(range(64)), after=bytes(64))
    writer.close()
    return writer


def test_whole_file_gives_every_record(small):
    offsets, ending = read(small.path)
    assert offsets == small.offsets
    assert ending.offset == small.path.stat().st_size


def test_file_cut_at_any_byte_gives_every_record_before_the_cut(small):
    whole = small.path.read_bytes()
    for length in range(0, len(whole), 3):
        small.path.write_bytes(whole[:length])
        if 0 < length < 64:
            with pytest.raises(FormatError):
                read(small.path)
            continue
        offsets, ending = read(small.path)
        ends = [*small.offsets[1:], len(whole)]
        assert offsets == [start for start, end in zip(small.offsets, ends, strict=True) if end <= length]
        assert ending.state == "truncated"


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bit_is_damage_at_its_record_and_everything_before_is_usable(small, seed):
    whole = bytearray(small.path.read_bytes())
    record = random.Random(seed).randrange(len(small.offsets))
    start = small.offsets[record]
    end = [*small.offsets, len(whole)][record + 1]
    # After the size and the kind, whose damage shows as another sort of ending.
    position = random.Random(seed + 1000).randrange(start + 12, end)
    whole[position] ^= 1 << seed % 8
    small.path.write_bytes(whole)
    offsets, ending = read(small.path)
    assert ending.state == "damaged"
    assert ending.offset == start
    assert offsets == small.offsets[:record]


@pytest.mark.parametrize("size", [4, 12, 24, 31, records.WINDOW_BYTES + 8])
def test_size_that_no_record_has_is_damage(small, size):
    whole = bytearray(small.path.read_bytes())
    start = small.offsets[5]
    whole[start : start + 4] = struct.pack("<I", size)
    small.path.write_bytes(whole)
    offsets, ending = read(small.path)
    assert (ending.state, ending.offset) == ("damaged", start)
    assert offsets == small.offsets[:5]


def test_unknown_kind_is_damage(small):
    whole = bytearray(small.path.read_bytes())
    start = small.offsets[3]
    whole[start + 4 : start + 6] = struct.pack("<H", 99)
    small.path.write_bytes(whole)
    _, ending = read(small.path)
    assert (ending.state, ending.offset) == ("damaged", start)


def test_fillers_of_any_size_are_passed_over(tmp_path):
    writer = RawWriter(tmp_path)
    writer.note(NoteCode.THREADS_BUSY, "one")
    for size in (8, 16, 24, 32, 4096, records.BLOCK_BYTES, 2 * records.BLOCK_BYTES + 8):
        writer.filler(size)
        writer.note(NoteCode.THREADS_BUSY, f"after {size}")
    writer.close()
    offsets, _ = read(writer.path)
    assert offsets == writer.offsets


@pytest.mark.parametrize("size", [8000, 8192, 70_000, records.BLOCK_BYTES, 6 << 20])
def test_record_of_any_size_is_read_and_checked(tmp_path, size):
    writer = RawWriter(tmp_path)
    writer.note(NoteCode.THREADS_BUSY, "one")
    writer.note(NoteCode.THREADS_BUSY, "x" * size)
    writer.note(NoteCode.THREADS_BUSY, "three")
    writer.close()
    assert read(writer.path)[0] == writer.offsets
    data = bytearray(writer.path.read_bytes())
    data[writer.offsets[1] + 32 + size // 2] ^= 1
    writer.path.write_bytes(data)
    offsets, ending = read(writer.path)
    assert (offsets, ending.state) == (writer.offsets[:1], "damaged")


def test_many_records_cross_the_blocks_that_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BLOCK_BYTES", 512)
    writer = RawWriter(tmp_path)
    for number in range(300):
        writer.note(NoteCode.THREADS_BUSY, "n" * (number % 90))
    writer.close()
    assert read(writer.path)[0] == writer.offsets


def test_file_of_a_process_that_died_at_once_is_empty(tmp_path):
    path = tmp_path / "calls.1.bin"
    for content in (b"", bytes(4096)):
        path.write_bytes(content)
        offsets, ending = read(path)
        assert (offsets, ending.state) == ([], "truncated")


HALF_BYTES = 4096
BEGIN = 4096 + 2 * HALF_BYTES


def with_halves(small, in_log, in_first, first=0, junk=b""):
    """The file as version 3 has it: so many records in the log, so many in one half, the rest in the other. junk:
    what a half held before it was used again."""
    whole = small.path.read_bytes()
    cuts = [*small.offsets, len(whole)]
    log, one, two = whole[64 : cuts[in_log]], whole[cuts[in_log] : cuts[in_first]], whole[cuts[in_first] :]
    places = [0, 0]
    places[first] = BEGIN + len(log)
    places[1 - first] = BEGIN + len(log) + len(one)
    halves = [b"", b""]
    halves[first], halves[1 - first] = one, two + bytes(8)
    header = struct.pack("<8sIIQQQQI12x", b"RCAPCALL", 3, 77, 1_000_000, 500, *places, HALF_BYTES)
    padded = [(half + junk * HALF_BYTES)[:HALF_BYTES].ljust(HALF_BYTES, b"\0") for half in halves]
    return header.ljust(4096, b"\0") + padded[0] + padded[1] + log


@pytest.mark.parametrize("first", [0, 1])
def test_records_that_still_stand_in_the_halves_follow_the_log(small, first):
    count, other = len(small.offsets), small.path.with_name("calls.78.bin")
    for in_log in range(0, count, 3):
        for in_first in range(in_log + 1, count + 1, 4):
            data = with_halves(small, in_log, in_first, first, junk=b"\xa5")
            # What was written of a half whose place is still set may be there in part, and so may more.
            for more in (b"", b"\x01" * 40, b"\x01" * 9000):
                other.write_bytes(data + more)
                offsets, ending = read(other)
                assert [offset - BEGIN + 64 for offset in offsets] == small.offsets, (in_log, in_first)
                assert ending.state == "truncated"


def test_log_of_an_ended_process_needs_no_half(small):
    header = struct.pack("<8sIIQQQQI12x", b"RCAPCALL", 3, 77, 1_000_000, 500, 0, 0, HALF_BYTES)
    small.path.write_bytes(header.ljust(BEGIN, b"\xa5") + small.path.read_bytes()[64:])
    offsets, ending = read(small.path)
    assert [offset - BEGIN + 64 for offset in offsets] == small.offsets
    assert ending.offset == small.path.stat().st_size


@pytest.mark.parametrize("first", [0, 1])
def test_records_that_are_added_follow_those_of_a_process_that_is_gone(small, first):
    count, path = len(small.offsets), small.path.with_name("calls.78.bin")
    blobs = path.with_name("blobs.78.bin")
    for in_log in range(0, count, 3):
        path.write_bytes(with_halves(small, in_log, count - 1, first, junk=b"\xa5") + b"\x01" * 40)
        blobs.write_bytes(b"earlier")
        with RawFile(path) as raw:
            before = list(raw.records())
            appender = Appender(raw, blobs)
        appender.note(NoteCode.WINDOW_OPEN, "launch 9", call=7)
        pieces = [bytes(256 << 10), b"later"]
        appender.copy(0x1000, (256 << 10) + 5, 3, pieces, Moment.BEFORE, 7)
        appender.write()
        with RawFile(path) as raw:
            *records, note, copied = raw.records()
        assert records == before
        assert (raw.ending.state, raw.ending.text) == ("truncated", "")
        assert note.payload[8:] == b"launch 9"
        entries = [struct.unpack_from("<IIQ", copied.payload, 32 + 16 * n) for n in range(2)]
        assert entries == [(0, 0, (1 << 64) - 1), (1, checksum.crc32c(b"later"), 64)]
        assert blobs.read_bytes()[64:] == b"later"


def test_log_that_ends_before_the_halves_ends_there(small):
    data = with_halves(small, 6, 9)
    log_end = struct.unpack_from("<Q", data, 32)[0]
    for missing in (1, 7, 8, 40):
        small.path.write_bytes(data[: log_end - missing])
        offsets, ending = read(small.path)
        assert [offset - BEGIN + 64 for offset in offsets] == small.offsets[:5]
        assert ending.state == "truncated"


@pytest.mark.parametrize(
    ("places", "half_bytes"),
    [
        ((BEGIN, 0), 0),
        ((BEGIN, 0), 1 << 31),
        ((BEGIN, 0), 4097),
        ((64, 0), HALF_BYTES),
        ((BEGIN + 1, 0), HALF_BYTES),
        ((BEGIN, BEGIN + HALF_BYTES + 8), HALF_BYTES),
        ((BEGIN, (1 << 64) - 8), HALF_BYTES),
    ],
)
def test_places_that_make_no_sense_are_damage(small, places, half_bytes):
    data = bytearray(with_halves(small, 3, 6))
    struct.pack_into("<QQI", data, 32, *places, half_bytes)
    small.path.write_bytes(data)
    offsets, ending = read(small.path)
    assert (offsets, ending.state) == ([], "damaged")


def test_halves_far_past_the_log_cost_nothing(small):
    data = bytearray(with_halves(small, 3, 6))
    struct.pack_into("<QQ", data, 32, 1 << 62, 0)
    small.path.write_bytes(data)
    offsets, ending = read(small.path)
    assert len(offsets) == 3
    assert ending.state == "truncated"


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "calls.1.bin"
    path.write_bytes(b"something else, long enough to hold a whole file header of 64 bytes")
    with pytest.raises(FormatError, match="calls.1.bin"):
        read(path)
    path.write_bytes(struct.pack("<8sIIQQ32x", b"RCAPCALL", 5, 1, 0, 0))
    with pytest.raises(VersionError, match="format 5"):
        read(path)
    with pytest.raises(FileError, match="no such file"):
        read(tmp_path / "missing.bin")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksum_has_the_published_values(data, expected):
    assert checksum._crc32c_by_lanes(memoryview(data)) == expected
    assert checksum.crc32c(data) == expected


def test_checksum_of_lanes_pieces_and_many_stretches_agree():
    data = random.Random(7).randbytes(50_003)
    whole = checksum._crc32c_by_lanes(memoryview(data))
    for cut in (0, 1, 2047, 2048, 10_000, 50_003):
        first = checksum._crc32c_by_lanes(memoryview(data)[:cut])
        assert checksum._crc32c_by_lanes(memoryview(data)[cut:], first) == whole
        assert checksum.crc32c(data[cut:], checksum.crc32c(data[:cut])) == whole
    words = np.frombuffer(data[:40_000], dtype="<u8")
    starts, counts = np.array([0, 5, 100, 4999]), np.array([5, 0, 3000, 1])
    expected = [
        checksum._crc32c_by_lanes(memoryview(data)[8 * s : 8 * (s + c)])
        for s, c in zip(starts, counts, strict=True)
    ]
    assert checksum.crc32c_of_many(words, starts, counts).tolist() == expected


def test_records_keep_their_fields(tmp_path):
    writer = RawWriter(tmp_path)
    writer.record(
        RecordKind.NOTE, struct.pack("<II", 3, 0), function=0x8001, call=1 << 40, thread=4_000_000_000
    )
    writer.close()
    with RawFile(writer.path) as raw:
        first = next(iter(raw.records()))
        assert (raw.pid, raw.start_time_ns, raw.monotonic_ns) == (77, 1_000_000, 500)
    assert (first.function, first.call, first.thread, first.time_ns) == (0x8001, 1 << 40, 4_000_000_000, 1010)
