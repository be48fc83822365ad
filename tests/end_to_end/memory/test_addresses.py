"""Every range of every sample is at its captured address, start after start.

REPLAY_TEST_STARTS: how many fresh workers in a row, spread over all samples (19). Managed memory that shares a granule
with other memory is device memory in the replay, at its address like all the rest.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter

import pytest

from replay.run.parent import RunOptions, run_snapshot

from ..conftest import REPOSITORY

STARTS = int(os.environ.get("REPLAY_TEST_STARTS", "19"))
SAMPLES_FOLDER = REPOSITORY / "samples"
PROGRAMS = {path.stem for path in SAMPLES_FOLDER.glob("*/*.[cp]*") if path.stem == path.parent.name}
SAMPLES = sorted(PROGRAMS - {"crash", "goes_wrong"})  # which go wrong


@pytest.mark.timeout(120 + 3 * STARTS)
def test_every_range_of_every_sample_is_at_its_address_in_many_starts(replay, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    for sample in SAMPLES:
        replay.capture("--all", application=replay.application(sample), output=f"{sample}.rsnap")
    restarts: Counter[str] = Counter()
    for start, sample in zip(range(STARTS), itertools.cycle(SAMPLES), strict=False):
        result = run_snapshot(replay.folder / f"{sample}.rsnap", RunOptions(driver="emulator", timing=None))
        assert result.verification.verdict == "match", (start, sample)
        elsewhere = [
            item for item in result.placement.ranges if item.how not in ("same_address", "loaded", "handle")
        ]
        assert not elsewhere, (start, sample, elsewhere)
        assert all(
            item.live_address == item.address
            for item in result.placement.ranges
            if item.how == "same_address"
        )
        restarts[sample] += result.placement.restarts
    print(f"{STARTS} starts, {sum(restarts.values())} restarts: {dict(restarts)}")


@pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: only the CPU driver can be told to reserve addresses",
)
def test_memory_in_the_range_that_the_driver_reserves_for_itself_is_at_its_address(
    replay, monkeypatch, emulator_dir
):
    """To hold it would keep the driver from starting. An exported program does as the engine does."""
    monkeypatch.setenv("REPLAY_EMULATOR_OWN_RANGE", "1")
    replay.capture("--all", application=replay.application("memory_kinds"))
    placement = run_snapshot(replay.folder / "x.rsnap", RunOptions(driver="emulator", timing=None)).placement
    assert sum(0x2_0000_0000 < item.live_address < 0x6_0000_0000 for item in placement.ranges) == 2
    assert (placement.relocated_ranges, placement.restarts) == (0, 0), placement.moved
    replay("export", "x.rsnap", "--python", "window")
    command = [sys.executable, "window/window.py", "0"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
    done = subprocess.run(command, cwd=replay.folder, env=environment, capture_output=True, text=True)
    assert "outputs match" in done.stdout, done.stderr


@pytest.mark.parametrize("fixed", [False, True], ids=["random", "fixed"])
def test_memory_of_an_application_without_randomisation_is_at_its_address_too(replay, fixed):
    """Its libraries, heap and pinned memory are where a worker without randomisation has its own."""
    import shutil

    if fixed and not shutil.which("setarch"):
        pytest.skip("needs setarch: apt install util-linux")
    command = replay.application("reduce")
    replay.capture("--all", application=["setarch", "-R", *command] if fixed else command)
    for _ in range(max(2, STARTS // 50)):
        placement = run_snapshot(
            replay.folder / "x.rsnap", RunOptions(driver="emulator", timing=None)
        ).placement
        assert placement.relocated_ranges == 0, placement.moved
