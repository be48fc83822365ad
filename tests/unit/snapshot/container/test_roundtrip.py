"""What is written into a snapshot file comes back, through this reader and through any zstd and msgpack library."""

from __future__ import annotations

import io
import mmap
import random
from pathlib import Path

import msgpack
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import FileError, FormatError, LimitError
from replay.snapshot.container import (
    MAX_CHUNK_BYTES,
    ZERO_DIGEST,
    SnapshotReader,
    SnapshotWriter,
    frames,
    writer,
)
from replay.snapshot.container.source import FrameFile

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def write(
    path: Path, objects: list[tuple[str, object]], memory: bytes = b"", chunk_bytes: int = 4096
) -> list[bytes]:
    with SnapshotWriter(path, threads=2) as out:
        for kind, value in objects:
            out.write(kind, value)
        return out.write_chunks_from(memory, 0, len(memory), chunk_bytes)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["call", "note", "Ω"]), VALUES), max_size=20))
def test_objects_come_back_in_order(tmp_path: Path, objects: list[tuple[str, object]]) -> None:
    write(tmp_path / "x.rsnap", objects)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert list(reader.chosen_objects()) == objects
        for kind in ("call", "note", "Ω", "absent"):
            expected = [value for found, value in objects if found == kind]
            assert list(reader.objects(kind)) == expected
            assert reader.first(kind) == (expected[0] if expected else None)
            assert reader.kinds.get(kind, None) is None or reader.kinds[kind].count == len(expected)
        assert reader.verify().good


def test_many_objects_span_frames_and_stay_in_order(tmp_path: Path) -> None:
    objects = [
        ("call" if number % 1000 else "note", (number, "x" * (number % 50))) for number in range(60_000)
    ]
    write(tmp_path / "x.rsnap", objects)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert len(reader.frames) > 2
        assert list(reader.chosen_objects()) == objects
        assert [value[0] for value in reader.objects("note")] == list(range(0, 60_000, 1000))


def test_any_zstd_and_msgpack_library_reads_the_file(tmp_path: Path) -> None:
    memory = random.Random(1).randbytes(200_000)
    write(tmp_path / "x.rsnap", [("header", {"a": 1}), ("call", [1, 2])], memory)
    stream = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO((tmp_path / "x.rsnap").read_bytes()), read_across_frames=True
    )
    kinds = [kind for kind, _ in msgpack.Unpacker(stream)]
    assert sorted(set(kinds)) == ["call", "chunk", "header"]
    assert kinds.count("chunk") == -(-len(memory) // 4096)


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 3 << 20, (9 << 20) + 17])
@pytest.mark.parametrize("kind", ["bytes", "file", "mmap"])
def test_chunks_come_back_whatever_they_were_read_from(tmp_path: Path, length: int, kind: str) -> None:
    memory = random.Random(length).randbytes(length)
    (tmp_path / "source").write_bytes(b"before" + memory + b"behind")
    with open(tmp_path / "source", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
        source = {"bytes": b"before" + memory, "file": file, "mmap": mapped}[kind]
        with SnapshotWriter(tmp_path / "x.rsnap", threads=2) as out:
            digests = out.write_chunks_from(source, 6, length, 4096 if length < 1 << 20 else 256 << 10)
            mapped.close()  # fails if a view of it is still held
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert b"".join(reader.chunk(digest) for digest in digests) == memory
        assert reader.verify().good


def test_equal_chunks_are_stored_once_and_zeros_never(tmp_path: Path) -> None:
    page = random.Random(3).randbytes(4096)
    memory = page * 3 + bytes(4096 * 5) + page + bytes(100)
    with SnapshotWriter(tmp_path / "x.rsnap", threads=2) as out:
        digests = out.write_chunks_from(memory, 0, len(memory), 4096)
        assert out.write_chunk(page) == digests[0]
        assert out.write_chunk(bytes(77)) == ZERO_DIGEST
        assert out.statistics.stored_chunks == 1
        assert out.statistics.zero_bytes == 4096 * 5 + 100 + 77
        assert out.statistics.repeated_bytes == 4 * 4096
    assert digests[3:8] == [ZERO_DIGEST] * 5
    assert digests[-1] == ZERO_DIGEST
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.kinds["chunk"].count == 1
        assert reader.chunk(ZERO_DIGEST, 100) == bytes(100)
    assert (tmp_path / "x.rsnap").stat().st_size < 4096 + 600


def test_a_chunk_that_is_zero_but_for_its_last_byte_is_stored(tmp_path: Path) -> None:
    almost = bytes(MAX_CHUNK_BYTES - 1) + b"\x01"
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        digest = out.write_chunk(almost)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.chunk(digest) == almost


def test_what_does_not_shrink_is_stored_as_it_is(tmp_path: Path) -> None:
    noise = random.Random(4).randbytes(8 << 20)
    write(tmp_path / "x.rsnap", [], noise, 256 << 10)
    assert (tmp_path / "x.rsnap").stat().st_size < len(noise) * 1.001


def test_the_same_input_makes_the_same_file(tmp_path: Path) -> None:
    memory = random.Random(5).randbytes(12 << 20)
    for name, threads in (("a", 1), ("b", 4)):
        with SnapshotWriter(tmp_path / name, threads=threads) as out:
            out.write_chunks_from(memory, 0, len(memory), 64 << 10)
            out.write("note", "x")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_few_kilobytes_are_read_to_find_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = random.Random(6).randbytes(32 << 20)
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        out.write("header", "first")
        out.write_chunks_from(memory, 0, len(memory), 1 << 20)
        for number in range(200_000):
            out.write("call", number)
        out.write("summary", "last")
    read = 0
    original = FrameFile.read

    def counting(self: FrameFile, offset: int, size: int) -> bytes:
        nonlocal read
        data = original(self, offset, size)
        read += len(data)
        return data

    monkeypatch.setattr(FrameFile, "read", counting)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.first("header") == "first"
        assert reader.first("summary") == "last"
        assert reader.kinds["call"].count == 200_000
    assert read < 128 << 10


def test_a_newer_minor_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FORMAT_MINOR", 9)
    write(tmp_path / "x.rsnap", [("later-kind", {"new": 1}), ("note", "x")])
    monkeypatch.undo()
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.version == (1, 9)
        assert reader.first("note") == "x"


class TestWriting:
    def test_an_exception_leaves_no_new_file_and_the_old_file_as_it_was(self, tmp_path: Path) -> None:
        write(tmp_path / "x.rsnap", [("note", "old")])

        def fail() -> None:
            with SnapshotWriter(tmp_path / "x.rsnap") as out:
                out.write_chunks_from(bytes(range(256)) * 40_000, 0, 10_240_000, 4096)
                raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            fail()
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.rsnap"]
        with SnapshotReader(tmp_path / "x.rsnap") as reader:
            assert reader.first("note") == "old"

    def test_a_full_disk_is_an_error_that_leaves_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(descriptor: int, data: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(writer.os, "write", full)
        with pytest.raises(FileError, match="no space left") as caught, SnapshotWriter(tmp_path / "x.rsnap"):
            pass
        assert caught.value.next
        assert list(tmp_path.iterdir()) == []

    def test_a_short_write_is_continued(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        original = writer.os.write
        monkeypatch.setattr(writer.os, "write", lambda descriptor, data: original(descriptor, data[:100]))
        memory = random.Random(7).randbytes(50_000)
        digests = write(tmp_path / "x.rsnap", [("note", "x")], memory)
        with SnapshotReader(tmp_path / "x.rsnap") as reader:
            assert reader.verify().good
            assert b"".join(map(reader.chunk, digests)) == memory

    @pytest.mark.parametrize("bad", [".", "missing/x.rsnap"])
    def test_a_place_that_cannot_be_written_is_an_error(
        self, tmp_path: Path, bad: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FileError):
            SnapshotWriter(bad)
        assert list(tmp_path.iterdir()) == []

    def test_a_source_that_ends_early_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(bytes(range(256)) * 400)
        for length in (102_401, 50_000_000):
            out = SnapshotWriter(tmp_path / "y.rsnap")
            with open(tmp_path / "source", "rb") as file, pytest.raises(FileError, match="early"):
                out.write_chunks_from(file, 0, length, 4096)
            out.abort()

    def test_what_a_reader_would_refuse_is_not_written(self, tmp_path: Path) -> None:
        deep: object = 0
        for _ in range(40):
            deep = [deep]
        with SnapshotWriter(tmp_path / "x.rsnap") as out:
            with pytest.raises(LimitError, match="nested"):
                out.write("note", deep)
            with pytest.raises(LimitError, match="bytes"):
                out.write("note", bytes(frames.MAX_OBJECT_BYTES))
            for kind in ("chunk", "", "k" * 65):
                with pytest.raises(ValueError, match="kind"):
                    out.write(kind, 1)
            for size in (0, MAX_CHUNK_BYTES + 1):
                with pytest.raises(ValueError, match="chunk"):
                    out.write_chunk(bytes(size))
            out.write("note", bytes(frames.MAX_OBJECT_BYTES - 100))
        with SnapshotReader(tmp_path / "x.rsnap") as reader:
            assert reader.verify().good

    def test_only_its_owner_may_read_the_file(self, tmp_path: Path) -> None:
        write(tmp_path / "x.rsnap", [])
        assert (tmp_path / "x.rsnap").stat().st_mode & 0o777 == 0o600


def test_a_chunk_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    digests = write(tmp_path / "x.rsnap", [], b"abc" * 1000)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        with pytest.raises(FormatError, match="not in the file"):
            reader.chunk(b"0123456789abcdef")
        with pytest.raises(FormatError, match="3000 bytes, not 5"):
            reader.chunk(digests[0], 5)
        with pytest.raises(LimitError):
            reader.chunk(ZERO_DIGEST, 1 << 40)
