"""What an installed `gpu-replay` consists of."""

from __future__ import annotations

import importlib.metadata

import pytest

import replay


@pytest.fixture(scope="module")
def distribution():
    try:
        found = importlib.metadata.distribution("gpu-replay")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs replay installed: make setup")
    if not str(replay.__file__).startswith(str(found.locate_file("replay"))):
        pytest.skip("needs the installed replay: set PYTHONSAFEPATH=1, as make test does")
    return found


def test_version_is_the_one_in_the_sources(distribution):
    assert distribution.version == replay.__version__


def test_one_wheel_serves_every_python(distribution):
    tags = [line for line in (distribution.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    assert tags
    assert all(tag.startswith(("Tag: py3-none-linux", "Tag: py3-none-many")) for tag in tags)


def test_native_parts_are_installed_where_the_package_looks_for_them(distribution):
    names = {str(path) for path in distribution.files or ()}
    assert "replay/_native/libreplay_interposer.so" in names
    assert "replay/_native/emulator/libcuda.so.1" in names
    assert any(name.startswith("replay/_native/emulator/libcudart.so.1") for name in names)


def test_nothing_of_nvidia_is_shipped(distribution):
    for path in distribution.files or ():
        assert not path.name.startswith(("libnvrtc", "cuda.h", "libnvidia")), path
        if path.name.startswith("libcudart"):  # our own, which says so
            assert b"is not supported by this CUDA runtime library" in path.read_binary(), path


def test_command_and_plugin_are_called_replay(distribution):
    assert {(entry.group, entry.name, entry.value) for entry in distribution.entry_points} == {
        ("console_scripts", "replay", "replay.__main__:run"),
        ("pytest11", "replay", "replay.library.plugin"),
    }
