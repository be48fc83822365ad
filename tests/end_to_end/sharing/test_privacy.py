"""What of the user's is in files that are passed on: not the home folder, and no value that looks like a secret."""

from __future__ import annotations

import io
import os
import shutil
import stat
from pathlib import Path

import pytest
import zstandard

from ..conftest import DRIVER, Replay

SECRET = "hunter2secret"


@pytest.fixture
def at_home(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A program in the home folder that starts another one there, with secrets for both."""
    monkeypatch.setenv("HOME", str(replay.folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name in ("inplace_scan", "inplace_scan.ptx"):
        shutil.copy(replay.samples / name, replay.folder / name)
    script = replay.folder / "start.sh"
    script.write_text('#!/bin/bash\n(exec -a "--api-key=$2" "$HOME/inplace_scan")\n')
    script.chmod(0o700)
    return [
        str(script),
        "--token",
        SECRET,
        f"--api-key={SECRET}",
        f"https://me:{SECRET}@host/",
        str(replay.folder),
    ]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix not in (".rsnap", ".rres"):
        return data
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()


def kept(folder: Path) -> dict[str, bytes]:
    names = [*folder.glob("*.rsnap"), *folder.glob("*.rres"), *folder.glob("*.json"), *folder.glob("*.html"),
             *folder.glob("x.rcap/*")]  # fmt: skip
    return {path.name: content(path) for path in names}


def test_files_hold_no_home_folder_and_no_secret(replay: Replay, at_home: list[str]) -> None:
    replay.capture("--all", "--keep-raw", application=at_home)
    snapshot = str(replay.folder / "x.rsnap")
    replay("run", snapshot, "--driver", DRIVER, "--samples", "3", "-o", "r.rres")
    (replay.folder / "r.json").write_text(
        replay("run", snapshot, "--driver", DRIVER, "--json", "--no-timing").stdout
    )
    replay("report", "r.rres", "-o", "page.html")
    files = kept(replay.folder)
    assert {"x.rsnap", "r.rres", "r.json", "page.html", "launcher.json"} <= set(files)
    for name, data in files.items():
        assert SECRET.encode() not in data, name
        assert os.fsencode(replay.folder) not in data, name
    assert b'"start.sh"' in files["launcher.json"]
    assert b"[removed]" in files["launcher.json"]
    assert b"inplace_scan" in files["x.rsnap"]


def test_the_command_line_is_kept_when_asked_for(replay: Replay, at_home: list[str]) -> None:
    replay.capture("--all", "--keep-raw", "--keep-command-line", application=at_home)
    files = kept(replay.folder)
    assert SECRET.encode() in files["launcher.json"]
    assert any(SECRET.encode() in data for name, data in files.items() if name.startswith("calls."))


def test_files_are_for_their_owner_alone(replay: Replay, at_home: list[str]) -> None:
    before = os.umask(0)
    try:
        replay.capture("--all", "--keep-raw", application=at_home)
        replay(
            "run",
            "x.rsnap",
            "--driver",
            DRIVER,
            "--samples",
            "3",
            "-o",
            "r.rres",
            "--save-outputs",
            "out",
            "--save-all",
        )
        replay("dump", "x.rsnap", "-o", "dumped")
    finally:
        os.umask(before)
    files = [replay.folder / "x.rsnap", replay.folder / "r.rres"]
    for folder in ("x.rcap", "out", "dumped"):
        files += (path for path in (replay.folder / folder).iterdir() if path.is_file())
    assert len(files) > 8
    assert {
        path.name: oct(path.stat().st_mode & 0o777) for path in files if path.stat().st_mode & 0o077
    } == {}
    assert stat.S_IMODE((replay.folder / "x.rcap").stat().st_mode) == 0o700
