"""`replay doctor` on this machine, and on one that is made worse on purpose."""

from __future__ import annotations

import json


def examined(replay, *arguments, status):
    done = replay("doctor", "--json", *arguments, status=status)
    return json.loads(done.stdout)["findings"]


def test_the_cpu_driver_is_found_fit(replay):
    found = examined(replay, "--driver", "emulator", status=None)
    texts = {finding["area"]: finding["text"] for finding in found}
    assert "Emulated CPU device" in texts["device 0"]
    assert any("loads into programs" in finding["text"] for finding in found if finding["area"] == "capture")
    assert not [finding for finding in found if finding["level"] == "problem" and finding["area"] != "disk"]


def test_a_driver_that_crashes_is_a_finding(replay, tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"\x7fELF not a library")
    found = examined(replay, "--driver", str(tmp_path), status=1)
    (problem,) = [
        finding for finding in found if finding["level"] == "problem" and finding["area"] == "driver"
    ]
    assert problem["cure"]


def test_a_missing_shim_is_a_finding_with_a_cure(replay, tmp_path, monkeypatch):
    monkeypatch.setenv("REPLAY_NATIVE_DIR", str(tmp_path))
    found = examined(replay, status=1)
    problems = {finding["area"]: finding for finding in found if finding["level"] == "problem"}
    assert "not installed" in problems["capture"]["text"]
    assert "pip install" in problems["capture"]["cure"]


def test_a_driver_that_is_preloaded_is_a_finding(replay, monkeypatch):
    from replay.drivers import emulator_library

    monkeypatch.setenv("LD_PRELOAD", str(emulator_library()))
    found = examined(replay, "--driver", "emulator", status=1)
    assert any("names come before" in finding["text"] for finding in found if finding["level"] == "problem")


def test_no_devices_are_a_finding(replay, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "0")
    text = replay("doctor", "--driver", "emulator", status=1).stdout
    assert "cure:" in text
    assert "no device" in text or "NO_DEVICE" in text


def test_a_driver_that_refuses_is_a_finding(replay, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuInit:1:999")
    text = replay("doctor", "--driver", "emulator", status=1).stdout
    assert "CUDA_ERROR_UNKNOWN" in text
    assert "nvidia-smi" in text


def test_a_compiler_of_the_cache_that_is_no_longer_one_is_a_finding(replay, tmp_path, monkeypatch):
    broken = tmp_path / "gpu-replay" / "ptxas" / "12.3.107" / "ptxas"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\x7fELF cut short")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = examined(replay, "--driver", "emulator", status=1)
    problems = {finding["area"]: finding for finding in found if finding["level"] == "problem"}
    assert f"the ptxas in {broken.parent} does not answer" in problems["compilers"]["text"]
    assert "rm -r" in problems["compilers"]["cure"]
