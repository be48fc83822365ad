"""What `replay run` finds and reports when a replay does not go well, and that it never hangs."""

from __future__ import annotations

import json
import os

import pytest

from replay.errors import ExitCode
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES

emulator_only = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: only the CPU driver can be told to fail",
)


def with_other_outputs(source, target, edit):
    """Copy a snapshot with the golden contents of each range that was written passed through `edit`."""
    changed = 0
    with SnapshotReader(source) as reader, SnapshotWriter(target) as writer:
        for kind, value in reader.chosen_objects():
            if kind == "chunk":
                writer.write_chunk(value[1])
                continue
            after = value.get("after") if kind == "range" else None
            if after and after != value.get("before"):
                data = bytearray()
                for index in range(-(-after["size_bytes"] // CHUNK_BYTES)):
                    length = min(CHUNK_BYTES, after["size_bytes"] - index * CHUNK_BYTES)
                    digest = after["digests"][index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
                    data += reader.chunk(digest, length)
                edit(data)
                digests = writer.write_chunks_from(bytes(data), 0, len(data), CHUNK_BYTES)
                value = {**value, "after": {"size_bytes": len(data), "digests": b"".join(digests)}}
                changed += 1
            writer.write(kind, value)
    assert changed, "this snapshot has no written memory to change"


def test_one_wrong_bit_in_the_outputs_is_found_with_its_address(replay, good_snapshot):
    def flip(data):
        data[4096] ^= 1

    with_other_outputs(good_snapshot, replay.folder / "wrong.rsnap", flip)
    replay("verify", "wrong.rsnap")  # the file itself is whole
    done = replay.run("wrong.rsnap", status=ExitCode.GATE_FAILED)
    assert "outputs match" not in done.stdout
    assert "0x" in done.stdout + done.stderr


def test_time_in_the_application_is_beside_the_time_of_the_replay(replay):
    """Both come from the CPU driver's model here, so that they are equal to the nanosecond."""
    replay.capture("--all", application=replay.application("two_streams"))
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert result["application"]["timed_launches"] == result["window"]["launches"] == 8
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert result["application"]["timed_launches"] == 1
    assert result["application"]["gpu_ns"] == result["timing"]["gpu"]["median_ns"] > 0
    assert "modelled for 1 launch" in replay.run("x.rsnap").stdout


@emulator_only
def test_counters_of_the_window_are_a_table_and_in_the_result(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    result = json.loads(replay.run("x.rsnap", "--counters", "--json", "-o", "x.rres").stdout)
    total, (kernel,) = result["counters"]["total"], result["counters"]["kernels"]
    assert total["launches"] == kernel["launches"] == 1
    assert total["counters"]["global_load_bytes"] == 2 * 4 * 262147
    assert total["counters"]["global_store_bytes"] == 4 * 262147
    assert total["modelled_ns"] == result["timing"]["gpu"]["median_ns"]
    table = replay.run("x.rsnap", "--counters").stdout
    assert "lanes per instruction" in table
    assert "sectors per request" in table
    assert json.loads(replay.run("x.rsnap", "--json").stdout)["counters"] is None


def test_what_capture_did_to_the_application_is_in_the_snapshot(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    changes = json.loads(replay("info", "x.rsnap", "--json").stdout)["summary"]["perturbation"]
    assert changes["waits"] == 2  # before the launch and at the end of the window
    assert changes["copied_bytes"] == 2 * 3 * 4 * 262147  # three buffers, twice
    assert changes["copy_ns"] > 0


def test_run_prints_one_json_object(replay, good_snapshot):
    done = replay.run(str(good_snapshot), "--json")
    assert isinstance(json.loads(done.stdout), dict)


def test_info_prints_one_json_object(replay, good_snapshot):
    assert isinstance(json.loads(replay("info", str(good_snapshot), "--json").stdout), dict)


def test_result_file_is_written(replay, good_snapshot):
    replay.run(str(good_snapshot), "-o", "r.rres")
    assert (replay.folder / "r.rres").stat().st_size > 0


@emulator_only
def test_crash_of_the_worker_is_reported(replay, good_snapshot):
    environment = {**os.environ, "REPLAY_EMULATOR_SEGV": "inplace_scan"}
    done = replay(
        "run", str(good_snapshot), "--driver", "emulator", status=ExitCode.COULD_NOT, env=environment
    )
    assert "SIGSEGV" in done.stderr or "signal 11" in done.stderr


@emulator_only
def test_kernel_that_never_ends_is_reported(replay, good_snapshot):
    environment = {**os.environ, "REPLAY_EMULATOR_HANG": "inplace_scan"}
    arguments = ["run", str(good_snapshot), "--driver", "emulator", "--timeout", "3"]
    done = replay(*arguments, status=ExitCode.COULD_NOT, env=environment)
    assert "3 s" in done.stderr or "seconds" in done.stderr, done.stderr


@emulator_only
def test_failing_driver_call_in_a_replay_is_reported_by_name(replay, good_snapshot):
    environment = {**os.environ, "REPLAY_EMULATOR_FAIL": "cuLaunchKernel:1:719"}
    done = replay("run", str(good_snapshot), "--driver", "emulator", status=None, env=environment)
    assert done.returncode in (ExitCode.GATE_FAILED, ExitCode.COULD_NOT)
    assert "CUDA_ERROR_LAUNCH_FAILED" in done.stdout + done.stderr


@emulator_only
@pytest.mark.parametrize(
    ("sample", "kernel"),
    [("reduce", "reduce_atomic"), ("two_streams", "consume"), ("two_streams", ""), ("cooperative", "")],
)
def test_deferred_streams_change_nothing(replay, sample, kernel):
    """Work that runs at the last legal moment: capture and replay must synchronise what they read, and whatever the
    window's streams do not wait for: copies that load memory, and those from which it is restored."""
    environment = {**os.environ, "REPLAY_EMULATOR_DEFERRED": "1"}
    selection = ["--kernel", kernel, "--launch", "2"] if kernel else ["--all"]
    replay.capture(*selection, application=replay.application(sample), env=environment)
    for options in ([], ["--no-timing"]):
        done = replay("run", "x.rsnap", "--driver", "emulator", *options, env=environment)
        assert "outputs match" in done.stdout


@emulator_only
def test_times_of_the_cpu_driver_are_called_modelled(replay, good_snapshot):
    assert "modelled" in replay.run(str(good_snapshot)).stdout.lower()


@emulator_only
def test_slower_kernel_is_measured_as_slower(replay, good_snapshot):
    """The modelled time has a knob; what `run` measures must follow it."""

    def median_ns(environment):
        done = replay(
            "run", str(good_snapshot), "--driver", "emulator", "--json", env={**os.environ, **environment}
        )
        return find_number(json.loads(done.stdout), "median")

    slow, normal = median_ns({"REPLAY_EMULATOR_SLOWDOWN": "inplace_scan:3"}), median_ns({})
    assert normal * 1.5 < slow


def find_number(value, part_of_name):
    """The first number in a JSON value whose key contains `part_of_name`."""
    if isinstance(value, dict):
        for key, content in value.items():
            if part_of_name in key and isinstance(content, (int, float)):
                return content
            found = find_number(content, part_of_name)
            if found is not None:
                return found
    if isinstance(value, list):
        return next((found for item in value if (found := find_number(item, part_of_name)) is not None), None)
    return None
