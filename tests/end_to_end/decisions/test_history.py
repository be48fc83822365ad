"""`replay run --history` and `replay history` on the CPU driver: a slow-down shows in the course of results."""

from __future__ import annotations

import json


def test_results_of_runs_become_a_history(replay, good_snapshot):
    (replay.folder / "x.rsnap").write_bytes(good_snapshot.read_bytes())
    for _ in range(2):
        replay.run("x.rsnap", "--history", "results")
    replay("baseline", "set", "results")
    replay.run("x.rsnap", "--history", "results")
    view = json.loads(replay("history", "results", "--json").stdout)
    (series,) = view["series"]
    assert len(series["points"]) == 3
    assert series["source"] == "modelled"
    assert series["baseline_ns"] == series["points"][-1]["median_ns"]
    text = replay("history", "results").stdout
    assert "modelled" in text
    assert len(replay("history", "results", "--csv").stdout.splitlines()) == 4


def test_every_window_of_a_snapshot_is_added(replay):
    replay.capture("--kernel", "reduce_atomic", "--each", application=replay.application("reduce"))
    replay.run("x.rsnap", "--history", "results")
    view = json.loads(replay("history", "results", "--json").stdout)
    assert [series["window"] for series in view["series"]] == [1, 2]
