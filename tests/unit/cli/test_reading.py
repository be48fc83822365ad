"""`info`, `ls` and `verify`: what they show, at any width and as JSON, of whole, cut and damaged snapshots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replay.snapshot.container import SnapshotWriter

from ..helpers.command import HOSTILE, on_terminal, plain, run
from ..helpers.saxpy_snapshot import IMAGE_DIGEST, write_snapshot


@pytest.mark.parametrize("command", ["info", "verify", "ls", "dump"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.touch(), "empty"),
        (lambda path: path.write_bytes(b"PK\x03\x04" * 10), "not a snapshot"),
        (lambda path: path.write_bytes(write_snapshot(path).read_bytes()[:100]), "no whole part"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_3_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, make: Any, words: str
) -> None:
    path = tmp_path / "x.rsnap"
    make(path)
    extra = {"ls": ["calls"], "dump": ["-o", tmp_path / "out"]}.get(command, [])
    assert run(command, path, *extra) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert captured.err.startswith(f"replay: {path}: ")
    assert not (tmp_path / "out").exists()


def cut(path: Path) -> Path:
    """Without its index and its last frames."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 300])
    return path


def test_a_cut_file_is_shown_as_far_as_it_goes(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(snapshot)
    assert run("info", snapshot) == 0
    out = capsys.readouterr().out
    assert "INCOMPLETE" in out
    assert "usable up to byte" in out
    assert "Replay it" not in out
    assert run("verify", snapshot) == 1
    assert "incomplete: it ends early, or its index is damaged; usable up to byte" in capsys.readouterr().out
    assert run("ls", snapshot, "kernels") == 0
    assert "see `replay verify`" in capsys.readouterr().err


def test_a_damaged_file_fails_verify_and_names_the_place(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(snapshot.read_bytes())
    data[1000] ^= 1
    snapshot.write_bytes(data)
    assert run("verify", snapshot) == 1
    out = capsys.readouterr().out
    assert "bytes 40 to" in out
    assert "checksum" in out
    assert run("verify", snapshot, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "replay.verify/1"
    assert document["good"] is False
    assert document["report"]["damages"][0]["offset"] == 40


def test_missing_memory_is_found_though_every_checksum_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from replay.snapshot import schema

    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        contents = schema.Contents(10, b"0123456789abcdef")
        out.write("range", schema.to_wire(schema.Range(7, "device", 4096, 10, 0, 1, before=contents)))
    assert run("verify", tmp_path / "x.rsnap") == 1
    assert "memory 7 (before): its contents are damaged or not in the file" in capsys.readouterr().out


def test_an_object_that_breaks_the_schema_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        out.write("summary", {"selection": 5})
    assert run("info", tmp_path / "x.rsnap") == 3
    assert "Summary.selection is a int" in capsys.readouterr().err


def test_info_fits_one_screen_and_has_what_a_newcomer_asks(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("info", snapshot) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 24
    for words in (
        "./saxpy --n 600000",
        "NVIDIA H100 80GB HBM3 (sm_90), driver 13.0",
        "--kernel saxpy --launch 1",
        "1 launch",
        "saxpy(int, float, float const*, float*)",
        "2344",
        "256",
        "4 (24 B)",
        "3 allocations, 4.6 MiB, 1.1 MiB changed",
        "MEMORY_NOT_READ  cuMemcpyDtoH_v2 (call 10): the driver refused to copy 64 bytes",
        f"replay run {snapshot}",
    ):
        assert words in out
    assert "\x1b" not in out


def test_info_as_json(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", snapshot, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "replay.info/1"
    assert document["summary"]["kernels"][0]["grid"] == [2344, 1, 1]
    assert document["problem_counts"] == {"MEMORY_NOT_READ": 1}
    assert document["whole"] is True


def test_quiet_prints_nothing(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", snapshot, "-q") == 0
    assert run("verify", snapshot, "-q") == 0
    assert run("dump", snapshot, "-o", snapshot.parent / "out", "-q") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    "command", [["info"], ["ls", "kernels"], ["ls", "memory"], ["ls", "images"], ["ls", "notes"]]
)
def test_output_fits_the_terminal_and_hostile_names_stay_text(
    tmp_path: Path, columns: int, command: list[str]
) -> None:
    path = write_snapshot(tmp_path / "x", hostile_name=HOSTILE, notes=30, launches=3)
    out = on_terminal(columns, command[0], path, *command[1:])
    assert "\x1b[1m" in out  # titles are bold
    text = plain(out)
    assert "\x1b" not in text
    assert "\u202e" not in text
    own = str(path)
    assert all(len(line) <= columns or own in line for line in text.splitlines()), text


def test_an_encoding_that_lacks_a_character_is_no_failure(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "x.rsnap", hostile_name="kernel_\u03b1" + "x" * 200)
    done = subprocess.run(
        [sys.executable, "-m", "replay", "info", str(path)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"kernel_\\u03b1" in done.stdout


def test_into_a_pipe_lines_are_whole_and_without_colour(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "x.rsnap", hostile_name=HOSTILE)
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "replay", "ls", str(path), "kernels"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert "\x1b" not in done.stdout
    assert "k" * 300 in done.stdout
    assert len(done.stdout.splitlines()) == 2


def test_ls_lists_each_subject(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        "calls": ["cuMemAlloc_v2(", "bytesize=2400000", "cuLaunchKernel(", "# _Z5saxpyifPKfPf"],
        "kernels": ["0:4 4:4 8:8 16:8", "2344", IMAGE_DIGEST[:8]],
        "memory": ["0x7f0000000000", "both", "1.2 MiB", "NO", "table"],
        "images": [IMAGE_DIGEST, "ptx sm_80: 1 kernel"],
        "notes": ["WINDOW_OPEN", "MEMORY_NOT_READ"],
    }
    for subject, words in expected.items():
        assert run("ls", snapshot, subject) == 0
        out = capsys.readouterr().out
        assert [word for word in words if word not in out] == []
        assert run("ls", snapshot, subject, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == f"replay.ls.{subject}/1"
        assert document[subject]


def test_ls_calls_can_be_narrowed(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", snapshot, "calls", "--section", "window") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run("ls", snapshot, "calls", "--function", "^cuMem") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run("ls", snapshot, "calls", "--function", "(") == 2
    assert run("ls", snapshot, "calls", "--section", "middle") == 2
    assert run("ls", snapshot, "notes", "--section", "setup") == 2
