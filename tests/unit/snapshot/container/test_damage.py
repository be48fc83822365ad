"""A damaged, cut or hostile file: never a wrong value, never unbounded memory, and it says what is wrong."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import (
    DamagedError,
    FileError,
    FormatError,
    LimitError,
    ReplayError,
    TruncatedError,
    VersionError,
)
from replay.snapshot.container import SnapshotReader, SnapshotWriter, frames

MEMORY = random.Random(1).randbytes(700) + bytes(300) + b"abc" * 100


class Original:
    """A small snapshot with several frames of objects and of chunks, and what it holds."""

    def __init__(self, folder: Path) -> None:
        path = folder / "original.rsnap"
        with SnapshotWriter(path, threads=1) as out:
            self.objects = []
            for number in range(3):
                for kind in ("header", "call", "note"):
                    self.objects.append((kind, (number, kind * 5)))
                    out.write(kind, (number, kind * 5))
                out._frames.submit(out._objects)  # a frame each, so that damage to one leaves others
                out._objects = type(out._objects)()
            self.digests = out.write_chunks_from(MEMORY, 0, len(MEMORY), 100)
        self.data = path.read_bytes()
        with SnapshotReader(path) as reader:
            self.frames = reader.frames


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("original"))


def read_everything(
    path: Path, original: Original, tolerant: bool
) -> tuple[list[object], bytes | None, bool]:
    """Objects without chunks, memory if all of it can be read, and whether verify finds nothing wrong."""
    with SnapshotReader(path, tolerant=tolerant) as reader:
        good = reader.verify().good
        objects = [item for item in reader.chosen_objects() if item[0] != "chunk"]
        try:
            lengths = [min(100, len(MEMORY) - start) for start in range(0, len(MEMORY), 100)]
            memory = b"".join(map(reader.chunk, original.digests, lengths))
        except ReplayError:
            memory = None
        return objects, memory, good


class TestTruncation:
    def test_a_file_cut_at_any_byte_yields_what_is_whole_and_says_where_it_ends(
        self, original: Original, tmp_path: Path
    ) -> None:
        path = tmp_path / "cut.rsnap"
        for length in range(len(original.data)):
            path.write_bytes(original.data[:length])
            whole = [frame for frame in original.frames if frame.offset + frame.compressed_bytes <= length]
            if not whole:
                with pytest.raises(FormatError) as caught:
                    SnapshotReader(path)
                assert caught.value.where == str(path)
                assert caught.value.next
                continue
            with SnapshotReader(path) as reader:
                assert not reader.condition.whole
                assert reader.condition.ends_at == whole[-1].offset + whole[-1].compressed_bytes
                assert reader.condition.objects == sum(frame.objects for frame in whole)
                objects = [item for item in reader.chosen_objects() if item[0] != "chunk"]
                assert objects == original.objects[: len(objects)]
                assert len(objects) == min(3 * len(whole), len(original.objects))
                assert f"byte {reader.condition.ends_at:,}" in str(reader.condition)
                assert not reader.verify().good

    def test_memory_of_a_cut_file_is_found_without_the_table(
        self, original: Original, tmp_path: Path
    ) -> None:
        path = tmp_path / "cut.rsnap"
        last = original.frames[-1]
        path.write_bytes(original.data[: last.offset + last.compressed_bytes])
        assert read_everything(path, original, False) == (original.objects, MEMORY, False)

    def test_bytes_after_the_end_are_noticed(self, original: Original, tmp_path: Path) -> None:
        path = tmp_path / "long.rsnap"
        for extra in (b"\0", b"garbage" * 100, original.data):
            path.write_bytes(original.data + extra)
            with SnapshotReader(path, tolerant=True) as reader:
                assert not reader.condition.whole
                assert not reader.verify().good


class TestBitFlips:
    def test_a_flipped_bit_anywhere_is_noticed_and_never_gives_a_wrong_value(
        self, original: Original, tmp_path: Path
    ) -> None:
        path = tmp_path / "flipped.rsnap"
        chosen = random.Random(2)
        for position in range(len(original.data)):
            data = bytearray(original.data)
            data[position] ^= 1 << chosen.randrange(8)
            path.write_bytes(data)
            for tolerant in (False, True):
                try:
                    objects, memory, good = read_everything(path, original, tolerant)
                except ReplayError:
                    continue
                assert not good, f"a flipped bit in byte {position} was not noticed"
                assert memory in (None, MEMORY), f"a flipped bit in byte {position} changed memory"
                assert [item for item in objects if item not in original.objects] == []

    def test_damage_to_one_frame_is_named_and_leaves_the_others(
        self, original: Original, tmp_path: Path
    ) -> None:
        path = tmp_path / "x.rsnap"
        frame = original.frames[1]
        data = bytearray(original.data)
        data[frame.offset + frame.compressed_bytes // 2] ^= 0xFF
        path.write_bytes(data)
        with SnapshotReader(path) as reader, pytest.raises(DamagedError, match=f"bytes {frame.offset} to"):
            list(reader.objects("call"))
        with SnapshotReader(path, tolerant=True) as reader:
            assert [value[0] for value in reader.objects("call")] == [0, 2]
            assert [damage.offset for damage in reader.damages] == [frame.offset]
            report = reader.verify()
        assert [(damage.offset, damage.bytes) for damage in report.damages] == [
            (frame.offset, frame.compressed_bytes)
        ]

    def test_damage_in_a_file_without_index_is_passed_over(self, original: Original, tmp_path: Path) -> None:
        path = tmp_path / "x.rsnap"
        frame = original.frames[1]
        for position in range(frame.offset, frame.offset + frame.compressed_bytes):
            data = bytearray(original.data[:-20])
            data[position] ^= 0x55
            path.write_bytes(data)
            with SnapshotReader(path, tolerant=True) as reader:
                numbers = [value[0] for value in reader.objects("call")]
                assert numbers in ([0, 2], [0, 1, 2])
                assert numbers == [0, 1, 2] or reader.damages

    def test_a_damaged_index_or_table_leaves_the_contents(self, original: Original, tmp_path: Path) -> None:
        path = tmp_path / "x.rsnap"
        last = original.frames[-1]
        for position in range(last.offset + last.compressed_bytes, len(original.data)):
            data = bytearray(original.data)
            data[position] ^= 0x40
            path.write_bytes(data)
            assert read_everything(path, original, True) == (original.objects, MEMORY, False)

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def test_any_damage_raises_only_our_errors(
        self, original: Original, tmp_path: Path, data: st.DataObject
    ) -> None:
        damaged = bytearray(original.data)
        for _ in range(data.draw(st.integers(1, 8))):
            start = data.draw(st.integers(0, len(damaged) - 1))
            patch = data.draw(st.binary(min_size=1, max_size=24))
            if data.draw(st.booleans()):
                damaged[start : start + len(patch)] = patch
            else:
                del damaged[start : start + len(patch)]
        path = tmp_path / "x.rsnap"
        path.write_bytes(damaged)
        try:
            objects, memory, _ = read_everything(path, original, True)
        except ReplayError:
            return
        assert [item for item in objects if item not in original.objects] == []
        assert memory in (None, MEMORY)


class TestNoSnapshot:
    @pytest.mark.parametrize(
        ("content", "error", "words"),
        [
            (b"", FormatError, "empty"),
            (b"PK\x03\x04 something else", FormatError, "not a snapshot"),
            (b"\x28\xb5\x2f\xfd" + bytes(100), FormatError, "not a snapshot"),
            (frames.start_frame()[:20], TruncatedError, "ends after 20 bytes"),
            (frames.start_frame(), TruncatedError, "no whole part"),
            (frames.start_frame() + bytes(5000), TruncatedError, "no whole part"),
        ],
    )
    def test_is_an_error_that_says_what_it_is(
        self, tmp_path: Path, content: bytes, error: type[ReplayError], words: str
    ) -> None:
        path = tmp_path / "x.rsnap"
        path.write_bytes(content)
        with pytest.raises(error, match=words) as caught:
            SnapshotReader(path)
        assert str(path) in str(caught.value)

    def test_folder_fifo_and_missing_file(self, tmp_path: Path) -> None:
        import os

        os.mkfifo(tmp_path / "fifo")
        for path, words in (
            (tmp_path, "folder"),
            (tmp_path / "fifo", "is a pipe"),
            (tmp_path / "none", "no such file"),
        ):
            with pytest.raises(FileError, match=words):
                SnapshotReader(path)

    def test_a_newer_major_version_is_refused_with_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(frames, "FORMAT_MAJOR", frames.NEWEST_MAJOR + 1)
        with SnapshotWriter(tmp_path / "x.rsnap") as out:
            out.write("note", 1)
        monkeypatch.undo()
        with pytest.raises(VersionError, match=rf"format {frames.NEWEST_MAJOR + 1}\.0") as caught:
            SnapshotReader(tmp_path / "x.rsnap")
        assert "newer" in str(caught.value.next)


# -- hostile files, well formed down to their checksums ------------------------------------------------------


def zstd(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(content)


def assemble(
    path: Path, contents: list[bytes], kinds: dict[str, object] | None = None, **replaced: object
) -> None:
    """A file of these frames (already compressed) with a valid index, table and trailer."""
    body = frames.start_frame()
    records = []
    for frame in contents:
        size = zstandard.get_frame_parameters(frame).content_size
        known = size if size < 1 << 32 else 0
        records.append(frames.FrameRecord(len(body), len(frame), known, 1, frames.digest(frame)))
        body += frame
    table = frames.skippable(frames.CHUNK_TABLE_TAG + bytes(replaced.pop("table", b"")))  # type: ignore[call-overload]
    index = {
        "frames": frames.pack_frame_records(records),
        "kinds": kinds if kinds is not None else {"call": [1, 1, list(range(len(contents)))]},
        "chunks": [len(body), len(table), frames.digest(table)],
        **replaced,
    }
    body += table
    packed = frames.skippable(frames.INDEX_TAG + msgpack.packb(index))
    trailer = frames.Trailer(
        len(body), len(packed), frames.digest(packed), len(body) + len(packed) + frames.TRAILER_SIZE
    )
    path.write_bytes(body + packed + frames.trailer_frame(trailer))


def limited(path: Path, megabytes: int) -> subprocess.CompletedProcess[str]:
    """Read everything in a process with little address space. Ends with status 0 and prints OUR error, or nothing."""
    program = f"""
import resource, sys
from replay.errors import ReplayError
from replay.snapshot.container import SnapshotReader
from replay.snapshot.container import frames
import threading
before = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (before + ({megabytes} << 20),) * 2)
for tolerant in (False, True):
    try:
        with SnapshotReader(sys.argv[1], tolerant=tolerant) as reader:
            for kind in list(reader.kinds):
                for value in reader.objects(kind):
                    pass
            report = reader.verify()
            print("damages:", report.damages[:3])
    except ReplayError as error:
        print(type(error).__name__, error)
"""
    return subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=100, check=False
    )


def huge_length(kind: int) -> bytes:
    """["call", X] where X claims 2 GB: a bin, a str, an array, a map, an ext."""
    head = {0: b"\xc6", 1: b"\xdb", 2: b"\xdd", 3: b"\xdf", 4: b"\xc9"}[kind]
    return b"\x92\xa4call" + head + struct.pack(">I", 2 << 30) + b"\x01" * 8


def nested(depth: int) -> bytes:
    return b"\x92\xa4call" + b"\x91" * depth + b"\xc0"


def long_frame(path: Path) -> None:
    """The index has one frame of 450 MB, which are a hole in the file."""
    start, table = frames.start_frame(), frames.skippable(frames.CHUNK_TABLE_TAG)
    behind = len(start) + (450 << 20)
    index = {
        "frames": frames.pack_frame_records([frames.FrameRecord(len(start), 450 << 20, 100, 1, bytes(16))]),
        "kinds": {"call": [1, 1, [0]]},
        "chunks": [behind, len(table), frames.digest(table)],
    }
    packed = frames.skippable(frames.INDEX_TAG + msgpack.packb(index))
    end = behind + len(table) + len(packed) + frames.TRAILER_SIZE
    trailer = frames.Trailer(behind + len(table), len(packed), frames.digest(packed), end)
    with path.open("wb") as file:
        file.write(start)
        file.seek(behind)
        file.write(table + packed + frames.trailer_frame(trailer))


HOSTILE: dict[str, Callable[[Path], None]] = {
    **{
        f"a 2 GB length ({name})": lambda path, kind=kind: assemble(path, [zstd(huge_length(kind))])  # type: ignore[misc]
        for kind, name in enumerate(("bin", "str", "array", "map", "ext"))
    },
    "nesting of 33": lambda path: assemble(path, [zstd(nested(33))]),
    "nesting of 100,000": lambda path: assemble(path, [zstd(nested(100_000))]),
    "a frame of 1 GB of zeros": lambda path: assemble(path, [zstd(bytes(1 << 30))]),
    "a frame of 450 MB in the file": long_frame,
    "a frame that does not say its size": lambda path: assemble(
        path, [zstandard.ZstdCompressor(write_content_size=False).compress(bytes(80 << 20))]
    ),
    "16 MiB of empty maps": lambda path: assemble(
        path, [zstd(b"\x92\xa4call\xdd" + struct.pack(">I", 15 << 20) + b"\x80" * (15 << 20))]
    ),
    "5 MiB of short texts": lambda path: assemble(
        path, [zstd(b"\x92\xa4call\xdd" + struct.pack(">I", 2 << 20) + b"\xa2ab" * (2 << 20))]
    ),
    "5 MiB of small arrays": lambda path: assemble(
        path, [zstd(b"\x92\xa4call\xdd" + struct.pack(">I", 5 << 19) + b"\x91\xc0" * (5 << 19))]
    ),
    "an object of 60 MiB": lambda path: assemble(
        path, [zstd(b"\x92\xa4call\xc6" + struct.pack(">I", 60 << 20) + bytes(60 << 20))]
    ),
    "half a million tiny objects": lambda path: assemble(path, [zstd(b"\x92\xa1a\xc0" * (1 << 18))]),
    "half a million tiny objects without an index": lambda path: path.write_bytes(
        frames.start_frame() + zstd(b"\x92\xa1a\xc0" * (1 << 18)) * 2
    ),
    "a million kinds without an index": lambda path: path.write_bytes(
        frames.start_frame() + zstd(b"".join(b"\x92\xa7%07d\xc0" % n for n in range(1 << 20)))
    ),
    "an index of a million kinds": lambda path: assemble(
        path, [zstd(nested(1))], {f"{number}": [1, 1, [0]] for number in range(1 << 19)}
    ),
    "no pair": lambda path: assemble(path, [zstd(b"\x93\xa4call\xc0\xc0")]),
    "a kind that is a number": lambda path: assemble(path, [zstd(b"\x92\x01\xc0")]),
    "a kind of 100 letters": lambda path: assemble(path, [zstd(b"\x92\xd9\x64" + b"k" * 100 + b"\xc0")]),
    "text that is no UTF-8": lambda path: assemble(path, [zstd(b"\x92\xa4call\xa2\xff\xfe")]),
    "half an object": lambda path: assemble(path, [zstd(b"\x92\xa4call\x92\x01")]),
    "a chunk with a wrong digest": lambda path: assemble(
        path, [zstd(msgpack.packb(["chunk", [bytes(16), b"x"]]))], {"chunk": [1, 1, [0]]}
    ),
    "a frame number that is too high": lambda path: assemble(path, [zstd(nested(1))], {"call": [1, 1, [1]]}),
    "a negative frame number": lambda path: assemble(path, [zstd(nested(1))], {"call": [1, 1, [-1]]}),
    "frames listed twice": lambda path: assemble(path, [zstd(nested(1))], {"call": [1, 1, [0, 0]]}),
    "kinds that are no map": lambda path: assemble(path, [zstd(nested(1))], ["call"]),  # type: ignore[arg-type]
    "an index without frames": lambda path: assemble(path, [zstd(nested(1))], frames=None),
    "a table beyond the file": lambda path: assemble(
        path, [zstd(nested(1))], chunks=[1 << 60, 1 << 60, bytes(16)]
    ),
    "a table of half a record": lambda path: assemble(path, [zstd(nested(1))], table=b"x" * 13),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_bounded_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.rsnap"
    HOSTILE[name](path)
    # The decompressed frame twice (64 MiB each), the decoded object, and the interpreter's own needs.
    done = limited(path, 400)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    first, *_ = done.stdout.splitlines()
    assert "Error" in first or "Damage(" in first or name.startswith(("5 MiB", "half a million tiny")), (
        done.stdout
    )


def test_reading_a_large_snapshot_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.rsnap"
    noise = random.Random(9).randbytes(1 << 20)
    with SnapshotWriter(path, threads=2) as out:
        for number in range(300):
            out.write_chunk(number.to_bytes(8, "little") + noise[8:])
        for number in range(100_000):
            out.write("call", (number, "x" * 40))
    done = limited(path, 150)
    assert done.stdout.splitlines() == ["damages: []"] * 2, done.stderr


def test_writing_a_large_snapshot_needs_little_memory(tmp_path: Path) -> None:
    program = """
import random, resource, sys
from replay.snapshot.container import SnapshotWriter
noise = random.Random(9).randbytes(1 << 20)
with open(sys.argv[1], "wb") as source:
    for number in range(400):
        source.write(number.to_bytes(8, "little") + noise[8:])
with SnapshotWriter(sys.argv[2], threads=2) as out, open(sys.argv[1], "rb") as source:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out.write_chunks_from(source, 0, 400 << 20, 256 << 10)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "source"), str(tmp_path / "x.rsnap")],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert int(done.stdout) < 150


def test_the_limit_on_nesting_is_the_one_that_the_writer_keeps(tmp_path: Path) -> None:
    deep: object = 0
    for _ in range(frames.MAX_NESTING):
        deep = (deep,)
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        out.write("note", deep)
        with pytest.raises(LimitError):
            out.write("note", (deep,))
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.first("note") == deep


def test_resource_limits_are_in_force_in_these_tests(tmp_path: Path) -> None:
    """The guard of the tests above: the same program does fail when the memory is really needed."""
    path = tmp_path / "x.rsnap"
    with SnapshotWriter(path) as out:
        for number in range(8):
            out.write_chunk(random.Random(number).randbytes(1 << 20))
    assert limited(path, 1).returncode != 0 or "MemoryError" in limited(path, 1).stderr
    assert resource.getpagesize() > 0
