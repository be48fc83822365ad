"""When the worker of `replay run` is started before its command line is parsed."""

from __future__ import annotations

import pytest

from replay.cli.ahead import worker_ahead
from replay.run import supervisor


@pytest.mark.parametrize(
    ("words", "driver"),
    [
        ("run x.rsnap", None),
        ("run --driver emulator x.rsnap", "emulator"),
        ("run x.rsnap --driver=system --quick --driver /there", "/there"),
        ("run x.rsnap --driver", ""),
    ],
)
def test_a_run_gets_its_worker_at_once(monkeypatch, words, driver):
    told = []
    monkeypatch.setattr(supervisor, "start_ahead", lambda name: told.append(name))
    monkeypatch.setattr(supervisor, "end_ahead", lambda: told.append("ended"))
    with worker_ahead(words.split()):
        assert told == [driver]
    assert told == [driver, "ended"]


@pytest.mark.parametrize(
    "words", ["", "run", "info x.rsnap", "run --help", "run x.rsnap --swap=a=b.cu", "run x.rsnap --trust"]
)
def test_a_command_that_needs_none_or_another_gets_none(monkeypatch, words):
    monkeypatch.setattr(supervisor, "start_ahead", lambda name: pytest.fail("started"))
    with worker_ahead(words.split()):
        pass


def test_what_ends_the_command_ends_the_worker(monkeypatch):
    told = []
    monkeypatch.setattr(supervisor, "start_ahead", lambda name: None)
    monkeypatch.setattr(supervisor, "end_ahead", lambda: told.append("ended"))
    with pytest.raises(KeyboardInterrupt), worker_ahead(["run", "x.rsnap"]):
        raise KeyboardInterrupt
    assert told == ["ended"]
