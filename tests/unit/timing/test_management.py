"""NVML, through whichever binding is there."""

from __future__ import annotations

import sys
import types

import pytest

from replay.engine.driver import management_library


def test_pynvml_answers_under_the_names_of_the_newer_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuda.bindings before 13.2 has no NVML module; PyTorch 2.11 still asks for 13.0."""
    pynvml = types.ModuleType("pynvml")
    called: list[tuple[object, ...]] = []
    for name in ("nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMigMode", "nvmlDeviceGetClockInfo",
                 "nvmlDeviceGetComputeRunningProcesses_v3"):  # fmt: skip
        setattr(pynvml, name, lambda *words, name=name: called.append((name, *words)))
    monkeypatch.setitem(sys.modules, "cuda.bindings", types.ModuleType("cuda.bindings"))
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    library = management_library()
    library.device_get_handle_by_uuid("GPU-1")
    library.device_get_clock_info(7, 1)
    library.device_get_compute_running_processes_v3(7)
    assert called == [
        ("nvmlInit",),
        ("nvmlDeviceGetHandleByUUID", "GPU-1"),
        ("nvmlDeviceGetClockInfo", 7, 1),
        ("nvmlDeviceGetComputeRunningProcesses_v3", 7),
    ]
    with pytest.raises(AttributeError):
        library.device_get_power_usage(7)
