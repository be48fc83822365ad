"""A snapshot that cannot be replayed here is refused with words of its own and exit code 3, before it is executed;
`--dry-run` says the same beforehand, and `--best-effort` goes on where that can mean something."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from replay.errors import ExitCode

from ...unit.helpers.image_factory import make_cubin
from ..rewriting import add_note, swap_image


@pytest.fixture
def whole_snapshot(replay):
    """Of a program from its first call on: its window loads the module."""
    replay.capture("--all", application=replay.application("inplace_scan"), output="whole.rsnap")
    return replay.folder / "whole.rsnap"


def run(replay, *arguments, status=ExitCode.COULD_NOT):
    done = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", *arguments, status=status)
    if status == ExitCode.COULD_NOT and "--dry-run" not in arguments:
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done


def lacking(replay):
    """What `--dry-run` misses, by item."""
    found = json.loads(run(replay, "--dry-run", "--json").stdout)
    assert found["schema"] == "replay.run.preflight/1"
    assert not found["can_run"]
    return {item["item"]: item for item in found["findings"] if item["state"] == "lacking"}


def test_snapshot_that_fits_can_run_and_nothing_is_executed(replay, good_snapshot, monkeypatch):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    monkeypatch.setenv("REPLAY_EMULATOR_SEGV", ".*")
    done = run(replay, "--dry-run", status=ExitCode.DONE)
    assert "can be replayed on the built-in CPU driver" in done.stdout
    assert "LACKING" not in done.stdout
    assert run(replay, "--dry-run", "-q", status=ExitCode.DONE).stdout == ""


def test_info_says_what_a_replay_needs(replay, good_snapshot):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    done = replay("info", "x.rsnap")
    assert "What a replay needs" in done.stdout
    assert "compute_75 (PTX 7.0)" in done.stdout
    needs = json.loads(replay("info", "x.rsnap", "--json").stdout)["requirements"]
    assert needs["unfaithful"] == []
    assert needs["images"][0]["ptx"] == [["compute_75", "7.0"]]


def test_memory_that_is_larger_than_the_device(replay, monkeypatch):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    monkeypatch.setenv("REPLAY_EMULATOR_MEMORY_BYTES", str(1 << 20))
    assert "device memory" in lacking(replay)
    assert "the memory of the snapshot is larger than the device" in run(replay).stderr


def test_what_is_restored_is_copied_to_the_host_where_the_device_has_no_room(
    replay, good_snapshot, monkeypatch
):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    needs = json.loads(replay("info", "x.rsnap", "--json").stdout)["requirements"]
    monkeypatch.setenv("REPLAY_EMULATOR_MEMORY_BYTES", str(sum(needs["device_bytes"].values())))
    found = json.loads(run(replay, "--dry-run", "--json", status=ExitCode.DONE).stdout)["findings"]
    (memory,) = (item for item in found if item["item"] == "device memory")
    assert memory["state"] == "differs"
    done = replay("run", "x.rsnap", "--driver", "emulator", "--samples", "3", "-o", "x.rres")
    assert "kept on the host: the device has no room for a copy" in " ".join(done.stdout.split())
    restore = json.loads(replay("run", "x.rsnap", "--driver", "emulator", "--samples", "3", "--json").stdout)[
        "restore"
    ]
    assert (restore["verdict"], restore["on_host_bytes"]) == ("right", restore["size_bytes"])
    assert restore["size_bytes"] == needs["restore_bytes"]
    monkeypatch.delenv("REPLAY_EMULATOR_MEMORY_BYTES")
    restore = json.loads(replay("run", "x.rsnap", "--driver", "emulator", "--samples", "3", "--json").stdout)[
        "restore"
    ]
    assert restore["on_host_bytes"] == 0


def test_memory_that_others_have_taken(replay, good_snapshot, monkeypatch):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuMemCreate:1:2")
    assert "bytes of device memory cannot be allocated (CUDA_ERROR_OUT_OF_MEMORY)" in run(replay).stderr


def test_image_that_does_not_load(replay, good_snapshot):
    swap_image(good_snapshot, replay.folder / "x.rsnap", lambda data: data.replace(b"ret;", b"bra $nowhere;"))
    done = run(replay)
    assert "cuModuleLoadData" in done.stderr
    assert "CUDA_ERROR_INVALID_PTX" in done.stderr


def test_image_for_another_device_is_no_surprise_of_the_replay(replay, good_snapshot, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_COMPUTE_CAPABILITY", "7.0")
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    assert any(item.startswith("image") for item in lacking(replay))
    assert "its PTX is for compute_75" in run(replay).stderr


def test_driver_that_is_too_old_is_told(replay, good_snapshot, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DRIVER_VERSION", "11020")
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    for options in ([], ["--dry-run"]):
        done = run(replay, *options)
        assert "this driver is of CUDA 11.2, and a replay needs one of CUDA 12.0 or later" in done.stderr


def test_graphs_with_conditional_nodes_ask_for_the_driver_that_brought_them(replay):
    replay.capture("--all", application=replay.application("graph_while"))
    found = json.loads(run(replay, "--dry-run", "--json", status=ExitCode.DONE).stdout)["findings"]
    (driver,) = (item for item in found if item["item"] == "driver")
    assert driver["needs"] == "CUDA 12.3 for cuGraphConditionalHandleCreate"


def test_image_with_machine_code_alone(replay, good_snapshot):
    swap_image(good_snapshot, replay.folder / "x.rsnap", lambda data: make_cubin())
    assert any(item.startswith("image") for item in lacking(replay))
    done = run(replay)
    assert "only machine code" in done.stderr
    assert "includes PTX" in done.stderr


def test_image_that_was_made_for_a_newer_driver(replay, good_snapshot):
    swap_image(
        good_snapshot, replay.folder / "x.rsnap", lambda data: data.replace(b".version 7.0", b".version 10.0")
    )
    assert any(item.startswith("image") for item in lacking(replay))
    assert "was made for a newer driver: its PTX is version 10.0" in run(replay).stderr


def test_parameters_that_do_not_fit(replay, good_snapshot):
    """The driver would read more parameters than were captured."""

    def more(data):
        return data.replace(
            b".param .u32 inplace_scan_param_1", b".param .u32 inplace_scan_param_1, .param .u64 more"
        )

    swap_image(good_snapshot, replay.folder / "x.rsnap", more)
    done = run(replay)
    assert "the captured parameters do not fit the kernel: it takes 24 bytes, 12 were captured" in done.stderr
    swap_image(
        good_snapshot,
        replay.folder / "x.rsnap",
        lambda data: data.replace(b".param .u32 inplace_scan_param_1", b".param .u64 inplace_scan_param_1"),
    )
    assert "it takes 16 bytes, 12 were captured" in run(replay).stderr


def test_calls_that_were_not_captured(replay, good_snapshot):
    note = {"code": "UNSUPPORTED_CALL", "text": "is not captured", "call": 9, "function": "cuFooBar"}
    add_note(good_snapshot, replay.folder / "x.rsnap", note)
    assert "calls" in lacking(replay)
    assert "the window cannot be replayed faithfully: cuFooBar: is not captured" in run(replay).stderr
    done = run(replay, "--best-effort", status=ExitCode.DONE)
    assert "best effort" in done.stdout
    assert "left out: cuFooBar" in done.stdout
    assert json.loads(run(replay, "--best-effort", "--json", status=ExitCode.DONE).stdout)["best_effort"]


def test_best_effort_goes_on_without_an_image_and_says_so(replay, good_snapshot):
    """Nothing of it can be launched, so the outputs are those of no kernel at all."""
    swap_image(good_snapshot, replay.folder / "x.rsnap", lambda data: data.replace(b"ret;", b"bra $nowhere;"))
    done = run(replay, "--best-effort", status=ExitCode.GATE_FAILED)
    assert "outputs DIFFER" in done.stdout
    assert "left out of the setup" in done.stdout
    assert "cuModuleLoadData, which was left out" in done.stdout.replace("DataEx", "Data")
    assert "no recorded call created" not in done.stdout
    assert "launches of 0" not in done.stdout
    assert "launch of 0" not in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"ret;", b"bra $nowhere;", "CUDA_ERROR_INVALID_PTX .*it succeeded; the PTX is damaged"),
        (
            b".param .u32 inplace_scan_param_1",
            b".param .u64 inplace_scan_param_1",
            "it takes 16 bytes, 12 were captured",
        ),
        (
            b"inplace_scan(",
            b"other_name(",
            "CUDA_ERROR_NOT_FOUND; .*the image is another one than was loaded there",
        ),
    ],
)
def test_a_window_that_loads_its_own_image_is_refused_in_the_same_words(
    replay, whole_snapshot, old, new, words
):
    swap_image(whole_snapshot, replay.folder / "x.rsnap", lambda data: data.replace(old, new))
    assert re.search(words, run(replay).stderr)
    done = run(replay, "--best-effort", status=ExitCode.GATE_FAILED)
    assert "best effort" in done.stdout
    assert "left out: call" in done.stdout
    assert "no recorded call created" not in done.stdout


@pytest.mark.parametrize("sample", ["cooperative", "texture_filter", "reduce"])
def test_what_samples_need_is_there(replay, sample):
    replay.capture("--all", application=replay.application(sample))
    assert "can be replayed" in run(replay, "--dry-run", status=ExitCode.DONE).stdout
