"""Calls that the driver refused in the application: a replay refuses them too, or says that it left them out."""

from __future__ import annotations

import json
import sys

import pytest

from ..conftest import PROGRAMS

PROGRAM = PROGRAMS / "failing_calls.py"


@pytest.mark.parametrize(
    "selection", [("--all",), ("--kernel", "add", "--launch", "2-4")], ids=["all", "some"]
)
def test_calls_that_failed_do_nothing_in_a_replay(replay, selection: tuple[str, ...]) -> None:
    done = replay.capture(*selection, application=[sys.executable, str(PROGRAM)])
    assert "failing calls: all correct" in done.stdout
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert result["verification"]["verdict"] == "match", result["verification"]
    notes = result["notes"]
    # What an error would say of a call that had succeeded.
    assert not [
        note
        for note in notes
        if "no recorded call created" in note and "failed in the application" not in note
    ]


def test_a_creation_that_failed_is_named_with_its_error(replay) -> None:
    replay.capture("--all", application=[sys.executable, str(PROGRAM)])
    notes = json.loads(replay.run("x.rsnap", "--json").stdout)["notes"]
    for name, error in (
        ("cuSurfObjectCreate", "CUDA_ERROR_INVALID_VALUE"),
        ("cuModuleLoadData", "CUDA_ERROR_INVALID_PTX"),
        ("cuStreamCreate", "CUDA_ERROR_INVALID_VALUE"),
        ("cuGraphInstantiateWithFlags", "CUDA_ERROR_INVALID_VALUE"),
    ):
        assert f"{name} returned {error} in the application and was not executed" in notes


def test_calls_that_failed_without_a_context_find_none_in_a_replay(replay) -> None:
    done = replay.capture("--all", application=[sys.executable, str(PROGRAM.with_name("nothing_current.py"))])
    assert done.stdout == "6\n"
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    verification = result["verification"]
    assert (verification["verdict"], verification["results"]) == ("match", [])
