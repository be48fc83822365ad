"""The process that commands are forked from: a test that runs out of time does not disturb the next one."""

from __future__ import annotations

import signal

import pytest

TIMEOUT_S = 30


class GivenUpError(Exception):
    """A test's time is over."""


@pytest.mark.parametrize("limit_s", [0.001, 0.02, 0.1])
def test_answers_to_a_command_that_was_given_up_are_dropped(commands, tmp_path, limit_s):
    def give_up(number, frame):
        raise GivenUpError

    def run(*arguments):
        return commands.run(arguments, cwd=tmp_path, timeout_s=TIMEOUT_S).returncode

    def run_without_end(*arguments):
        while True:
            run(*arguments)

    run("--version")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        with pytest.raises(GivenUpError):
            run_without_end("info", "--help")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert [run("--version"), run("nothing"), run("--version")] == [0, 2, 0]
