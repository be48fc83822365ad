"""Which driver a command takes, on machines with and without one."""

from __future__ import annotations

import pytest

from replay import drivers, settings
from replay.drivers import find_driver, is_emulator
from replay.errors import CaptureError, EngineError, UsageError


@pytest.fixture
def native(tmp_path, monkeypatch):
    folder = tmp_path / "native"
    (folder / "emulator").mkdir(parents=True)
    (folder / "emulator" / "libcuda.so.1").write_bytes(b"...REPLAY_EMULATOR_DRIVER_VERSION\0...")
    monkeypatch.setenv(settings.NATIVE_DIR.environment, str(folder))
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes a machine with or without a library and device files."""

    def make(library: bytes | None, device_files: bool):
        path = None
        if library is not None:
            path = tmp_path / "libcuda.so.535"
            path.write_bytes(library)
        present = tmp_path / "nvidiactl"
        if device_files:
            present.touch()
        monkeypatch.setattr(drivers, "_DEVICE_FILES", (present,))
        monkeypatch.setattr(drivers, "system_library", lambda environ=None: path)

    return make


def test_driver_of_the_machine_is_taken_without_a_word(native, machine):
    machine(b"nvidia", True)
    for choice in (None, "system"):
        found = find_driver(choice)
        assert (found.name, found.emulated, found.folder, found.reason) == ("system", False, None, "")


def test_machine_without_a_driver_gets_the_built_in_one_and_is_told(native, machine):
    machine(None, False)
    found = find_driver()
    assert found.emulated
    assert found.library == native / "emulator" / "libcuda.so.1"
    assert "no NVIDIA driver" in found.reason
    with pytest.raises(EngineError, match="emulator"):
        find_driver("system")


def test_library_without_a_device_is_no_driver_unless_asked_for(native, machine):
    machine(b"stub of a toolkit", False)
    found = find_driver()
    assert found.emulated
    assert "no NVIDIA device files" in found.reason
    assert not find_driver("system").emulated


def test_built_in_driver_on_the_library_path_is_recognised(native, machine):
    machine(b"xx REPLAY_EMULATOR_DRIVER_VERSION xx", True)
    assert find_driver().emulated


def test_emulator_is_taken_when_asked_for(native, machine):
    machine(b"nvidia", True)
    found = find_driver("emulator")
    assert (found.emulated, found.reason) == (True, "")


def test_folder_or_file_can_be_named(native, machine, tmp_path):
    machine(b"nvidia", True)
    assert find_driver(str(native / "emulator")).emulated
    assert find_driver(str(native / "emulator" / "libcuda.so.1")).folder == native / "emulator"
    with pytest.raises(UsageError, match=r"no libcuda\.so\.1"):
        find_driver(str(tmp_path))


def test_missing_native_parts_say_how_to_get_them(tmp_path, monkeypatch, machine):
    monkeypatch.setenv(settings.NATIVE_DIR.environment, str(tmp_path))
    machine(None, False)
    with pytest.raises(EngineError, match="pip install"):
        find_driver()
    with pytest.raises(CaptureError, match="pip install"):
        drivers.interposer_library()
    assert not is_emulator(tmp_path / "nothing")


def test_the_loader_is_asked_without_what_is_preloaded(tmp_path):
    # Whatever the answer is on this machine, asking must neither fail nor start a capture.
    environ = {"LD_PRELOAD": "/does/not/exist.so", "REPLAY_CAPTURE_DIRECTORY": str(tmp_path)}
    drivers.system_library(environ)
    assert list(tmp_path.iterdir()) == []
