"""`capture --when error`: launches are watched and not waited for, and the one that fails is still the one captured."""

from __future__ import annotations

import json
import re
import struct

import pytest

from replay.errors import ExitCode

WRONG = "goes_wrong"


def info(replay, name="x.rsnap"):
    return json.loads(replay("info", name, "--json").stdout)


def fault(replay, *selection, launches="100", wrong="57"):
    application = replay.application(WRONG, "fault", launches, wrong)
    return replay.capture(*selection, application=application, status=1)


def test_only_the_first_launch_of_a_kernel_is_waited_for(replay):
    fault(replay, "--when", "error")
    summary = info(replay)["summary"]
    assert summary["trigger"] == "error launch 57 of scatter: the device reports error 700"
    assert summary["watched"] == "56 launches without a wait, 672 KiB copied for them; 1 waited for"
    assert "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS in kernel scatter" in replay("run", "x.rsnap").stdout


def test_the_ring_has_the_launches_before_it_with_their_own_inputs(replay):
    fault(replay, "--when", "error", "--ring", "3")
    assert [window["number"] for window in info(replay)["windows"]] == [55, 56, 57]
    for number in (55, 56):
        replay("dump", "x.rsnap", "--window", str(number), "-o", f"dumped{number}")
    contents = [
        b"".join(
            path.read_bytes()
            for path in sorted((replay.folder / f"dumped{number}").rglob("*"))
            if path.is_file()
        )
        for number in (55, 56)
    ]
    for number, held in zip((55, 56), contents, strict=True):  # each has what the host had copied for it
        assert struct.pack("<1024Q", *((i + number) % 1024 for i in range(1024))) in held
    assert "FAULT reproduced" in replay("run", "x.rsnap", "--window", "57").stdout


def test_slower_and_error_together_keep_whichever_comes(replay):
    application = replay.application(WRONG, "slow", "1000")
    replay.capture("--when", "slower=2x,error", application=application)
    summary = info(replay)["summary"]
    assert summary["trigger"].startswith("slower launch 750 of work")
    assert "without a wait" in summary["watched"]
    assert "outputs match" in replay("run", "x.rsnap").stdout
    fault(replay, "--when", "slower=50x,error")
    assert info(replay)["summary"]["trigger"].startswith("error launch 57 of scatter")


def test_what_more_than_the_bandwidth_is_not_watched_is_counted(replay):
    application = replay.application(WRONG, "slow", "400", "1")
    done = replay.capture(
        "--when", "error", "--ring-bandwidth", "64k", application=application, status=int(ExitCode.COULD_NOT)
    )
    counted = re.search(r"not watched: (\d+) launches that were more than --ring-bandwidth", done.stderr)
    assert counted is not None
    copied = re.search(r"watched: (\d+) launches without a wait, ([\d.]+) KiB copied", done.stderr)
    assert copied is not None
    assert int(counted[1]) + int(copied[1]) == 399  # the first was waited for


def test_a_launch_of_another_kernel_is_not_blamed(replay):
    application = replay.application(WRONG, "fault", "40", "30", "7")
    done = replay.capture("--when", "error", "--kernel", "fill", application=application, status=1)
    assert not (replay.folder / "x.rsnap").exists()
    assert "error 700 came from a launch that was not recorded" in done.stderr


@pytest.mark.usefixtures("started_workers")
def test_of_two_streams_the_launch_that_failed_is_captured(replay):
    done = replay.capture("--when", "error", application=replay.application(WRONG, "streams"), status=1)
    assert "launch 60 goes wrong" in done.stdout
    assert info(replay)["summary"]["trigger"].startswith(
        "error launch 60 of scatter: the device reports error 700"
    )
    assert "FAULT reproduced" in replay("run", "x.rsnap").stdout


def test_streams_that_wait_for_one_another_are_right_as_ever(replay):
    done = replay.capture(
        "--when", "error", application=replay.application("two_streams", "60"), status=int(ExitCode.COULD_NOT)
    )
    assert "all correct" in done.stdout
    assert "118 launches without a wait" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--when", "slower=2x", "--ring", "1", "--ring-bandwidth", "2G"], "have each launch waited for"),
        (["--when", "error", "--ring-bandwidth", "0"], "is no size"),
        (["--ring-bandwidth", "2G"], "belong to --when"),
    ],
)
def test_bandwidth_where_nothing_is_copied_beside_a_launch_is_refused(replay, options, words):
    done = replay.capture(*options, application=["true"], status=int(ExitCode.USAGE))
    assert words in done.stderr


def test_snapshots_are_written_beside_the_application_and_the_oldest_removed(replay):
    application = replay.application(WRONG, "slow", "6000")
    replay.capture(
        *("--when", "slower=2x", "--max-snapshots", "3", "--keep", "1", "--status", "how.jsonl"),
        application=application,
    )
    lines = [json.loads(line) for line in (replay.folder / "how.jsonl").read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"replay.watch/1"}
    assert lines[-1]["event"] == "ended"
    written = [line["path"] for line in lines if line["event"] == "snapshot"]
    assert written
    assert [line["path"] for line in lines if line["event"] == "removed"] == written[:-1]
    assert [path.name for path in replay.folder.glob("x*.rsnap")] == written[-1:]
    assert lines[-1]["hits"] == len(written)


def test_a_capture_that_watches_no_more_is_not_asked(replay, wait_for_pause):
    pause_file = replay.folder / "pause"
    application = replay.application("vector_add", "9", "--pause-after", "6", "--pause-file", str(pause_file))
    command = replay.capture_command(
        "--when", "time=1us or signal", "--ring", "1", output="x.rsnap", application=application
    )
    process = replay.start(command)
    pid = wait_for_pause(pause_file, process)
    done = replay("trigger", str(pid), status=int(ExitCode.COULD_NOT))
    assert "watching has ended: 1 snapshot was taken" in done.stderr
    pause_file.unlink()
    process.communicate(timeout=90)
    assert info(replay)["summary"]["trigger"].startswith("time launch")


def test_memory_that_watching_takes_is_bounded_and_told(replay):
    fault(replay, "--when", "error", "--memory", "params,40M", "--status", "how.jsonl")
    last = json.loads((replay.folder / "how.jsonl").read_text().splitlines()[-1])
    assert 16 << 20 < last["memory_bytes"] <= 40 << 20
    assert last["beyond_memory"] == 0
    assert info(replay)["summary"]["trigger"].startswith("error launch 57 of scatter")
