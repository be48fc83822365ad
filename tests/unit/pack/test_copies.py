"""Copies that list only what changed: decoded, stored once, and as whole as copies of everything."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from replay.api.vocabulary import CopyFlag, Moment, RecordKind
from replay.pack import pack
from replay.snapshot import schema
from replay.snapshot.contents import Snapshot

from ..helpers.raw_writer import RawWriter, word

STEP = 256 * 1024
BASE = 0x10_0000_0000
OTHER = 0x10_4000_0000


def words_of(opened: Snapshot) -> set[tuple[int, int, int]]:
    """(offset, target range, offset inside it) of the pointers in memory."""
    found = set()
    for value in opened.reader.objects("census"):
        census = schema.from_wire(schema.Census, value)
        if census.kind == "range":
            for offset, inside, target, _ in struct.iter_unpack("<QQII", census.words):
                found.add((offset, target, inside))
    return found


def write_windows(
    folder: Path, windows: int, base: int = BASE
) -> tuple[RawWriter, list[tuple[bytes, bytes]]]:
    """Windows of one launch each, of which each changes one piece, and the host another one before it."""
    rng = random.Random(3)
    content = bytearray(rng.randbytes(6 * STEP + 40))
    content[3 * STEP : 4 * STEP] = bytes(STEP)
    skip = -base % 8
    content[skip + 8 : skip + 16] = word(OTHER + 4)  # in a piece that never changes
    other = rng.randbytes(100)
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(base, len(content))
    writer.allocate(OTHER, len(other))
    held = []
    for number in range(1, windows + 1):
        call = writer.open_window(f"launch {number}")
        changed = [1 + number % 3] if number > 1 else []
        for piece in changed:
            content[piece * STEP + 5] = number
        before = bytes(content)
        writer.copy(base, before, None if number == 1 else changed, Moment.BEFORE, call)
        writer.copy(OTHER, other, None if number == 1 else [], Moment.BEFORE, call, serial=2)
        writer.launch(word(base) + struct.pack("<I", 1), [(0, 8), (8, 4)])
        content[5 * STEP + number] ^= 0xFF
        writer.copy(base, bytes(content), [5], Moment.AFTER, call)
        writer.copy(OTHER, other, [], Moment.AFTER, call, serial=2)
        writer.close_window()
        held.append((before, bytes(content)))
    return writer, held


@pytest.mark.parametrize("base", [BASE, BASE + 4])
def test_windows_hold_what_their_copies_mean_and_store_each_piece_once(tmp_path: Path, base: int) -> None:
    writer, held = write_windows(tmp_path / "x.rcap", 4, base)
    writer.close()
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    with Snapshot(tmp_path / "x.rsnap") as opened:
        assert [window.number for window in opened.windows()] == [1, 2, 3, 4]
        stored = 0
        for window, expected in zip(opened.each_window(), held, strict=True):
            assert window is not None
            ranges = {item.address: item for item in opened.ranges()}
            for contents, content in zip((ranges[base].before, ranges[base].after), expected, strict=True):
                assert contents is not None
                assert opened.read(contents, 1 << 30) == content
            assert words_of(opened) == {(-base % 8 + 8, ranges[OTHER].id, 4)}
            summary = opened.summary()
            assert summary is not None
            stored += summary.stored_bytes
        # Six pieces that are not zero, what the launches and the host changed, the small range and the image.
        assert stored < (6 + 4 + 3) * STEP + 1000
        assert opened.verify().good


def test_one_window_of_several_is_packed_alone(tmp_path: Path) -> None:
    writer, held = write_windows(tmp_path / "x.rcap", 3)
    writer.close()
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap", window=3)
    with Snapshot(tmp_path / "x.rsnap") as opened:
        item = next(item for item in opened.ranges() if item.address == BASE)
        assert item.before is not None
        assert opened.read(item.before, 1 << 30) == held[2][0]
        assert len(words_of(opened)) == 1


def test_a_copy_that_never_became_whole_is_no_contents(tmp_path: Path) -> None:
    writer, _ = write_windows(tmp_path / "x.rcap", 2)
    call = writer.open_window("launch 3")
    writer.copy(BASE, bytes(6 * STEP + 40), [2], Moment.BEFORE, call, last=False)
    writer.launch(word(BASE) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    writer.kill()
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap", window=3)
    with Snapshot(tmp_path / "x.rsnap") as opened:
        assert next(item for item in opened.ranges() if item.address == BASE).before is None
        assert "MEMORY_NOT_READ" in {note.code for note in opened.notes()}


def test_a_piece_with_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    writer = RawWriter(tmp_path / "x.rcap")
    writer.start()
    writer.allocate(BASE, 2 * STEP)
    call = writer.open_window()
    writer.copy(BASE, b"\1" * (2 * STEP), None, Moment.BEFORE, call, wrong_check=1)
    writer.launch(word(BASE) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    writer.close_window()
    writer.close()
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    with Snapshot(tmp_path / "x.rsnap") as opened:
        assert next(opened.ranges()).before is None
        assert any("wrong checksum" in note.text for note in opened.notes())


def copy_record(base: int, size: int, flags: int, *entries: tuple[int, int, int], step: int = STEP) -> bytes:
    head = struct.pack("<QQIIII", base, size, 7, Moment.BEFORE, flags, step)
    return head + b"".join(struct.pack("<IIQ", *entry) for entry in entries)


WHOLE = CopyFlag.FIRST | CopyFlag.LAST
NO_BLOB = (1 << 64) - 1


@pytest.mark.parametrize(
    "payload",
    [
        copy_record(BASE, 0, WHOLE),
        copy_record(BASE, STEP, WHOLE, (1, 0, NO_BLOB)),
        copy_record(BASE, STEP, WHOLE),
        copy_record(BASE, STEP, WHOLE | CopyFlag.INHERITS),
        copy_record(BASE, STEP, CopyFlag.LAST, (0, 0, NO_BLOB)),
        copy_record(BASE, STEP, WHOLE, (0, 0, NO_BLOB), step=1),
        copy_record((1 << 64) - 8, STEP, WHOLE, (0, 0, NO_BLOB)),
        copy_record(BASE, (1 << 64) - 1, WHOLE | CopyFlag.INHERITS),
        copy_record(BASE, STEP, WHOLE)[:20],
    ],
    ids=range(9),
)
def test_a_copy_that_makes_no_sense_ends_the_capture_there(tmp_path: Path, payload: bytes) -> None:
    writer, _ = write_windows(tmp_path / "x.rcap", 2)
    writer.record(RecordKind.COPY, payload, call=99)
    writer.close()
    report = pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    assert [window.number for window in report.snapshots[0].windows] == [1, 2]
    assert report.snapshots[0].summary.state == "damaged"


def test_random_bytes_in_a_copy_never_raise(tmp_path: Path) -> None:
    rng = random.Random(5)
    for attempt in range(25):
        folder = tmp_path / f"{attempt}.rcap"
        writer, _ = write_windows(folder, 2)
        payload = bytearray(copy_record(BASE, 2 * STEP, WHOLE, (0, 0, 0), (1, 0, NO_BLOB)))
        for _ in range(3):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        writer.record(RecordKind.COPY, bytes(payload), call=99)
        writer.close()
        pack(folder, tmp_path / "x.rsnap")
