"""A redacted snapshot holds less, and does the same."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import struct
from pathlib import Path

import pytest

from replay.errors import GateFailed
from replay.redaction.noise import noise
from replay.redaction.redact import RedactOptions
from replay.redaction.redact import redact as redacted
from replay.snapshot.contents import Snapshot

from ..conftest import DRIVER, Replay
from .test_planted_secrets import found_in


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


def test_each_of_several_windows_gets_noise(replay: Replay) -> None:
    replay.capture("--kernel", "pointer_table", "--each", "--launch", "1-2", "-o", "x.rsnap",
                   application=replay.application("pointer_table"))  # fmt: skip
    found = redact(replay, "--level", "noise", "--keep", "2")
    assert found["proof"]["state"] == "same"
    buffers = {(item["window"], item["id"]): item for item in found["buffers"]}
    for window in (1, 2):
        assert buffers[window, 2]["exact_bytes"] == buffers[window, 2]["size_bytes"]
        assert sum(item["noise_bytes"] for (number, _), item in buffers.items() if number == window)
    assert "outputs of 2 of 2 windows match" in replay.run("y.rsnap").stdout
    error = redact(replay, "--level", "noise", "--keep", "99", status=2)
    assert "no such memory" in error["what"]


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


def test_a_file_without_contents_is_not_exported(replay: Replay, good_snapshot: Path) -> None:
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    redact(replay, "--level", "shapes")
    assert "--level shapes" in replay("export", "y.rsnap", "--cuda", "z", status=3).stderr
    assert not (replay.folder / "z").exists()


@pytest.mark.parametrize("level", ["noise", "shapes"])
def test_renamed_kernels_do_the_same_and_are_named_nowhere(replay: Replay, level: str) -> None:
    name = "matmul_tiled"
    program = shutil.copy(replay.samples / name, replay.folder / "program")
    shutil.copy(replay.samples / f"{name}.ptx", replay.folder)
    replay.capture("--kernel", name, application=[str(program)])
    assert found_in([replay.folder / "x.rsnap"], [name])
    found = redact(replay, "--level", level, "--rename")
    assert found["renamed"][name] == "kernel_1"
    assert found["digests"]
    assert found_in([replay.folder / "y.rsnap"], [name]) == []
    if level != "shapes":
        assert found["proof"]["state"] == "same"
        assert "kernel_1" in replay.run("y.rsnap").stdout


def test_what_the_user_typed_is_gone_although_it_was_kept(replay: Replay, tmp_path: Path) -> None:
    secret = "nothingspecial"
    script = replay.folder / "start.sh"
    script.write_text('#!/bin/sh\nexec "$1"\n')
    words = ["sh", str(script), *replay.application("vector_add"), secret]
    replay.capture("--all", "--keep-command-line", application=words)
    redact(replay)
    assert secret in replay("info", "x.rsnap", "--json").stdout
    assert secret not in replay("info", "y.rsnap", "--json").stdout


# Never executed, since the guard is false where it is; but what it would read is not followed.
TEXTURE = (
    ".reg .f32 %t<5>; mov.f32 %t0, 0f00000000; @%p1 tex.1d.v4.f32.f32 {%t1, %t2, %t3, %t4}, [%rd1, {%t0}];"
)
# Whether an element of B is stored depends on its value.
BRANCH = "setp.lt.f32 %p1, %f1, 0f3E99999A; @%p1 bra $L__BB0_2;"


def captured(replay: Replay, before_it_stores: str) -> list[dict]:
    """A capture of vector_add with other instructions, too; its buffers."""
    text = (replay.samples / "vector_add.ptx").read_text()
    store = "st.global.f32 \t[%rd10], %f3;"
    assert store in text
    program = shutil.copy(replay.samples / "vector_add", replay.folder)
    (replay.folder / "vector_add.ptx").write_text(text.replace(store, f"{before_it_stores}\n{store}"))
    replay.capture("--kernel", "vector_add", "--launch", "1", application=[str(program)], status=None)
    return json.loads(replay("ls", "x.rsnap", "memory", "--json").stdout)["memory"]


def test_trusted_types_make_noise_where_nothing_says_what_decides(replay: Replay) -> None:
    first, second, *_ = (str(item["id"]) for item in captured(replay, TEXTURE))
    types = ("--level", "noise", "--dtype", f"{first}=f32")
    told = redact(replay, *types)["buffers"]
    assert all("cannot be followed" in item["reason"] and not item["noise_bytes"] for item in told)
    buffers = {str(item["id"]): item for item in redact(replay, *types, "--trust-dtype")["buffers"]}
    assert buffers[first]["noise_bytes"] == buffers[first]["size_bytes"]
    assert "cannot be followed" in buffers[second]["reason"]
    assert "outputs match" in replay.run("y.rsnap").stdout


def test_values_that_a_branch_hangs_on_stay_and_the_branch_is_named(replay: Replay) -> None:
    first, second, *_ = (item["id"] for item in captured(replay, BRANCH))
    buffers = {item["id"]: item for item in redact(replay, "--level", "noise")["buffers"]}
    assert buffers[first]["noise_bytes"]
    assert buffers[second]["exact_bytes"] == buffers[second]["size_bytes"]
    assert "an address or a branch hangs on it (vector_add, PTX line " in buffers[second]["reason"]


def test_the_buffer_that_changes_the_way_of_a_kernel_is_named(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the reader of PTX had not seen that a value decides: the proof does."""
    first, second, *_ = (item["id"] for item in captured(replay, BRANCH))
    real = noise.words_of
    monkeypatch.setattr(
        noise, "words_of", lambda *arguments: dataclasses.replace(real(*arguments), exact=noise.runs_of(()))
    )
    options = RedactOptions("noise", driver=DRIVER)
    output = replay.folder / "y.rsnap"
    with pytest.raises(GateFailed, match="takes another way") as error:
        redacted(replay.folder / "x.rsnap", output, options)
    assert error.value.next == f"give --keep {second}, with which it does"
    assert not output.exists()
    found = redacted(replay.folder / "x.rsnap", output, dataclasses.replace(options, keep=(str(second),)))
    buffers = {item.id: item for item in found.buffers}
    assert buffers[first].noise_bytes
    assert (buffers[second].noise_bytes, buffers[second].reason) == (0, "--keep")


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
