"""CUDA arrays, and what kernels reach them through, go into a snapshot and come back bit for bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ..conftest import PROGRAMS


@pytest.fixture
def program(replay):
    """A program of the folder beside this file."""

    def command(name: str, *arguments: str) -> list[str]:
        return [sys.executable, str(PROGRAMS / name), *arguments]

    return command


def memory_of(replay, snapshot: str = "x.rsnap") -> list[dict]:
    return json.loads(replay("ls", snapshot, "memory", "--json").stdout)["memory"]


def test_arrays_of_every_kind_are_captured_and_replayed_bit_for_bit(replay, program) -> None:
    done = replay.capture("--profiler-api", application=program("arrays.py"))
    assert "arrays hold" in done.stdout
    arrays = [item for item in memory_of(replay) if item["kind"] == "array"]
    shapes = {
        (item["array"]["depth"], item["array"]["flags"], len(item["array"]["parts"])) for item in arrays
    }
    # One dimension, two, three, layered, layered with a surface, cubemaps, and mipmaps of two, three and layers.
    assert shapes >= {(0, 0, 1), (0, 2, 1), (5, 0, 1), (4, 1, 1), (3, 3, 1), (6, 4, 1), (12, 5, 1),
                      (0, 0, 4), (12, 2, 3), (2, 1, 3)}  # fmt: skip
    assert all(item["before"] and item["after"] for item in arrays)
    assert sum(item["before"]["digests"] != item["after"]["digests"] for item in arrays) > 8  # written
    in_window = [item for item in arrays if item.get("born_call")]
    assert len(in_window) == 2
    assert all(item["died_call"] > item["born_call"] for item in in_window)
    assert 512 not in {item["array"]["width"] for item in arrays}  # the one that the window does not use
    replayed = replay.run("x.rsnap", "--json")
    verification = json.loads(replayed.stdout)["verification"]
    assert verification["verdict"] == "match"
    assert verification["differing_bytes"] == 0
    assert verification["buffers"] >= len(memory_of(replay))


def test_the_contents_of_an_array_are_dumped_row_by_row(replay, program, tmp_path: Path) -> None:
    replay.capture("--profiler-api", application=program("arrays.py"))
    item = next(
        item for item in memory_of(replay) if item["kind"] == "array" and item["array"]["height"] == 41
    )
    replay("dump", "x.rsnap", "-o", "out", "--buffer", f"{item['owner']:#x}")
    manifest = json.loads((replay.folder / "out" / "manifest.json").read_text())
    before, after = manifest["files"]
    assert before["details"]["array"]["parts"] == [
        {"level": 0, "plane": 0, "width_bytes": 63 * 8, "rows": 41, "slices": 1}
    ]
    held = (replay.folder / "out" / after["name"]).read_bytes()[-63 * 8 * 41 :]
    was = (replay.folder / "out" / before["name"]).read_bytes()[-63 * 8 * 41 :]
    # The program copies the first row, from its second byte on, over the left half of the last one.
    last = 40 * 63 * 8
    assert held[last : last + 31 * 8] == was[1 : 1 + 31 * 8] != was[last : last + 31 * 8]
    assert held[:last] == was[:last]


@pytest.fixture(params=["executed", "held", "held in graphs"])
def textures(replay, program, request) -> list[str]:
    """The program with textures and surfaces: its kernels read through them, or only look at their handles, which any
    driver can."""
    if request.param != "executed":
        return program("textures.py", "--hold", *(["--graph"] if "graphs" in request.param else []))
    done = replay.capture("-q", application=program("textures.py"), output="tried.rsnap", status=None)
    if "cuLaunchKernel returned" in done.stderr:
        pytest.skip("needs a driver that executes textures: REPLAY_TEST_DRIVER=emulator")
    return program("textures.py")


def test_every_launch_takes_what_its_textures_and_surfaces_reach_along(replay, textures) -> None:
    replay.capture("--each", application=textures)
    held = "--hold" in textures
    windows = json.loads(replay.run("x.rsnap", "--json").stdout)["windows"]
    assert [window["result"]["verification"]["verdict"] for window in windows] == ["match"] * (
        7 if held else 8
    )

    def arrays_of(window: int) -> list[dict]:
        listed = json.loads(replay("ls", "x.rsnap", "memory", "--json", "--window", str(window)).stdout)
        return [item for item in listed["memory"] if item["kind"] == "array"]

    assert [len(arrays_of(window)) for window in (1, 2, 3, 4, 5, 6)] == [1, 1, 1, 1, 0, 1]
    (drawn,) = arrays_of(3)
    assert (drawn["before"]["digests"] != drawn["after"]["digests"]) is not held  # the surface was written
    (levels,) = arrays_of(6)
    assert [part["width_bytes"] for part in levels["array"]["parts"]] == [160, 80]


def test_objects_that_the_window_makes_get_their_live_handles_everywhere(replay, textures) -> None:
    """Handles as parameters, in memory that copies fill, and in what is copied back."""
    replay.capture("--all", application=textures)
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert result["verification"]["verdict"] == "match"
    assert result["verification"]["differing_bytes"] == 0


@pytest.mark.parametrize("way", [(), ("--graph",)], ids=["launched", "in a graph"])
@pytest.mark.parametrize(("launch", "ranges"), [("1", 2), ("2", 2), ("3", 3)])
def test_memory_that_only_a_tensor_map_names_is_part_of_a_launch(
    replay, program, launch, ranges, way
) -> None:
    """With that memory elsewhere, too: the map is encoded again for where it lives."""
    replay.capture("--launch", launch, application=program("tensor_maps.py", *way))
    memory = memory_of(replay)
    assert len(memory) == ranges
    assert 4 * 64 * 32 in {item["size_bytes"] for item in memory}
    result = json.loads(replay.run("x.rsnap", "--shift", "--json").stdout)
    assert result["verification"]["verdict"] == "match"
    assert result["relocation"]["verdict"] == "proven", result["relocation"]


def test_arrays_are_restored_from_the_host_where_the_device_has_no_room(replay, monkeypatch) -> None:
    replay.capture("--kernel", ".*", "--launch", "2", application=replay.application("texture_filter"))
    refused = ",".join(f"cuMemAlloc_v2:{number}:2" for number in range(1, 5))  # CUDA_ERROR_OUT_OF_MEMORY
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", refused)
    result = json.loads(replay("run", "x.rsnap", "--driver", "emulator", "--samples", "2", "--json").stdout)
    restore = result["restore"]
    assert (restore["verdict"], result["verification"]["verdict"]) == ("right", "match")
    assert restore["on_host_bytes"] == restore["size_bytes"] > 0
