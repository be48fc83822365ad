"""Which windows of a capture with `--when` are kept, and what its report says was not watched."""

from __future__ import annotations

import re
import struct

import pytest

from replay.api.vocabulary import NoteCode
from replay.errors import FileError
from replay.pack import Written, pack
from replay.pack.hits import find_hits

from ..helpers.raw_writer import RawWriter

CRASHED = {"when": ["nan", "crash"], "pid": 77, "exit_status": -11}
PARAMETERS = struct.pack("<Q", 0x10_0000_0000)


@pytest.fixture
def writer(tmp_path):
    written = RawWriter(tmp_path / "x.rcap")
    written.start()
    return written


def window(writer: RawWriter, trigger: str = "", *, closed: bool = True) -> None:
    writer.open_window()
    writer.launch(PARAMETERS, [(0, 8)])
    if trigger:
        writer.note(NoteCode.TRIGGER, trigger)
    if closed:
        writer.close_window()


def test_a_crash_while_inputs_are_read_keeps_the_launch_before(writer):
    window(writer)
    window(writer)
    writer.open_window()
    writer.kill()
    assert [hit.windows for hit in find_hits(writer.path, CRASHED).found] == [(2,)]
    assert [hit.windows for hit in find_hits(writer.path, CRASHED | {"ring": 2}).found] == [(1, 2)]


def test_a_crash_inside_a_launch_keeps_that_one(writer):
    window(writer)
    window(writer, closed=False)
    writer.kill()
    assert [hit.windows for hit in find_hits(writer.path, CRASHED).found] == [(2,)]


def test_a_crash_after_other_hits_is_one_too_while_snapshots_are_left(writer):
    window(writer, "nan launch 1 of scale: a NaN")
    window(writer)
    writer.kill()
    assert len(find_hits(writer.path, CRASHED).found) == 1
    found = find_hits(writer.path, CRASHED | {"max_snapshots": 2}).found
    assert [(hit.windows, hit.text.partition(":")[0]) for hit in found] == [
        ((1,), "nan launch 1 of scale"),
        ((2,), "crash"),
    ]


def test_only_the_process_that_hangs_has_a_hang(writer):
    window(writer, closed=False)
    writer.kill()
    hung = {"when": ["hang"], "pid": 78, "exit_status": -9}
    assert not find_hits(writer.path, hung | {"hung": ["calls.78.bin"]}).found
    assert len(find_hits(writer.path, hung | {"hung": [writer.path.name]}).found) == 1


def test_what_was_not_watched_is_said(writer):
    writer.note(NoteCode.CAPTURE_STOPPED, "no space left")
    writer.process(**{"watched.held": 3, "watched.shared": "9" * 5000, "watched.too_small": "4 8192"})
    writer.close()
    said = find_hits(writer.path, {"when": ["nan"]}).not_watched
    assert said.startswith("3 launches for NaN: memory that they reach held one")
    assert "launch 4, which needed 8 KiB in the ring" in said
    assert said.endswith("everything after the capture stopped (no space left)")
    assert "another thread" not in said


def test_names_have_the_rank_and_the_time_of_each_hit(tmp_path):
    raw = tmp_path / "x.rcap"
    for rank in range(2):
        written = RawWriter(raw, 70 + rank)
        written.start()
        written.process(rank=rank)
        for _ in range(2):
            window(written, "nan launch 1 of scale: a NaN")
        written.close()
    (raw / "launcher.json").write_text('{"when": ["nan"], "max_snapshots": 2, "command": ["app"]}')
    pack(raw, tmp_path / "x.rsnap")
    names = sorted(path.name for path in tmp_path.glob("*.rsnap"))
    assert len(names) == 4
    assert all(re.fullmatch(r"x\.rank[01]\.\d{8}T\d{6}Z(-2)?\.rsnap", name) for name in names)


def test_a_hit_whose_snapshot_could_not_be_written_is_written_the_next_time(tmp_path):
    written = RawWriter(tmp_path / "x.rcap")
    written.start()
    for _ in range(2):
        window(written, "nan launch 1 of scale: a NaN")
    written.close()
    (tmp_path / "x.rcap" / "launcher.json").write_text(
        '{"when": ["nan"], "max_snapshots": 2, "command": ["app"]}'
    )
    earlier = Written()
    with pytest.raises(FileError):
        pack(tmp_path / "x.rcap", tmp_path / "no folder" / "x.rsnap", written=earlier)
    made = pack(tmp_path / "x.rcap", tmp_path / "x.rsnap", written=earlier).snapshots
    assert len(made) == 2
    assert pack(tmp_path / "x.rcap", tmp_path / "x.rsnap", written=earlier).snapshots == []
