"""Chunks that are kept as what differs from another one."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from replay.api.vocabulary import Moment
from replay.errors import DamagedError, ReplayError
from replay.pack import pack
from replay.snapshot.container import SnapshotReader, SnapshotWriter, frames
from replay.snapshot.container.frames import make_patch
from replay.snapshot.contents import Snapshot
from replay.snapshot.extract import extract

from ...helpers.raw_writer import RawWriter, word

STEP = 256 * 1024
BASE = 0x10_0000_0000
NOISE = b"".join(
    frames.digest(struct.pack("<I", n)) for n in range(STEP // 16)
)  # as incompressible as it gets


def sparse_windows(folder: Path, count: int, pieces: int = 4) -> list[tuple[bytes, bytes]]:
    """Windows that change four bytes in every 16 KiB; what each began and ended with."""
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(BASE, pieces * STEP)
    content = bytearray(NOISE * pieces)
    states = []
    for number in range(1, count + 1):
        call = writer.open_window(f"launch {number}")
        writer.copy(BASE, bytes(content), None if number == 1 else [], Moment.BEFORE, call)
        before = bytes(content)
        writer.launch(word(BASE) + struct.pack("<I", 1), [(0, 8), (8, 4)])
        for at in range(100 * number, len(content), 16384):
            content[at : at + 4] = struct.pack("<I", 0xC0FFEE00 + number)
        writer.copy(BASE, bytes(content), range(pieces), Moment.AFTER, call)
        writer.close_window()
        states.append((before, bytes(content)))
    writer.close()
    return states


@pytest.mark.parametrize("count", [1, 3])
def test_sparse_changes_cost_what_changed(tmp_path, count):
    states = sparse_windows(tmp_path / "x.rcap", count)
    report = pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    assert report.snapshots[0].file_bytes < 4 * STEP // 4 * 1.1 + 40_000  # NOISE is there once
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.version == (3, 0)
        assert reader.kinds["patch"].count == count  # the four pieces are equal
        assert sum(len(patch) for _, patch in reader.objects("patch")) < count * 1000
    with Snapshot(tmp_path / "x.rsnap") as opened:
        assert opened.verify().good
        for _, (before, after) in zip(opened.each_window(), states, strict=True):
            (item,) = opened.ranges()
            assert opened.read(item.before, 1 << 30) == before
            assert opened.read(item.after, 1 << 30) == after
    if count > 1:
        extract(tmp_path / "x.rsnap", 2, tmp_path / "y.rsnap")
        with Snapshot(tmp_path / "y.rsnap") as opened:
            (item,) = opened.ranges()
            assert opened.read(item.after, 1 << 30) == states[1][1]
            assert opened.verify().good


def test_dense_changes_are_kept_whole_and_the_version_stays(tmp_path):
    writer = RawWriter(tmp_path / "x.rcap")
    writer.start()
    writer.allocate(BASE, STEP)
    call = writer.open_window()
    writer.copy(BASE, NOISE, None, Moment.BEFORE, call)
    writer.launch(word(BASE) + struct.pack("<I", 1), [(0, 8), (8, 4)])
    writer.copy(BASE, bytes(byte ^ 1 for byte in NOISE), [0], Moment.AFTER, call)
    writer.close_window()
    writer.close()
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.version == (1, 0)
        assert "patch" not in reader.kinds


def test_a_file_that_was_cut_off_gives_its_patches(tmp_path):
    sparse_windows(tmp_path / "x.rcap", 1)
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    with Snapshot(tmp_path / "x.rsnap") as opened:
        (item,) = opened.ranges()
        wanted = item.after.chunk_digests()[0]
        expected = opened.reader.chunk(wanted)
    data = (tmp_path / "x.rsnap").read_bytes()
    (tmp_path / "cut.rsnap").write_bytes(data[:-60])
    with SnapshotReader(tmp_path / "cut.rsnap", tolerant=True) as reader:
        assert reader.chunk(wanted, STEP) == expected


def test_any_msgpack_library_reads_a_patch(tmp_path):
    """`zstd -dc` and msgpack, as replay/snapshot/FORMAT.md says."""
    states = sparse_windows(tmp_path / "x.rcap", 1)
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    program = """
import io, msgpack, sys, zstandard
data = zstandard.ZstdDecompressor().stream_reader(open(sys.argv[1], "rb"), read_across_frames=True).read()
chunks, patches = {}, {}
for kind, value in msgpack.Unpacker(io.BytesIO(data), max_buffer_size=1 << 30):
    if kind == "chunk": chunks[value[0]] = value[1]
    if kind == "patch": patches[value[0]] = value[1]
for patch in patches.values():
    made, at = bytearray(chunks[patch[:16]]), 20
    while at < len(patch):
        offset, length = (int.from_bytes(patch[n:n + 4], "little") for n in (at, at + 4))
        made[offset:offset + length] = patch[at + 8:at + 8 + length]
        at += 8 + length
    sys.stdout.buffer.write(made)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x.rsnap")], capture_output=True, check=True
    )
    assert done.stdout == states[0][1][:STEP]


HOSTILE = {
    "based on itself": lambda base, digest: make_patch(digest, 64, [(0, b"x")]),
    "based on a patch": lambda base, digest: make_patch(b"\x01" * 16, 64, [(0, b"x")]),
    "based on nothing": lambda base, digest: make_patch(b"\x02" * 16, 64, [(0, b"x")]),
    "another length": lambda base, digest: make_patch(base, 63, [(0, b"x")]),
    "a huge length": lambda base, digest: make_patch(base, 1 << 31, [(0, b"x")]),
    "beyond its end": lambda base, digest: make_patch(base, 64, [(60, b"xxxxx")]),
    "a span that is cut": lambda base, digest: make_patch(base, 64, [(0, b"xxxx")])[:-1],
    "no head": lambda base, digest: b"short",
    "another content": lambda base, digest: make_patch(base, 64, [(0, b"y")]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_patch_is_damage(tmp_path, what):
    whole = bytes(range(64))
    wanted = frames.digest(b"x" + whole[1:])
    with SnapshotWriter(tmp_path / "x.rsnap", threads=1) as writer:
        base = writer.write_chunk(whole)
        writer.store_patch(b"\x01" * 16, make_patch(base, 64, [(1, b"z")]))
        writer.store_patch(wanted, HOSTILE[what](base, wanted))
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        with pytest.raises(DamagedError):
            reader.chunk(wanted, 64)
        report = reader.verify()
        assert not report.good


def test_a_reader_of_an_older_major_version_would_refuse(tmp_path, monkeypatch):
    sparse_windows(tmp_path / "x.rcap", 1)
    pack(tmp_path / "x.rcap", tmp_path / "x.rsnap")
    monkeypatch.setattr(frames, "NEWEST_MAJOR", 2)
    with pytest.raises(ReplayError, match="snapshot format 3.0"):
        SnapshotReader(tmp_path / "x.rsnap")
