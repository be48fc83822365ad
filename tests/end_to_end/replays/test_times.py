"""Times of a replay beside those of the application: cold, hot, launch by launch."""

from __future__ import annotations

import json

SCAN = ("--kernel", "inplace_scan", "--launch", "2-4")


def test_a_replay_takes_as_long_as_the_application_and_twice_the_same(replay):
    replay.capture(*SCAN, application=replay.application("inplace_scan"))
    results = [
        json.loads(replay("run", "x.rsnap", "--driver", "emulator", "--json").stdout) for _ in range(2)
    ]
    for name in ("timing", "hot"):
        assert results[0][name]["gpu_time_ns"] == results[1][name]["gpu_time_ns"]
        assert results[0][name]["source"] == "modelled"
    assert results[0]["launch_times"] == results[1]["launch_times"]
    fidelity = results[0]["fidelity"]
    assert fidelity["reproduced"] is True
    assert fidelity["launches"] == 3
    assert fidelity["application_ns"] == fidelity["cold_ns"] == fidelity["hot_ns"] > 0
    assert results[0]["restore"]["verdict"] == "right"


def test_a_replay_that_is_slower_than_the_application_says_so_and_why(replay, monkeypatch):
    replay.capture(*SCAN, application=replay.application("inplace_scan"))
    monkeypatch.setenv("REPLAY_EMULATOR_SLOWDOWN", "scan:1.25")
    screen = replay("run", "x.rsnap", "--driver", "emulator", "--quick").stdout
    assert "warning (not-reproduced): the application took 20.0 % less" in screen
    assert "REPLAY_EMULATOR_SLOWDOWN" in screen
    assert screen.count("inplace_scan") >= 4  # the window, and a row for each launch
