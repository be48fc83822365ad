"""Chunks read ahead by threads: the same bytes in every order, damage named, nothing held without a bound."""

from __future__ import annotations

import random

import pytest

from replay.engine.contents import loading
from replay.engine.contents.loading import KEPT_FRAMES, ChunksAhead
from replay.errors import DamagedError, FormatError
from replay.snapshot.container import FrameDecompressor, SnapshotReader, SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES

CHUNKS = 320  # of 256 KiB: 20 frames, more than are kept


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file of many frames; its path and (digest, data) of each chunk."""
    path = tmp_path_factory.mktemp("chunks") / "x.rsnap"
    noise = random.Random(3)
    found = []
    with SnapshotWriter(path, threads=1) as writer:
        writer.write("header", {"format": "x"})
        for number in range(CHUNKS):
            data = number.to_bytes(4, "little") * (CHUNK_BYTES // 8) + noise.randbytes(CHUNK_BYTES // 2)
            found.append((writer.write_chunk(data), data))
    return path, found


ORDERS = {
    "in order": list(range(CHUNKS)),
    "backwards": list(range(CHUNKS))[::-1],
    "one chunk again and again": [5] * 40 + [7] * 40,
    "far apart in turns": [place for number in range(40) for place in (number, CHUNKS - 1 - number)],
    "more frames in turns than are kept": [16 * frame for _ in range(3) for frame in range(KEPT_FRAMES + 4)],
    "at random": random.Random(1).choices(range(CHUNKS), k=200),
}


@pytest.mark.parametrize("order", ORDERS, ids=list(ORDERS))
def test_every_order_gives_the_right_bytes_and_each_frame_is_read_as_often_as_needed(
    written, order, monkeypatch
):
    path, chunks = written
    with SnapshotReader(path) as reader:
        read = []
        whole = reader.checked_frame
        monkeypatch.setattr(reader, "checked_frame", lambda *words: read.append(words[0]) or whole(*words))
        plan = [(chunks[place][0], CHUNK_BYTES) for place in ORDERS[order]]
        with ChunksAhead(reader, plan) as ahead:
            for place in ORDERS[order]:
                piece = ahead.chunk(chunks[place][0], CHUNK_BYTES)
                assert isinstance(piece, loading.Piece)
                assert bytes(piece) == chunks[place][1]
                assert len(ahead._frames) <= KEPT_FRAMES
    if order in ("in order", "backwards"):
        assert len(read) == len(set(read)) >= 10


@pytest.mark.parametrize("limits", [{}, {"KEPT_BYTES": 5 << 20, "BYTES_AHEAD": 9 << 20}])
def test_memory_of_frames_is_used_again_and_bounded(written, limits, monkeypatch):
    path, chunks = written
    for name, value in limits.items():
        monkeypatch.setattr(loading, name, value)
    monkeypatch.setattr(loading.os, "cpu_count", lambda: 2)
    seen = {}
    with (
        SnapshotReader(path) as reader,
        ChunksAhead(reader, [(one, CHUNK_BYTES) for one, _ in chunks]) as ahead,
    ):
        for digest, data in chunks:
            piece = ahead.chunk(digest, CHUNK_BYTES)
            assert bytes(piece) == data
            seen[id(piece.content)] = piece.content  # alive, so that no other gets its number
            held = [*ahead._frames.values(), *ahead._free, *(job.content for job in ahead._pending)]
            assert len(held) <= (1 + 2 if limits else 1 + 4)
    assert len(seen) == (1 + 2 if limits else 1 + 4)


def test_a_frame_of_another_size_than_the_index_says_is_damage(written, monkeypatch):
    path, chunks = written
    with SnapshotReader(path) as reader:
        number = reader.place_of_chunk(chunks[0][0])[0]
        size = reader.frame_bytes(number)
        for wrong in (size - 1, size + 1):
            reader._frames[number] = reader._frames[number]._replace(uncompressed_bytes=wrong)
            with pytest.raises(DamagedError, match="another size"):
                reader.checked_frame(number, [], FrameDecompressor(), bytearray(size + 1))
        with pytest.raises(DamagedError, match="impossible"):
            reader.checked_frame(len(reader.frames), [], FrameDecompressor(), bytearray(size))
        assert reader.frame_bytes(len(reader.frames)) == reader.frame_bytes(-1) == 0


def test_a_changed_byte_in_a_frame_names_the_chunk(written):
    path, chunks = written
    with SnapshotReader(path) as reader:
        number, offset, length = reader.place_of_chunk(chunks[3][0])
        content = bytearray(reader.frame_bytes(number))
        place = (chunks[3][0], offset, length)
        reader.checked_frame(number, [place], FrameDecompressor(), content)
        for wrong in ((chunks[3][0], offset + 1, length), (chunks[3][0], offset, length - 1),
                      (chunks[3][0], len(content) - 5, length), (b"\1" * 16, offset, length)):  # fmt: skip
            with pytest.raises(DamagedError, match=f"{wrong[0].hex()} is damaged"):
                reader.checked_frame(number, [wrong], FrameDecompressor(), content)


def test_a_piece_lies_where_it_says(written):
    import ctypes

    path, chunks = written
    with SnapshotReader(path) as reader, ChunksAhead(reader, [(chunks[9][0], CHUNK_BYTES)]) as ahead:
        piece = ahead.chunk(chunks[9][0], CHUNK_BYTES)
        assert ctypes.string_at(piece.address, len(piece)) == chunks[9][1]


def test_what_was_not_planned_is_read_all_the_same(written):
    path, chunks = written
    plan = [(chunks[place][0], CHUNK_BYTES) for place in (0, 1, 2, 40)]
    with SnapshotReader(path) as reader, ChunksAhead(reader, plan) as ahead:
        for place in (0, 100, 40, 1, 2, 300):
            assert bytes(ahead.chunk(chunks[place][0], CHUNK_BYTES)) == chunks[place][1]


def test_a_chunk_that_is_not_in_the_file_is_named(written):
    path, chunks = written
    plan = [(chunks[0][0], CHUNK_BYTES), (b"\1" * 16, CHUNK_BYTES), (chunks[1][0], CHUNK_BYTES)]
    with SnapshotReader(path) as reader, ChunksAhead(reader, plan) as ahead:
        ahead.chunk(*plan[0])
        with pytest.raises(FormatError, match="is not in the file"):
            ahead.chunk(*plan[1])
        assert bytes(ahead.chunk(*plan[2])) == chunks[1][1]


def test_a_chunk_of_another_length_is_named(written):
    path, chunks = written
    with (
        SnapshotReader(path) as reader,
        ChunksAhead(reader, [(chunks[0][0], 100)]) as ahead,
        pytest.raises(FormatError, match="not 100"),
    ):
        ahead.chunk(chunks[0][0], 100)


def test_damage_in_a_frame_is_named_and_other_frames_are_read(written, tmp_path):
    path, chunks = written
    with SnapshotReader(path) as reader:
        frame = reader.frames[reader.place_of_chunk(chunks[100][0])[0]]
    data = bytearray(path.read_bytes())
    data[frame.offset + frame.compressed_bytes // 2] ^= 0x20
    damaged = tmp_path / "damaged.rsnap"
    damaged.write_bytes(data)
    plan = [(chunks[place][0], CHUNK_BYTES) for place in (0, 100, 300)]
    with SnapshotReader(damaged) as reader, ChunksAhead(reader, plan) as ahead:
        assert bytes(ahead.chunk(*plan[0])) == chunks[0][1]
        with pytest.raises(
            DamagedError, match=f"memory chunk {chunks[100][0].hex()} in bytes {frame.offset} to "
        ):
            ahead.chunk(*plan[1])
        assert bytes(ahead.chunk(*plan[2])) == chunks[300][1]
