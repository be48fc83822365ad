"""Whether a window may be run again from what it left, without a restore in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from replay.engine.checking.restoring import same_outputs_again
from replay.engine.contents.own_variables import OwnVariable
from replay.engine.execution.window import Window
from replay.snapshot.schema import Range

BUFFER = Range(1, "device", 0x1000, 8, 0, 0)
VARIABLE = OwnVariable(-1, "global", 0x2000, 8, 0, 0, name="results")


def session(run):
    """A session of a buffer and a variable, which both begin with 0. run: does what the window does."""
    held = {}

    def restore():
        held.update({BUFFER.id: 0, VARIABLE.id: 0})

    def written_digests(without=()):
        return {(number, 0): value for number, value in held.items() if number not in without}

    return SimpleNamespace(
        program=SimpleNamespace(births={}, deaths={}, changes={}, seen={}),
        window=Window([]),
        restorable=[BUFFER, VARIABLE],
        contents=SimpleNamespace(copies=SimpleNamespace(written_digests=written_digests)),
        restore=restore,
        synchronize=lambda: None,
        run_window=lambda: run(held),
    )


def writes_its_outputs(held):
    held[BUFFER.id] = 7


def counts(held):
    held[BUFFER.id] += 1


def remembers(held):
    """What it leaves is the same each time, and from the second time on it did not work for it."""
    held[BUFFER.id] = held[VARIABLE.id] = held[VARIABLE.id] or 7


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (writes_its_outputs, ""),
        (counts, "changes what it reads"),
        (remembers, "writes variables of its modules"),
    ],
)
def test_a_window_that_leaves_the_same_again_needs_no_restore_unless_it_may_remember(run, words):
    reason = same_outputs_again(session(run), lambda: True)
    assert words in reason
    assert bool(reason) == bool(words)
