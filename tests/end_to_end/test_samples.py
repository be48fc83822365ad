"""Every sample: captured, described, verified, replayed; its outputs match and the application notices nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHES = [
    ("vector_add", "vector_add", "2"),
    ("saxpy", "saxpy", "3"),
    ("reduce", "reduce_blocks", "2"),
    ("reduce", "reduce_atomic", "2"),
    ("matmul_tiled", "matmul_tiled", "2"),
    ("inplace_scan", "inplace_scan", "3"),
    ("pointer_table", "pointer_table", "2"),
    ("two_streams", "produce", "2"),
    ("two_streams", "consume", "3"),
    ("hidden_state", "draw", "3"),
    ("hidden_state", "account", "2"),
    ("cooperative", "relax", "1"),
    ("cooperative", "relax", "2"),
    ("graph_update", "step", "3"),
    ("graph_update", "combine", "2"),
    ("texture_filter", "filter", "3"),
    ("memory_kinds", "accumulate", "4"),
    ("cluster_sum", "cluster_sum", "2"),
    ("graph_while", "collatz", "2"),
    ("tensor_tile", "tensor_tile", "2"),
    ("mipmap_levels", "add_levels", "2"),
    ("host_memory", "blend", "2"),
    ("own_pool", "gather", "3"),
    ("two_devices", "advance", "2"),
]
WHOLE = [*dict.fromkeys(sample for sample, _, _ in LAUNCHES if sample != "saxpy")]


@pytest.fixture(autouse=True)
def two_devices(monkeypatch):
    """On the CPU driver; a machine has what it has."""
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")


@pytest.mark.parametrize(("sample", "kernel", "launch"), LAUNCHES, ids=[f"{s}-{k}" for s, k, _ in LAUNCHES])
def test_one_launch_replays_with_equal_outputs(replay, sample, kernel, launch):
    captured = replay.capture(
        "--kernel", f"^{kernel}$", "--launch", launch, application=replay.application(sample)
    )
    assert "all correct" in captured.stdout
    assert kernel in replay("info", "x.rsnap").stdout
    assert kernel in replay("ls", "x.rsnap", "kernels").stdout
    replay("verify", "x.rsnap")
    assert "outputs match" in replay.run().stdout


@pytest.mark.parametrize("sample", WHOLE)
def test_whole_program_replays_with_equal_outputs(replay, sample):
    done = replay.capture("--all", application=replay.application(sample, "2"))
    assert "not everything was captured" not in done.stderr
    assert "outputs match" in replay.run().stdout


def test_every_sample_is_listed_built_and_tested():
    folders = {path.parent.name for path in (REPOSITORY / "samples").glob("*/*.cu")}
    assert folders == {sample for sample, _, _ in LAUNCHES} | {"crash", "missing_barrier", "goes_wrong"}
    readme = (REPOSITORY / "samples" / "README.md").read_text()
    assert {name for name in folders if f"`{name}`" not in readme} <= {"saxpy"}


def test_window_of_several_launches_replays_with_equal_outputs(replay):
    replay.capture(
        "--kernel", "inplace_scan", "--launch", "2-4", application=replay.application("inplace_scan")
    )
    assert "outputs match" in replay.run().stdout


def test_attributes_of_the_function_are_those_that_the_driver_gave(replay):
    """matmul_tiled keeps two tiles of 16 x 16 floats in shared memory; its PTX says so, and so must the snapshot."""
    replay.capture("--kernel", "matmul", application=replay.application("matmul_tiled"))
    (kernel,) = json.loads(replay("info", "x.rsnap", "--json").stdout)["kernels"]
    assert kernel["attributes"]["static_shared_bytes"] == 2 * 16 * 16 * 4
    assert kernel["attributes"]["max_threads"] == 1024
    if os.environ.get("REPLAY_TEST_DRIVER", "emulator") == "emulator":
        assert "registers" not in kernel["attributes"], "the CPU driver only models them"


def test_window_that_stays_open_to_the_end_of_the_program_replays_more_than_once(replay):
    """The program frees, unloads and gives its context back inside the window; each iteration needs them again."""
    replay.capture(
        "--kernel", "matmul", "--launch", "2-9", application=replay.application("matmul_tiled", "2")
    )
    assert "outputs match" in replay.run("x.rsnap", "--samples", "4").stdout


def test_replay_is_repeatable_though_the_kernel_overwrites_its_input(replay):
    replay.capture(
        "--kernel", "inplace_scan", "--launch", "2", application=replay.application("inplace_scan")
    )
    first, second = (replay.run("x.rsnap", "--samples", "5").stdout for _ in range(2))
    assert "outputs match" in first
    assert "outputs match" in second


def test_application_prints_and_returns_the_same_under_capture(replay):
    """PRESERVE, on a program that writes to both streams, reads its input and has an exit status."""
    script = 'read line; echo "out $line"; echo err >&2; exec "$0" status'
    application = ["sh", "-c", script, str(replay.samples / "crash")]
    done = replay.capture("--kernel", "count_up", application=application, status=3, input="typed\n")
    assert "out typed" in done.stdout
    assert "err" in done.stderr


def test_two_captures_of_one_program_hold_equal_memory(replay):
    """The same launch captured twice: equal inputs and outputs, so equal contents."""
    listings = []
    for name in ("a.rsnap", "b.rsnap"):
        replay.capture("--kernel", "reduce_atomic", application=replay.application("reduce"), output=name)
        replay("dump", name, "-o", name + ".dump")
        files = sorted((replay.folder / (name + ".dump")).rglob("*.npy"))
        assert files
        listings.append(sorted(file.read_bytes() for file in files))
    assert listings[0] == listings[1]


def test_snapshot_starts_from_the_memory_just_before_the_launch(replay):
    """The golden outputs of launch 2 are the inputs of launch 3."""
    contents = []
    for launch in ("2", "3"):
        name = f"{launch}.rsnap"
        replay.capture(
            "--kernel",
            "scan",
            "--launch",
            launch,
            application=replay.application("inplace_scan"),
            output=name,
        )
        replay("dump", name, "-o", f"{launch}.dump")
        files = {file.name: file.read_bytes() for file in (replay.folder / f"{launch}.dump").rglob("*.npy")}
        contents.append(files)
    before_third = [data for name, data in contents[1].items() if "before" in name]
    after_second = [data for name, data in contents[0].items() if "after" in name]
    assert before_third
    assert before_third == after_second
    assert before_third != [data for name, data in contents[0].items() if "before" in name]


def test_samples_detect_wrong_results_themselves(replay):
    """A sample that could not fail would prove nothing: with its PTX changed, it must."""
    ptx = replay.samples / "vector_add.ptx"
    text = ptx.read_text()
    broken = replay.folder / "vector_add"
    broken.write_bytes((replay.samples / "vector_add").read_bytes())
    broken.chmod(0o755)
    assert "add.f32" in text
    (replay.folder / "vector_add.ptx").write_text(text.replace("add.f32", "sub.f32"))
    done = replay.capture("--kernel", "vector_add", application=[str(broken)], status=1)
    assert "expected" in done.stderr


def test_uninstalled_driver_is_no_hindrance_to_reading(replay):
    """`info`, `ls`, `verify` and `dump` need neither a driver nor cuda.bindings."""
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    blocker = replay.folder / "blocked" / "cuda"
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise ImportError('cuda.bindings is not installed')\n")
    for command in (["info"], ["ls"], ["verify"], ["dump"]):
        arguments = [*command, "x.rsnap", *(["calls"] if command == ["ls"] else [])]
        arguments += ["-o", "dumped"] if command == ["dump"] else []
        done = subprocess.run(
            [
                "env",
                f"PYTHONPATH={blocker.parent}:{os.environ.get('PYTHONPATH', '')}",
                *replay.command(*arguments),
            ],
            cwd=replay.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_memory_that_pointers_reach_is_needed_and_its_absence_is_found(replay):
    """Without the rows that the table points to, outputs cannot match: so `reachable` is what makes them match."""
    arguments = ["--memory", "params", "--kernel", "pointer_table", "--launch", "2"]
    replay.capture(*arguments, application=replay.application("pointer_table"))
    assert "outputs match" not in replay.run(status=None).stdout
