"""Applications that fail, crash, exec, never use CUDA or never launch what was asked for."""

from __future__ import annotations

import pytest

from replay.errors import ExitCode


def test_program_started_by_exec_is_captured(replay):
    application = replay.application("crash", "exec", *replay.application("vector_add"))
    replay.capture("--kernel", "vector_add", "--launch", "2", application=application)
    assert "outputs match" in replay.run().stdout


def test_program_before_exec_is_captured(replay):
    application = replay.application("crash", "exec", *replay.application("vector_add"))
    replay.capture("--kernel", "count_up", "--launch", "2", application=application)
    assert "outputs match" in replay.run().stdout


def test_program_started_by_a_shell_is_captured(replay):
    application = ["sh", "-c", "true; " + " ".join(replay.application("vector_add")) + "; true"]
    replay.capture("--kernel", "vector_add", "--launch", "2", application=application)
    assert "outputs match" in replay.run().stdout


def test_application_that_never_uses_cuda_is_said_so(replay):
    done = replay.capture(
        "--kernel", "x", application=replay.application("crash", "no-cuda"), status=ExitCode.COULD_NOT
    )
    assert "CUDA" in done.stderr
    assert not (replay.folder / "x.rsnap").exists()


def test_application_that_fails_without_cuda_keeps_its_status(replay):
    application = replay.application("crash", "no-cuda-status")
    done = replay.capture("--kernel", "x", application=application, status=3)
    assert "3" in done.stderr
    assert not (replay.folder / "x.rsnap").exists()


def test_kernel_that_is_never_launched_is_said_so(replay):
    application = replay.application("vector_add")
    done = replay.capture("--kernel", "no_such_kernel", application=application, status=ExitCode.COULD_NOT)
    assert "no_such_kernel" in done.stderr
    assert not (replay.folder / "x.rsnap").exists()


def test_launch_that_is_never_reached_is_said_so(replay):
    application = replay.application("vector_add", "2")
    done = replay.capture(
        "--kernel", "vector_add", "--launch", "7", application=application, status=ExitCode.COULD_NOT
    )
    assert "7" in done.stderr


@pytest.mark.parametrize(
    "selection",
    [
        ["--kernel", "("],
        ["--kernel", "x", "--launch", "0"],
        ["--kernel", "x", "--launch", "5-3"],
        ["--launch", "many"],
    ],
    ids=" ".join,
)
def test_wrong_selection_is_a_usage_error_before_the_application_starts(replay, selection):
    started = replay.folder / "started"
    done = replay.capture(*selection, application=["touch", str(started)], status=ExitCode.USAGE)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not started.exists()


def test_missing_application_is_one_line(replay):
    done = replay.capture("--kernel", "x", application=["./no-such-program"], status=ExitCode.COULD_NOT)
    assert "no-such-program" in done.stderr


def test_output_folder_that_does_not_exist_is_refused_before_the_application_starts(replay):
    started = replay.folder / "started"
    application = ["touch", str(started)]
    done = replay.capture("--kernel", "x", application=application, output="missing/x.rsnap", status=None)
    assert done.returncode in (ExitCode.USAGE, ExitCode.COULD_NOT)
    assert "missing" in done.stderr
    assert not started.exists()


def test_the_ranks_of_a_distributed_program_have_snapshots_named_after_them(replay):
    one = " ".join(replay.application("vector_add"))
    launcher = ["sh", "-c", f"for n in 0 1 2; do RANK=$n {one} & done; wait"]
    done = replay.capture("--kernel", "vector_add", "--launch", "2", application=launcher)
    names = {f"x.rank{n}.rsnap" for n in range(3)}
    assert {path.name for path in replay.folder.glob("*.rsnap")} == names
    for name in names:
        assert name in done.stderr
        assert "outputs match" in replay.run(name).stdout
    assert "rank          1\n" in replay("info", "x.rank1.rsnap").stdout


def test_processes_of_equal_rank_are_told_apart_by_their_ids(replay):
    one = " ".join(replay.application("vector_add"))
    launcher = ["sh", "-c", f"for n in 0 0; do RANK=$n {one} & done; wait"]
    replay.capture("--kernel", "vector_add", application=launcher)
    first, second = sorted(replay.folder.glob("*.rsnap"), key=lambda path: len(path.name))
    assert first.name == "x.rsnap"
    assert second.suffixes[0][1:].isdecimal()
