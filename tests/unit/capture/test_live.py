"""Snapshots that are written while the application runs: when, and which of them are kept."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from replay.capture.asked import Counts, counts_of
from replay.capture.live import Live
from replay.cli.watching import parse_live
from replay.errors import FileError, UsageError
from replay.pack import PackReport


@pytest.fixture
def raw(tmp_path):
    def counted(hits, launches=0, name="calls.7.bin"):
        counts = struct.pack("<IIQQQQQQQQQ", 1, hits, launches, *[0] * 8)
        (tmp_path / name).write_bytes(b"RCAPCALL" + bytes(56) + counts)
        return tmp_path

    return counted


class Writer:
    """Stands for packing: each time as many snapshots of 100 bytes as it is told."""

    def __init__(self, folder, *counts, fails=0):
        self.folder, self.counts, self.fails, self.made = folder, list(counts), fails, 0

    def __call__(self):
        if self.fails:
            self.fails -= 1
            raise FileError("no space left", where="here")
        report = PackReport()
        for _ in range(self.counts.pop(0)):
            self.made += 1
            path = self.folder / f"x.{self.made}.rsnap"
            path.write_bytes(bytes(100))
            report.snapshots.append(
                SimpleNamespace(path=path, file_bytes=100, summary=SimpleNamespace(trigger="error launch 1"))
            )
        return report


def test_nothing_is_written_before_a_trigger_has_come(raw, tmp_path):
    events = []
    live = Live(Writer(tmp_path), tell=events.append)
    live.look(raw(0, 12))
    assert [(event.event, event.launches) for event in events] == [("status", 12)]


def test_the_oldest_are_removed_beyond_the_size_and_the_newest_never(raw, tmp_path):
    events = []
    live = Live(Writer(tmp_path, 3, 1), keep_bytes=250, cpu_share=1.0, tell=events.append)
    live.look(raw(3))
    assert sorted(path.name for path in tmp_path.glob("*.rsnap")) == ["x.2.rsnap", "x.3.rsnap"]
    live.keep_bytes, live._not_before_s = 1, 0.0
    live.look(raw(4))
    assert [path.name for path in tmp_path.glob("*.rsnap")] == ["x.4.rsnap"]
    removed = [event.path for event in events if event.event == "removed"]
    assert removed == ["x.1.rsnap", "x.2.rsnap", "x.3.rsnap"]
    assert (events[-1].snapshots, events[-1].kept_bytes) == (4, 100)


def test_what_could_not_be_written_is_told_and_tried_again(raw, tmp_path):
    events = []
    live = Live(Writer(tmp_path, 1, fails=1), cpu_share=1.0, tell=events.append)
    live.look(raw(1))
    assert events[0].event == "failed"
    assert "no space left" in events[0].why
    live._not_before_s = 0.0
    live.look(raw(1))
    assert live.written == 1


def test_writing_takes_no_more_than_its_share(raw, tmp_path, monkeypatch):
    now = {"cpu": 0.0, "wall": 100.0}
    clocks = SimpleNamespace(monotonic=lambda: now["wall"], process_time=lambda: now["cpu"])
    monkeypatch.setattr("replay.capture.live.time", clocks)
    writer = Writer(tmp_path, 1, 1)

    def write():
        now["cpu"] += 2.0
        return writer()

    live = Live(write, cpu_share=0.05)
    live.look(raw(1))
    now["wall"] += 39.0
    live.look(raw(2))
    assert live.written == 1
    now["wall"] += 2.0
    live.look(raw(2))
    assert live.written == 2


def test_a_file_that_is_none_counts_nothing(tmp_path):
    (tmp_path / "calls.1.bin").write_bytes(b"short")
    assert counts_of(tmp_path / "calls.1.bin") == Counts()
    assert counts_of(tmp_path / "absent") == Counts()


@pytest.mark.parametrize(("share", "words"), [("0%", "no share"), ("5", "no share"), ("200%", "no share")])
def test_shares_that_make_no_sense_are_refused(share, words):
    selection = SimpleNamespace(watching=SimpleNamespace(maximum_snapshots=3))
    with pytest.raises(UsageError, match=words):
        parse_live(selection, None, share, None)


def test_options_of_watching_need_it():
    with pytest.raises(UsageError, match="--keep and --status belong to --when"):
        parse_live(SimpleNamespace(watching=None), "1G", None, "-")
    assert (
        parse_live(SimpleNamespace(watching=SimpleNamespace(maximum_snapshots=1)), None, None, None) is None
    )
