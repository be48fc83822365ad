"""Names of pipes, devices, sockets, folders and holes of a terabyte: said so, and nothing waits for them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.cli import main

from ..helpers.raw_writer import scale_capture

pytestmark = pytest.mark.timeout(120)  # what waits, waits for ever


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


def hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


KINDS: tuple[Callable[[Path], None], ...] = (pipe, device, listening, Path.mkdir, hole)
COMMANDS = (
    ["explain", "{rres}"], ["explain", "{json}"], ["report", "--markdown", "{rres}"],
    ["report", "--markdown", "{json}"],
    ["info", "{rsnap}"], ["verify", "{rsnap}"], ["ls", "{rsnap}", "calls"], ["dump", "{rsnap}", "-o", "{folder}/d"],
    ["extract", "{rsnap}", "--window", "1", "-o", "{folder}/e"], ["run", "{rsnap}", "--driver", "emulator"],
    ["compare", "{rres}", "{rres}"], ["compare", "{rsnap}", "{rres}"], ["export", "{rsnap}", "--cuda", "{folder}/x"],
    ["check", "{folder}", "--baseline", "{folder}", "--driver", "emulator"],
    ["check", "{folder}", "--baseline", "{folder}", "--config", "{json}"],
    ["history", "{folder}"], ["baseline", "set", "{folder}"],
    ["bisect", "{rsnap}", "--over", "jit=opt-level=0..1", "--driver", "emulator"],
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_command_waits_for_what_is_no_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: Callable[[Path], None]
) -> None:
    for suffix in ("rres", "rsnap", "json"):
        kind(tmp_path / f"x.{suffix}")
    names = {suffix: str(tmp_path / f"x.{suffix}") for suffix in ("rres", "rsnap", "json")}
    for command in COMMANDS:
        code = main([word.format(**names, folder=tmp_path) for word in command])
        told = capfd.readouterr().err
        assert "Traceback" not in told, command
        assert "defect" not in told, (command, told)
        assert code in (0, 1, 2, 3)
        folder_of_results = kind is Path.mkdir and command[0] in ("explain", "report")
        assert code or folder_of_results or command[0] in ("history", "check", "baseline"), command


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["calls.77.bin", "blobs.77.bin", "launcher.json", "incomplete"])
def test_pack_waits_for_nothing_in_a_raw_capture(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: Callable[[Path], None], name: str
) -> None:
    raw = tmp_path / "x.rcap"
    scale_capture(raw, before=bytes(256), after=bytes(255) + b"x").close()
    (raw / name).unlink(missing_ok=True)
    kind(raw / name)
    main(["pack", str(raw), "-o", str(tmp_path / "x.rsnap")])
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert "defect" not in told


@pytest.mark.parametrize(
    "text", ['{"command": 5}', '{"command": [5], "driver": 7, "pid": "x"}', "[" * 200_000]
)
def test_pack_takes_any_launchers_file(tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    raw = tmp_path / "x.rcap"
    scale_capture(raw, before=bytes(256), after=bytes(255) + b"x").close()
    (raw / "launcher.json").write_text(text)
    main(["pack", str(raw), "-o", str(tmp_path / "x.rsnap")])
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert "defect" not in told
