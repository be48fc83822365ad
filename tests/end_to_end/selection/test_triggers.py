"""`capture --when`: the launch that goes wrong is captured though nobody named it."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from replay.errors import ExitCode

WRONG = "goes_wrong"
HARMLESS = """.version 7.0
.target sm_75
.address_size 64
.visible .entry scatter(.param .u64 values, .param .u64 places, .param .u32 count) { ret; }
"""


def info(replay, name="x.rsnap"):
    return json.loads(replay("info", name, "--json").stdout)


def test_nan_is_found_in_the_launch_that_makes_it_with_its_inputs_and_the_one_before(replay):
    replay.capture("--when", "nan", "--ring", "2", application=replay.application(WRONG, "nan"))
    found = info(replay)
    assert found["summary"]["trigger"].startswith("nan launch 137 of normalise: a NaN of type f32")
    assert [window["number"] for window in found["windows"]] == [136, 137]
    assert "outputs of 2 of 2 windows match" in replay("run", "x.rsnap").stdout
    replay("dump", "x.rsnap", "--window", "137", "-o", "dumped")
    contents = b"".join(path.read_bytes() for path in (replay.folder / "dumped").rglob("*") if path.is_file())
    assert b"\xff\xff\xff\x7f" * 64 in contents or b"\x00\x00\xc0\xff" * 64 in contents


def test_write_out_of_bounds_is_captured_with_what_was_there_before_and_faults_again(replay):
    done = replay.capture("--when", "error", application=replay.application(WRONG, "fault"), status=1)
    assert "it was kept for: error launch 57 of scatter" in done.stderr
    assert info(replay)["summary"]["launches"] == 1
    ran = replay("run", "x.rsnap")
    assert "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS in kernel scatter" in ran.stdout


def test_launch_that_was_slow_once_is_captured_itself_with_a_ring(replay):
    replay.capture("--when", "slower=2x", "--ring", "1", application=replay.application(WRONG, "slow"))
    assert info(replay)["summary"]["trigger"].startswith("slower launch 250 of work: it took")
    assert "outputs match" in replay("run", "x.rsnap").stdout


def test_without_a_ring_the_next_slow_launch_is_captured_and_the_note_says_which_was_first(replay):
    replay.capture("--when", "slower=2x", application=replay.application(WRONG, "slow", "1000"))
    trigger = info(replay)["summary"]["trigger"]
    assert trigger.startswith("slower launch 750 of work")
    assert "launch 250 was slow first" in trigger


def test_last_launch_before_a_crash_of_the_host_is_captured(replay):
    application = replay.application(WRONG, "crash")
    replay.capture("--when", "error or crash", application=application, status=128 + 11)
    assert info(replay)["summary"]["trigger"] == "crash: signal 11 ended the application"
    assert info(replay)["windows"] == []
    assert "outputs match" in replay("run", "x.rsnap").stdout


def test_launch_longer_than_a_time_is_captured(replay):
    replay.capture("--when", "time=20us", "--ring", "1", application=replay.application(WRONG, "slow"))
    assert info(replay)["summary"]["trigger"].startswith("time launch 250 of work")


def test_when_nothing_goes_wrong_there_is_no_snapshot_and_the_application_is_as_ever(replay):
    application = replay.application("vector_add", "5")
    done = replay.capture(
        "--when", "error,nan,crash", application=application, status=int(ExitCode.COULD_NOT)
    )
    assert "nothing was seen to go wrong: 5 launches were watched" in done.stderr
    assert "all correct" in done.stdout


def test_a_capture_that_stops_does_not_say_that_nothing_went_wrong(replay):
    application = replay.application(WRONG, "nan", "20000")
    command = replay.capture_command(
        *("--when", "slower=50x", "--ring", "1", "--kernel", "fill"),
        output="x.rsnap",
        application=application,
    )
    done = replay.start(["bash", "-c", 'ulimit -f 1200; exec "$@"', "limited", *command])
    said = done.communicate(timeout=90)[1]
    assert "capture stopped: the records could not grow" in said
    assert "nothing was seen to go wrong" not in said


def test_max_bytes_holds_with_a_trigger_too(replay):
    application = replay.application(WRONG, "nan", "10")
    done = replay.capture(
        "--when", "nan", "--max-bytes", "1K", application=application, status=int(ExitCode.COULD_NOT)
    )
    assert "needed" in done.stderr
    assert "in the ring" in done.stderr


def test_a_process_that_was_killed_does_not_hang(replay):
    program = " ".join(replay.application(WRONG, "crash"))
    command = replay.capture_command(
        "--when", "hang=500ms", output="x.rsnap", application=["bash", "-c", f"{program}; sleep 2"]
    )
    said = replay.start(command).communicate(timeout=90)[1]
    assert "nothing was seen to go wrong" in said
    assert not (replay.folder / "x.rsnap").exists()


def test_other_launches_leave_no_contents_on_the_disk(replay):
    replay.capture("--when", "nan", "--keep-raw", application=replay.application(WRONG, "nan"))
    blobs = sum(path.stat().st_size for path in replay.folder.glob("x.rcap/blobs.*"))
    assert 0 < blobs <= 64 << 10


def test_several_snapshots_have_names_of_their_own(replay):
    selection = ["--when", "slower=2x", "--ring", "1", "--max-snapshots", "3"]
    replay.capture(*selection, application=replay.application(WRONG, "slow", "600"))
    (path,) = replay.folder.glob("x.*Z.rsnap")
    assert "slower launch 250" in info(replay, path.name)["summary"]["trigger"]


def test_ring_that_is_too_small_says_which_launch_needed_how_much(replay):
    selection = ["--when", "error", "--ring", "1,1k"]
    done = replay.capture(*selection, application=replay.application(WRONG, "fault"), status=1)
    assert "which needed" in done.stderr
    assert "in the ring" in done.stderr
    assert "needed" in replay("info", "x.rsnap").stdout


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (["--when", "sunday"], "is no trigger"),
        (["--when", "slower=1x"], "is no factor above 1"),
        (["--when", "time=fast"], "is no time"),
        (["--when", "error=3"], "takes no argument"),
        (["--when", "signal=KILL"], "is no such signal"),
        (["--when", "error", "--launch", "3"], "--when chooses the launches"),
        (["--ring", "3"], "belong to --when"),
        (["--when", "error", "--ring", "0"], "a ring holds"),
        (["--when", "error", "--memory", "31M"], "too little to watch with"),
        (["--memory", "2G"], "is no choice"),
        (["--when", "error", "--memory", "sunday"], "is no choice"),
    ],
)
def test_options_that_make_no_sense_are_refused(replay, selection, words):
    done = replay.capture(*selection, application=["true"], status=int(ExitCode.USAGE))
    assert words in done.stderr


def paused(replay, wait_for_pause, *selection):
    pause_file = replay.folder / "pause"
    application = replay.application("vector_add", "9", "--pause-after", "4", "--pause-file", str(pause_file))
    command = replay.capture_command(*selection, output="x.rsnap", application=application)
    process = replay.start(command)
    return process, wait_for_pause(pause_file, process), pause_file


def ended(process):
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, f"{output}\n{errors}"
    return errors


@pytest.mark.parametrize("whom", ["application", "capture"])
def test_a_running_program_is_asked_for_its_next_launch(replay, wait_for_pause, whom):
    process, pid, pause_file = paused(replay, wait_for_pause, "--when", "signal")
    replay("trigger", str(pid if whom == "application" else process.pid))
    pause_file.unlink()
    ended(process)
    assert info(replay)["summary"]["trigger"] == "signal launch 5 of vector_add: it was asked for"
    assert "outputs match" in replay("run", "x.rsnap").stdout


def test_a_signal_asks_for_the_next_launch(replay, wait_for_pause):
    process, pid, pause_file = paused(replay, wait_for_pause, "--when", "signal=USR2")
    os.kill(pid, signal.SIGUSR2)
    pause_file.unlink()
    ended(process)
    assert info(replay)["summary"]["trigger"].startswith("signal launch 5 of vector_add")


def test_a_capture_that_waits_for_something_else_cannot_be_asked(replay, wait_for_pause):
    process, pid, pause_file = paused(replay, wait_for_pause, "--when", "slower=2x")
    done = replay("trigger", str(pid), status=int(ExitCode.USAGE))
    assert "capture with --when signal" in done.stderr
    pause_file.unlink()
    assert "nothing was seen to go wrong" in process.communicate(timeout=90)[1]
    done = replay("trigger", str(os.getpid()), status=int(ExitCode.COULD_NOT))
    assert "is not under capture" in done.stderr


def test_a_deadlock_gives_a_snapshot_while_the_application_still_hangs(replay):
    application = replay.application(WRONG, "deadlock")
    command = replay.capture_command("--when", "hang=1s", output="x.rsnap", application=application)
    process = replay.start(command)
    deadline = time.monotonic() + 90
    while not (replay.folder / "x.rsnap").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None, "the application is let alone"
    assert info(replay)["summary"]["trigger"] == "hang launch 33 of wait: it has not ended after 1 s"
    done = replay("run", "x.rsnap", "--timeout", "2s", status=int(ExitCode.COULD_NOT))
    assert "the application, too, ended inside call" in done.stderr
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=90)


@pytest.mark.usefixtures("started_workers")
def test_fault_is_reproduced_by_a_worker_that_was_started_and_no_other_one_passes(replay):
    replay.capture("--when", "error", application=replay.application(WRONG, "fault"), status=1)
    assert "FAULT reproduced" in replay("run", "x.rsnap").stdout
    (replay.folder / "harmless.ptx").write_text(HARMLESS)
    done = replay("run", "x.rsnap", "--swap", "scatter=harmless.ptx", status=int(ExitCode.GATE_FAILED))
    assert "NOT REPRODUCED" in done.stdout
