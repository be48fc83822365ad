"""A redacted snapshot holds less, and does the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
from pathlib import Path

import pytest

from replay.snapshot.contents import Snapshot

from ..conftest import DRIVER, Replay


def redact(replay: Replay, *options: str, status: int = 0) -> dict:
    done = replay("redact", "x.rsnap", "-o", "y.rsnap", "--driver", DRIVER, "--json", *options, status=status)
    return json.loads(done.stdout)


def contents(path: Path, moment: str = "before") -> list[bytes]:
    with Snapshot(path) as opened:
        return [
            opened.read(kept, 1 << 24)
            for item in opened.ranges()
            if (kept := getattr(item, moment)) is not None
        ]


@pytest.fixture
def pointers(replay: Replay) -> Path:
    """A window that follows a table of pointers to floats."""
    replay.capture("--all", "--keep-command-line", application=replay.application("pointer_table"))
    return replay.folder / "x.rsnap"


def test_paths_keep_memory_and_outputs(replay: Replay, pointers: Path) -> None:
    found = redact(replay)
    assert (found["level"], found["proof"]["state"], found["remade_outputs"]) == ("paths", "same", False)
    assert contents(replay.folder / "y.rsnap") == contents(pointers)
    assert "outputs match" in replay.run("y.rsnap").stdout
    assert "REDACTED" in replay("info", "y.rsnap").stdout


def test_noise_keeps_pointers_and_replaces_floats(replay: Replay, pointers: Path) -> None:
    found = redact(replay, "--level", "noise")
    assert found["proof"]["state"] == "same"
    assert found["remade_outputs"]
    buffers = {item["size_bytes"]: item for item in found["buffers"]}
    table = next(item for item in found["buffers"] if not item["noise_bytes"])
    assert table["exact_bytes"] == table["size_bytes"]
    assert any(item["types"] == ["f32"] for item in buffers.values())
    for old, new in zip(contents(pointers), contents(replay.folder / "y.rsnap"), strict=True):
        assert len(old) == len(new)
        if len(old) > 4096 and any(old):
            words = [[word for (word,) in struct.iter_unpack("<I", data[:4096])] for data in (old, new)]
            same = sum(map(int.__eq__, *words))
            assert same < 256
    assert "outputs match" in replay.run("y.rsnap").stdout


def test_a_kept_buffer_stays(replay: Replay, pointers: Path) -> None:
    replay("redact", "x.rsnap", "-o", "y.rsnap", "--level", "noise", "--keep", "2", "--driver", DRIVER)
    with Snapshot(pointers) as old, Snapshot(replay.folder / "y.rsnap") as new:
        kept = [next(item.before for item in one.ranges() if item.id == 2) for one in (old, new)]
    assert kept[0] == kept[1]


def test_noise_follows_copies_of_rows_to_the_host(replay: Replay) -> None:
    replay.capture("--all", application=replay.application("matmul_tiled"))
    found = redact(replay, "--level", "noise")
    assert found["proof"]["state"] == "same"
    assert sum(item["noise_bytes"] for item in found["buffers"])
    assert "outputs match" in replay.run("y.rsnap").stdout


def test_shapes_hold_no_contents_and_cannot_be_replayed(replay: Replay, pointers: Path) -> None:
    found = redact(replay, "--level", "shapes")
    assert found["proof"]["state"] == "none"
    assert found["file_bytes"] < found["original_bytes"] / 4
    assert contents(replay.folder / "y.rsnap") == contents(replay.folder / "y.rsnap", "after") == []
    assert "holds no contents" in replay.run("y.rsnap", status=3).stderr
    assert "entropy" in replay("ls", "y.rsnap", "notes", "--json").stdout


def test_what_the_user_typed_is_gone_although_it_was_kept(replay: Replay, tmp_path: Path) -> None:
    secret = "nothingspecial"
    script = replay.folder / "start.sh"
    script.write_text('#!/bin/sh\nexec "$1"\n')
    words = ["sh", str(script), *replay.application("vector_add"), secret]
    replay.capture("--all", "--keep-command-line", application=words)
    redact(replay)
    assert secret in replay("info", "x.rsnap", "--json").stdout
    assert secret not in replay("info", "y.rsnap", "--json").stdout


def test_what_cannot_be_followed_stays_and_is_told(replay: Replay) -> None:
    replay.capture("--kernel", "filter", application=replay.application("texture_filter"))
    found = redact(replay, "--level", "noise")
    assert all(item["exact_bytes"] for item in found["buffers"] if item["reason"])
    assert any("cannot be followed" in item["reason"] for item in found["buffers"])


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--level", "all"], 2, "no level"),
        (["--keep", "1"], 2, "for --level noise"),
        (["--level", "noise", "--no-replay"], 2, "without a replay"),
        (["--level", "noise", "--dtype", "1=i8"], 2, "no floating-point type"),
        (["--level", "noise", "--keep", "77"], 2, "no such memory"),
    ],
)
def test_what_makes_no_sense_is_refused(
    replay: Replay, good_snapshot: Path, options: list[str], status: int, words: str
) -> None:
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    assert words in redact(replay, *options, status=status)["what"]
    assert [path.name for path in replay.folder.iterdir()] == ["x.rsnap"]


def test_the_snapshot_itself_is_not_replaced(replay: Replay, good_snapshot: Path) -> None:
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    assert "itself" in replay("redact", "x.rsnap", "-o", "x.rsnap", status=3).stderr


def test_what_a_killed_command_left_is_removed_by_the_next(replay: Replay, good_snapshot: Path) -> None:
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    process = replay.start(replay.command("redact", "x.rsnap", "-o", "y.rsnap", "--driver", DRIVER))
    while not list(replay.folder.glob(".y.rsnap.*.partial")):
        assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    redact(replay)
    assert sorted(path.name for path in replay.folder.iterdir()) == ["x.rsnap", "y.rsnap"]
