"""Chunks handed over by threads: the right bytes to every place, damage named, nothing held without a bound."""

from __future__ import annotations

import ctypes
import random
import threading
from contextlib import contextmanager

import pytest

from replay.engine.contents import loading
from replay.engine.contents.loading import Loader, Stretch
from replay.errors import DamagedError, FormatError
from replay.snapshot.container import FrameDecompressor, SnapshotReader, SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES

CHUNKS = 320  # of 256 KiB: 20 frames


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


@pytest.fixture(params=[1, 2, 5])
def processors(request, monkeypatch):
    """How many there are, as far as the loader knows."""
    monkeypatch.setattr(loading.os, "sched_getaffinity", lambda process: set(range(request.param)))
    return request.param


def stretches(chunks, order):
    """A stretch for each place of the order; its offset tells its position there."""
    return [Stretch(chunks[place][0], CHUNK_BYTES, None, position) for position, place in enumerate(order)]


ORDERS = {
    "in order": list(range(CHUNKS)),
    "backwards": list(range(CHUNKS))[::-1],
    "one chunk again and again": [5] * 40 + [7] * 40,
    "far apart in turns": [place for number in range(40) for place in (number, CHUNKS - 1 - number)],
    "frames in turns": [16 * frame for _ in range(3) for frame in range(CHUNKS // 16)],
    "at random": random.Random(1).choices(range(CHUNKS), k=200),
    "nothing": [],
}


@pytest.mark.parametrize("order", ORDERS, ids=list(ORDERS))
def test_every_place_gets_its_bytes_once_and_each_frame_is_read_once(written, order, processors, monkeypatch):
    path, chunks = written
    got, read, told, threads = {}, [], [], set()
    lock = threading.Lock()

    def write(stretch, data):
        with lock:
            assert stretch.offset not in got
            got[stretch.offset] = bytes(data)
            threads.add(threading.current_thread().name)

    with SnapshotReader(path) as reader:
        whole = reader.checked_frame
        monkeypatch.setattr(reader, "checked_frame", lambda *words: read.append(words[0]) or whole(*words))
        loader = Loader(reader, stretches(chunks, ORDERS[order]), write, progress=told.append)
        loader.run()
    assert got == {position: chunks[place][1] for position, place in enumerate(ORDERS[order])}
    assert len(read) == len(set(read))
    assert loader.threads <= processors
    assert len(threads) <= loader.threads
    assert told == sorted(told)
    assert not told or told[-1] <= len(got) * CHUNK_BYTES
    if order == "in order":
        assert loader.threads == processors
        assert len(read) >= 10


def test_a_thread_that_is_done_takes_over_from_the_others(written, monkeypatch):
    path, chunks = written
    monkeypatch.setattr(loading.os, "sched_getaffinity", lambda process: {0, 1})
    other_began, others_done, by = threading.Event(), threading.Event(), {}

    def write(stretch, data):
        name = threading.current_thread().name
        by[name] = by.get(name, 0) + 1
        if name == "load-1":
            other_began.set()
        else:
            assert other_began.wait(60)
        if len(by) == 2 and sum(by.values()) >= CHUNKS - 16:
            others_done.set()
        if name == "load-1" and by[name] == 1:
            assert others_done.wait(60)

    with SnapshotReader(path) as reader:
        Loader(reader, stretches(chunks, range(CHUNKS)), write).run()
    assert sum(by.values()) == CHUNKS
    assert by["load-1"] < CHUNKS // 4


@pytest.mark.parametrize("given", [0, 1, 3])
def test_where_the_system_gives_fewer_threads_these_load_everything(written, given, monkeypatch):
    path, chunks = written
    monkeypatch.setattr(loading.os, "sched_getaffinity", lambda process: set(range(5)))
    start, started, got = threading.Thread.start, [], {}

    def give(thread):
        if len(started) == given:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", give)
    with SnapshotReader(path) as reader:
        Loader(
            reader,
            stretches(chunks, range(CHUNKS)),
            lambda stretch, data: got.update({stretch.offset: bytes(data)}),
        ).run()
    assert len(started) == given
    assert got == {place: data for place, (_, data) in enumerate(chunks)}
    assert not any(thread.is_alive() for thread in started)


def test_what_is_for_the_calling_thread_stays_there(written, processors):
    path, chunks = written
    found = {}
    with SnapshotReader(path) as reader:
        Loader(
            reader,
            stretches(chunks, range(CHUNKS)),
            lambda stretch, data: found.update({stretch.offset: threading.current_thread()}),
            alone=lambda stretch: stretch.offset % 64 == 63,
        ).run()
    assert len(found) == CHUNKS
    assert {found[place] for place in range(63, CHUNKS, 64)} == {threading.current_thread()}


def test_other_threads_work_inside_what_surrounds_them(written, processors):
    path, chunks = written
    inside, log = threading.local(), []

    @contextmanager
    def helping():
        inside.here = True
        yield
        inside.here = False
        log.append(threading.current_thread().name)

    def write(stretch, data):
        helper = threading.current_thread() is not threading.main_thread()
        assert getattr(inside, "here", False) is helper

    with SnapshotReader(path) as reader:
        Loader(reader, stretches(chunks, range(CHUNKS)), write, helping=helping).run()
    assert sorted(log) == [f"load-{number}" for number in range(1, processors)]


def test_an_error_in_any_thread_ends_the_loading(written, processors):
    path, chunks = written
    before = threading.active_count()
    for wanted in {"MainThread", f"load-{processors - 1}"} if processors > 1 else {"MainThread"}:
        count, failed = [], threading.Event()

        # The others wait, so that they cannot have done all the work before the wanted thread has begun
        def write(stretch, data, wanted=wanted, count=count, failed=failed):
            count.append(stretch)
            if threading.current_thread().name == wanted:
                failed.set()
                raise MemoryError("none is left")
            assert failed.wait(60)

        with SnapshotReader(path) as reader, pytest.raises(MemoryError, match="none is left"):
            Loader(reader, stretches(chunks, range(CHUNKS)), write).run()
        assert threading.active_count() == before
        assert len(count) < CHUNKS


@pytest.mark.parametrize(
    ("held_bytes", "processors", "threads"),
    [(9 << 20, 8, 2), (1, 8, 1), (256 << 20, 3, 3), (256 << 20, 99, 8)],
)
def test_memory_of_frames_is_used_again_and_bounded(written, held_bytes, processors, threads, monkeypatch):
    path, chunks = written
    monkeypatch.setattr(loading, "HELD_BYTES", held_bytes)
    monkeypatch.setattr(loading.os, "sched_getaffinity", lambda process: set(range(processors)))
    seen = {}
    with SnapshotReader(path) as reader:
        loader = Loader(
            reader,
            stretches(chunks, range(CHUNKS)),
            # Alive, so that no other gets its number
            lambda stretch, data: seen.update({id(data.content): data.content}),
        )
        loader.run()
    assert loader.threads == threads
    assert len(seen) <= threads


def test_little_is_loaded_without_threads(written, processors):
    path, chunks = written
    with SnapshotReader(path) as reader:
        assert Loader(reader, stretches(chunks, range(15)), lambda *words: None).threads == 1


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
    path, chunks = written
    found = []
    with SnapshotReader(path) as reader:
        Loader(
            reader,
            stretches(chunks, [9]),
            lambda stretch, piece: found.append(ctypes.string_at(piece.address, len(piece))),
        ).run()
    assert found == [chunks[9][1]]


def test_a_chunk_that_is_not_in_the_file_is_named_and_the_others_are_handed_over(written):
    path, chunks = written
    plan = stretches(chunks, [0, 1])
    plan.insert(1, Stretch(b"\1" * 16, CHUNK_BYTES, None, 9))
    got = {}
    with SnapshotReader(path) as reader, pytest.raises(FormatError, match="is not in the file"):
        Loader(reader, plan, lambda stretch, data: got.update({stretch.offset: bytes(data)})).run()
    assert got == {0: chunks[0][1], 1: chunks[1][1]}


def test_a_chunk_of_another_length_is_named(written):
    path, chunks = written
    plan = [Stretch(chunks[0][0], 100, None, 0)]
    with SnapshotReader(path) as reader, pytest.raises(FormatError, match="not 100"):
        Loader(reader, plan, lambda *words: None).run()


def test_damage_in_a_frame_is_named_and_other_frames_are_read(written, tmp_path, processors):
    path, chunks = written
    with SnapshotReader(path) as reader:
        frame = reader.frames[reader.place_of_chunk(chunks[100][0])[0]]
    data = bytearray(path.read_bytes())
    data[frame.offset + frame.compressed_bytes // 2] ^= 0x20
    damaged = tmp_path / "damaged.rsnap"
    damaged.write_bytes(data)
    got = {}
    with (
        SnapshotReader(damaged) as reader,
        pytest.raises(DamagedError, match=rf"memory chunk [0-9a-f]+ in bytes {frame.offset} to "),
    ):
        Loader(
            reader,
            stretches(chunks, range(CHUNKS)),
            lambda stretch, piece: got.update({stretch.offset: bytes(piece)}),
        ).run()
    assert 0 in got
    assert 100 not in got
    assert CHUNKS - 1 in got
    assert all(chunks[place][1] == held for place, held in got.items())
