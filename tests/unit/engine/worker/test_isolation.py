"""What keeps a worker within its bounds: how much memory it holds, and how much of its log is kept."""

from __future__ import annotations

import mmap
import os

import pytest

from replay.errors import FileError
from replay.run import isolation
from replay.run.isolation import MemoryWatch, WorkerLog, default_memory_limit, held_bytes

NORESERVE = 0x4000  # MAP_NORESERVE, which the mmap module of Python 3.12 and older does not name


def test_touched_memory_is_held_and_reserved_memory_is_not():
    before = held_bytes(os.getpid(), 1 << 50)
    reserved = mmap.mmap(-1, 1 << 34, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    assert held_bytes(os.getpid(), 1 << 50) - before < 16 << 20
    for at in range(0, 32 << 20, 4096):
        reserved[at] = 1
    assert held_bytes(os.getpid(), 1 << 50) - before > 24 << 20
    reserved.close()


def test_memory_that_is_mapped_twice_counts_once_where_it_matters():
    descriptor = os.memfd_create("twice")
    os.truncate(descriptor, 64 << 20)
    maps = [mmap.mmap(descriptor, 64 << 20) for _ in range(2)]
    for one in maps:
        for at in range(0, 64 << 20, 4096):
            one[at] = 1
    cheap, exact = held_bytes(os.getpid(), 1 << 50), held_bytes(os.getpid(), 0)
    assert cheap - exact > 48 << 20
    for one in maps:
        one.close()
    os.close(descriptor)


def test_process_that_is_gone_holds_nothing():
    assert held_bytes((1 << 22) - 1, 1) == 0


def test_watch_looks_now_and_then(monkeypatch):
    monkeypatch.setattr(isolation, "SAMPLE_INTERVAL_S", 100)
    watch = MemoryWatch(os.getpid(), 1)
    assert watch.exceeded() > 1
    assert watch.exceeded() == 0  # too soon to look again
    assert MemoryWatch(os.getpid(), None).limit_bytes == default_memory_limit()
    assert MemoryWatch(os.getpid(), 1 << 60).exceeded() == 0


def test_log_is_bounded_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "MAXIMUM_LOG_BYTES", 10)
    log = WorkerLog(tmp_path / "new" / "folder", "worker")
    for text in ("loading", "loading", "replaying"):
        log.step(text)
    log.printed(b"123456")
    log.printed(b"789012")
    log.printed(b"345")
    log.close()
    assert (tmp_path / "new" / "folder" / "worker.out").read_bytes() == b"1234567890"
    steps = [
        line.split(" s  ", 1)[1]
        for line in (tmp_path / "new" / "folder" / "worker.log").read_text().splitlines()
    ]
    assert steps[:2] == ["loading", "replaying"]
    assert "the rest is not kept" in steps[2]


def test_log_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="choose another folder"):
        WorkerLog(tmp_path / "file", "worker")


def test_no_folder_no_log():
    log = WorkerLog(None, "worker")
    log.step("loading")
    log.printed(b"text")
    log.close()
    assert log.problem == ""
