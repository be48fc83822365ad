"""Which versions of assemblers can be had: what pip says, what is remembered of it, and disks that are full."""

from __future__ import annotations

import errno
import os
import zipfile

import pytest

from replay.errors import EngineError, UsageError
from replay.variants.assemblers import tools, wheels
from replay.variants.assemblers.package_index import offered
from replay.variants.assemblers.tools import PTXAS, TILEIRAS, find
from replay.variants.compilers.tools import Ran

LISTED = Ran(0, "", b"nvidia-cuda-nvcc-cu12 (12.9.86)\nAvailable versions: 12.9.86, 12.8.61, 12.9.0rc1\n")
UNREACHABLE = Ran(1, "WARNING: Retrying after 'Failed: [Errno 111] Connection refused'\nERROR: No matching\n")


def test_the_packages_of_a_range_are_asked_once_a_day(tmp_path):
    asked = []

    def ask(name):
        asked.append(name)
        return LISTED

    offered(PTXAS, range(11, 15), tmp_path, ask, lambda: 1000.0)
    assert asked == ["nvidia-cuda-nvcc-cu11", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"]
    assert offered(PTXAS, range(12, 13), tmp_path, ask, lambda: 80_000.0).versions == ("12.9.86", "12.8.61")
    assert len(asked) == 3
    offered(PTXAS, range(12, 13), tmp_path, ask, lambda: 90_000.0)
    assert len(asked) == 4


def test_an_index_that_does_not_answer_leaves_what_it_said_before(tmp_path):
    nothing = offered(PTXAS, range(12, 13), tmp_path, lambda name: UNREACHABLE)
    assert nothing.versions == ()
    assert "(Connection refused)" in nothing.problem
    offered(PTXAS, range(12, 13), tmp_path, lambda name: LISTED, lambda: 1.0)
    later = offered(PTXAS, range(12, 13), tmp_path, lambda name: UNREACHABLE)
    assert later.versions == ("12.9.86", "12.8.61")
    assert "offered before" in later.problem

    def no_pip(name):
        raise EngineError("cannot be started (No such file)")

    assert "cannot be started" in offered(PTXAS, range(12, 13), tmp_path, no_pip).problem


@pytest.mark.parametrize("text", ["", "[]", '{"format": "replay.ptxas-index/1", "packages": {"x": 1}}', "\0"])
def test_a_damaged_memory_is_asked_anew(tmp_path, text):
    (tmp_path / "index.json").write_text(text)
    assert offered(PTXAS, range(12, 13), tmp_path, lambda name: LISTED).versions


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """`pip download` brings a wheel whose ptxas answers as version 12.8.61."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "installed", lambda kind: [])

    def download(command, timeout_s):
        if "pip" not in command:
            return Ran(0, "", b"Cuda compilation tools, release 12.8, V12.8.61")
        folder = command[command.index("--dest") + 1]
        os.makedirs(folder)
        with zipfile.ZipFile(os.path.join(folder, "x.whl"), "w") as archive:
            archive.writestr("nvidia/cuda_nvcc/bin/ptxas", b"#!/bin/sh\n")
        return Ran(0, "", b"")

    for module in (tools, wheels):
        monkeypatch.setattr(module, "run_tool", download)
    return tmp_path / "cache" / "gpu-replay" / "ptxas"


def test_a_fetched_ptxas_is_kept(wheel):
    tool = find(PTXAS, "12.8")
    assert (tool.version, tool.path) == ("12.8.61", wheel / "12.8.61" / "ptxas")
    assert os.access(tool.path, os.X_OK)


def test_a_full_cache_disk_is_no_fault_of_the_version_and_leaves_nothing_half(wheel, monkeypatch):
    def full(source, target):
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))  # as shutil has it

    monkeypatch.setattr(wheels.shutil, "copyfile", full)
    with pytest.raises(wheels.CacheError, match="no space left") as raised:
        find(PTXAS, "12.8")
    assert raised.value.where == str(wheel / "12.8.61" / "ptxas")
    assert [path.name for path in wheel.rglob("*")] == ["12.8.61"]


def test_a_full_temporary_disk_is_told_from_a_version_that_is_not_there(wheel, monkeypatch):
    log = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(wheels, "run_tool", lambda command, timeout_s: Ran(1, log, b""))
    with pytest.raises(wheels.CacheError, match="no space left"):
        find(PTXAS, "12.8")


def _no_zip(path):
    path.write_bytes(b"not a zip")


def _other_bytes(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nvidia/bin/ptxas", b"A" * 100)
    path.write_bytes(path.read_bytes().replace(b"A" * 100, b"B" * 100))


def _unknown_compression(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nvidia/bin/ptxas", b"A")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 10] = 99
    path.write_bytes(data)


def _encrypted(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nvidia/bin/ptxas", b"A")
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)


@pytest.mark.parametrize("spoil", [_no_zip, _other_bytes, _unknown_compression, _encrypted])
def test_a_wheel_that_cannot_be_unpacked_is_named(tmp_path, spoil):
    spoil(tmp_path / "x.whl")
    with pytest.raises(EngineError, match="cannot be unpacked") as raised:
        wheels._unpack("/bin/ptxas", tmp_path, tmp_path / "ptxas")
    assert raised.value.where == "x.whl"
    assert not (tmp_path / "ptxas").exists()


def test_names_in_a_wheel_lead_nowhere(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        archive.writestr("../../../../outside/bin/ptxas", b"it")
        archive.writestr("/etc/bin/ptxas", b"other")
    wheels._unpack("/bin/ptxas", tmp_path, tmp_path / "kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "x.whl"]


def test_a_tileiras_is_kept_with_what_it_calls(tmp_path, monkeypatch):
    """Of its release, and not newer; where each version of it looks for them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tools, "installed", lambda kind: [])
    asked = []
    holds = {
        "nvidia-cuda-tileiras": "bin/tileiras",
        "nvidia-nvvm": "lib/libnvvm.so.4",
        "nvidia-cuda-nvcc": "bin/ptxas",
    }

    def download(command, timeout_s):
        if "pip" not in command:
            return Ran(0, "", b"Cuda compilation tools, release 13.3, V13.3.36")
        folder = command[command.index("--dest") + 1]
        os.makedirs(folder, exist_ok=True)
        for wanted in command[command.index("--dest") + 2 :]:
            asked.append(wanted)
            package = wanted.partition("==")[0]
            with zipfile.ZipFile(os.path.join(folder, f"{package}.whl"), "w") as archive:
                archive.writestr(f"nvidia/cu13/{holds[package]}", package)
        return Ran(0, "", b"")

    for module in (tools, wheels):
        monkeypatch.setattr(module, "run_tool", download)
    tool = find(TILEIRAS, "13.3")
    place = tmp_path / "gpu-replay" / "tileiras" / "13.3.36"
    assert (tool.version, tool.path) == ("13.3.36", place / "bin" / "tileiras")
    assert asked == [
        "nvidia-cuda-tileiras==13.3.*", "nvidia-nvvm==13.3.*,<=13.3.36", "nvidia-cuda-nvcc==13.3.*,<=13.3.36",
    ]  # fmt: skip
    assert {
        str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()
    } == {
        "bin/tileiras": "nvidia-cuda-tileiras",
        "bin/ptxas": "nvidia-cuda-nvcc",
        "lib/libnvvm.so.4": "nvidia-nvvm",
        "nvvm/lib64/libnvvm.so": "nvidia-nvvm",
    }


def test_there_is_no_tileiras_before_cuda_13(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "installed", lambda kind: [])
    with pytest.raises(UsageError, match=r"no tileiras 12\.9"):
        find(TILEIRAS, "12.9")
    assert offered(TILEIRAS, range(11, 13), tmp_path, lambda name: LISTED).versions == ()
