"""Snapshots of several devices and contexts: replayed on as many devices as there are, or on one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import toolchain

from ..conftest import REPOSITORY

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator, which has as many devices as asked for",
)

CORPUS = REPOSITORY / "tests" / "corpus"


@pytest.fixture
def two_devices(monkeypatch, programs: toolchain.Programs) -> Path:
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    return programs.compile([CORPUS / "runtime" / "processes" / "several_devices.cu"])


def notes(done) -> str:
    return " ".join(json.loads(done.stdout)["notes"])


def test_two_devices_replay_on_two(replay, two_devices):
    replay.capture("--all", application=[str(two_devices)])
    done = replay.run("x.rsnap", "--json")
    assert "all replayed on device" not in notes(done)
    assert "outputs match" in replay.run().stdout


def test_two_devices_replay_on_one_and_that_is_said(replay, two_devices, monkeypatch):
    replay.capture("--all", application=[str(two_devices)])
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "1")
    done = replay.run("x.rsnap", "--json")
    assert "the captured devices 0, 1 are all replayed on device 0," in notes(done)
    assert "outputs match" in replay.run().stdout
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    assert "all replayed on device 1" in notes(replay.run("x.rsnap", "--device", "1", "--json"))


def test_one_launch_on_the_second_device(replay, two_devices, monkeypatch):
    """The variable of the second device's context, not that of the first, though they have one name."""
    replay.capture("--kernel", "add", "--launch", "2", application=[str(two_devices)])
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "1")
    assert "outputs match" in replay.run().stdout
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    assert "outputs match" in replay.run("x.rsnap", "--device", "1").stdout
