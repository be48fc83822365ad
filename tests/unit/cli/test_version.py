"""`replay --version --json`: what a bug report needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import replay
from replay.cli import main
from replay.doctor import facts
from replay.errors import ExitCode


@pytest.mark.parametrize("words", [("--version", "--json"), ("--json", "--version")])
def test_it_is_one_document_in_either_order(words: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replay", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["schema"], told["version"]) == ("replay.version/1", replay.__version__)
    assert told["packages"]["msgpack"]
    assert told["python"].startswith(".".join(map(str, sys.version_info[:3])))


def test_json_belongs_to_version_or_to_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "doctor"]) == ExitCode.USAGE
    assert "after the command's name" in capsys.readouterr().err


def test_it_loads_no_driver_and_nothing_slow() -> None:
    code = (
        "import sys; from replay.doctor.facts import gather; gather();"
        "print('libcuda' in open('/proc/self/maps').read(), *({'cuda', 'numpy', 'jinja2'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_gpus_and_their_driver_are_named_by_the_kernel_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "PROC", tmp_path)
    monkeypatch.setattr(facts, "SYSTEM", tmp_path)
    for number, name in enumerate(("NVIDIA A", "NVIDIA B")):
        gpu = tmp_path / "driver" / "nvidia" / "gpus" / f"0000:0{number}:00.0"
        gpu.mkdir(parents=True)
        (gpu / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 11\nGPU UUID: \t GPU-1\n")
    (tmp_path / "module" / "nvidia").mkdir(parents=True)
    (tmp_path / "module" / "nvidia" / "version").write_text("580.65.06\n")
    told = facts.gather()
    assert (told.gpus, told.nvidia_driver) == (["NVIDIA A", "NVIDIA B"], "580.65.06")


def test_settings_are_named_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_STORE", "https://example.com/?key=secret")
    told = facts.gather()
    assert "REPLAY_STORE" in told.settings
    assert "secret" not in repr(told)


def test_the_native_libraries_are_told_apart_by_their_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.write_bytes(b"one build")
    monkeypatch.setattr(facts, "interposer_library", lambda: library)
    first = facts.gather()
    library.write_bytes(b"another")
    second = facts.gather()
    assert len(first.interposer or "") == 16
    assert first.interposer != second.interposer
    assert first.cpu_driver == second.cpu_driver
    library.unlink()
    assert facts.gather().interposer is None


@pytest.mark.parametrize(
    ("version", "commit"),
    [("0.2.0", None), ("0.2.1.dev3+g0123abc", "0123abc"), ("0.2.1.dev3+g0123abc.d20260101", "0123abc")],
)
def test_the_commit_is_named_unless_it_is_a_release(
    version: str, commit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "__version__", version)
    assert facts.gather().commit == commit
