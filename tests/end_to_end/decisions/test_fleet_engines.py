"""The same corpus by engines that exist, with results in a folder and at URLs: a worker is killed in the middle, and
the verdicts stay the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from buckets import bucket, server  # noqa: F401 fixtures

from ..killing import MARK, kill_one
from ..slurm_cluster import cluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SNAPSHOTS = int(os.environ.get("REPLAY_TEST_FLEET_SNAPSHOTS", "2"))
MATRIX = """
[limits]
quick = true
[canary]
snapshot = "canary.rsnap"
[[kind]]
name = "cpu"
driver = "emulator"
workers = {workers}
[[compare]]
name = "planted"
kernels = "scan"
b = "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.05"
[[compare]]
name = "harmless"
kernels = "saxpy"
b = "env=NOTHING=1"
[[owner]]
kernel = "scan"
team = "sums"
"""
# Where results go -> where their attempts are seen on this machine: at a URL in the copy of it
PLACES = {"folder": "r-*", "file": "cache/replay/results/*", "s3": "cache/replay/results/*"}
# Ray gives a node half a minute to begin, whatever else the machine has to do.
_RAY = """
import subprocess, sys, os
from ray.cluster_utils import Cluster
def patiently(make, *given, **named):
    for left in range(9, -1, -1):
        try:
            return make(*given, **named)
        except Exception:
            if not left:
                raise
node = dict(num_cpus=1, include_dashboard=False)
cluster = patiently(Cluster, initialize_head=True, head_node_args=dict(node, node_name="n1"))
for name in ("n2", "n3"):
    patiently(cluster.add_node, **node, node_name=name)
status = subprocess.call(sys.argv[1:], env={**os.environ, "RAY_ADDRESS": cluster.address})
cluster.shutdown()
sys.exit(status)
"""


@pytest.fixture
def corpus(replay, good_snapshot):
    folder = replay.folder / "corpus"
    folder.mkdir()
    shutil.copy(good_snapshot, replay.folder / "canary.rsnap")
    for number in range(1, SNAPSHOTS + 1):
        name, launch = "saxpy" if number % 2 else "inplace_scan", str((number + 1) // 2)
        replay.capture("--kernel", name, "--launch", launch, application=replay.application(name, launch))
        (replay.folder / "x.rsnap").rename(folder / f"{number}.rsnap")
    return folder


@pytest.fixture(params=PLACES)
def place(request, replay):
    """Where results go, by its kind; a function of the engine's name."""
    if request.param == "file":
        pytest.importorskip("fsspec")
    url = request.getfixturevalue("bucket") if request.param == "s3" else f"file://{replay.folder}/shared"
    return request.param, lambda name: f"r-{name}" if request.param == "folder" else f"{url}/{name}"


def run(replay, words, environment, results, *engine, wrapper=(), seen="r-*"):
    (replay.folder / "night.toml").write_text(MATRIX.format(workers=3 if "ray" in engine else 2))
    arguments = ["fleet", "run", "corpus", "--matrix", "night.toml", "--results", results, "--json", *engine]
    process = subprocess.Popen(
        [*wrapper, *replay.command(*arguments)], cwd=replay.folder,
        env={**environment, MARK: str(replay.folder), "XDG_CACHE_HOME": str(replay.folder / "cache")},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    killed = not words or kill_one(replay.folder, words, process, seen)
    output, errors = process.communicate(timeout=600)
    assert killed, (output, errors)
    assert process.returncode == 1, (output, errors)
    return json.loads(output[output.index("{\n") :])  # after what an engine says


def same(one, other):
    first, second = ({case["snapshot"]: (case["verdict"], case["ratio"]) for case in item["cases"]} for item in
                     (one, other))  # fmt: skip
    assert first == second
    assert len(first) == SNAPSHOTS
    assert {verdict for verdict, _ in first.values()} == {"SLOWER", "SAME"}
    for found in (one, other):
        assert {case["team"] for case in found["cases"] if case["alert"]} == {"sums"}


def test_slurm_gives_the_verdicts_of_this_machine(replay, corpus, place, tmp_path_factory):
    pytest.importorskip("submitit")
    if reason := why_not():
        pytest.skip(reason)
    kind, at = place
    local = run(replay, b"", dict(os.environ), "local")
    with cluster(tmp_path_factory.mktemp("slurm")) as environment:
        found = run(replay, b"submitit", environment, at("slurm"), "--on", "slurm", seen=PLACES[kind])
    same(found, local)
    # Whether a step is confirmed depends on when the other of two nodes, whose worker was killed, is back.
    assert {device["node"] for device in found["devices"]} == {"n1", "n2"}
    assert any("left the queue without a result" in note for note in found["notes"])


def test_ray_gives_the_verdicts_of_this_machine(replay, corpus, place):
    pytest.importorskip("ray")
    kind, at = place
    local = run(replay, b"", dict(os.environ), "local")
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    found = run(
        replay, b"ray::_work", environment, at("ray"), "--on", "ray", wrapper=(sys.executable, "-c", _RAY),
        seen=PLACES[kind],
    )  # fmt: skip
    same(found, local)
    assert {device["node"] for device in found["devices"]} == {"n1", "n2", "n3"}
    assert all(case["confirmed_by"] for case in found["cases"] if case["alert"])
    assert any(note.startswith("Ray: ") for note in found["notes"])
