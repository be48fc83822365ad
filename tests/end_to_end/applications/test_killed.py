"""Applications killed between two launches: what was selected and finished before is in the file and replays."""

from __future__ import annotations

import os
import signal

import pytest

SAMPLES = {
    "vector_add": "vector_add",
    "saxpy": "saxpy",
    "reduce": "reduce_atomic",
    "matmul_tiled": "matmul_tiled",
    "inplace_scan": "inplace_scan",
    "pointer_table": "pointer_table",
    "two_streams": "consume",
}


def raw_capture(replay):
    found = list(replay.folder.glob("*.rcap"))
    assert len(found) == 1, f"expected one raw capture, found {[path.name for path in found]}"
    return found[0].name


@pytest.fixture
def paused(replay, wait_for_pause):
    """paused(sample): the process of a capture, and its application's process id, between two launches."""

    def start(sample):
        pause_file = replay.folder / "paused"
        application = replay.application(sample, "3", "--pause-after", "2", "--pause-file", str(pause_file))
        command = replay.capture_command(
            "--kernel", f"^{SAMPLES[sample]}$", "--launch", "2", output="x.rsnap", application=application
        )
        capture = replay.start(command)
        return capture, wait_for_pause(pause_file, capture)

    return start


@pytest.mark.parametrize("sample", SAMPLES)
def test_application_killed_between_two_launches_replays(replay, paused, sample):
    """Only the application dies; `replay capture` lives on, makes the snapshot, and says what happened."""
    capture, application = paused(sample)
    os.kill(application, signal.SIGKILL)
    _, errors = capture.communicate(timeout=100)
    assert capture.returncode == 128 + signal.SIGKILL, errors
    assert "SIGKILL" in errors or "signal 9" in errors, errors
    assert "outputs match" in replay.run().stdout


@pytest.mark.parametrize("sample", SAMPLES)
def test_application_and_packer_killed_then_packed_replays(replay, paused, sample):
    """Everything dies; `replay pack` makes the snapshot of the raw capture that is left."""
    capture, application = paused(sample)
    capture.kill()
    os.kill(application, signal.SIGKILL)
    capture.communicate(timeout=100)
    assert not (replay.folder / "x.rsnap").exists()
    replay("pack", raw_capture(replay), "-o", "x.rsnap")
    assert "outputs match" in replay.run().stdout


def test_whole_program_killed_half_way_replays_what_was_whole(replay, wait_for_pause):
    """With --all the window is still open when the application dies, so there are no golden outputs: that is said."""
    pause_file = replay.folder / "paused"
    application = replay.application(
        "inplace_scan", "3", "--pause-after", "2", "--pause-file", str(pause_file)
    )
    capture = replay.start(replay.capture_command("--all", output="x.rsnap", application=application))
    os.kill(wait_for_pause(pause_file, capture), signal.SIGKILL)
    capture.communicate(timeout=100)
    done = replay.run(status=None)
    assert done.returncode in (0, 1), done.stderr
    assert "outputs match" not in done.stdout
