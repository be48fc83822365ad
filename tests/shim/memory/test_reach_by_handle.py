"""What a launch reaches without an address: the contents of its target are read before the launch, nothing else is."""

from __future__ import annotations

import sys

import fakes
import pytest

from replay.api.vocabulary import Moment

from ..conftest import HERE, Runner

PROGRAM = HERE / "programs" / "reach_by_handle.py"


@pytest.mark.parametrize(
    ("way", "reached"),
    [
        ("parameter", [0]),
        ("memory", [0, 1]),
        ("reference", [0]),
        ("map", [0]),
        ("unbound", [0]),  # what a reference was bound to once
        ("destroyed", []),
    ],
)
def test_memory_of_a_handle_is_read_before_the_launch(run: Runner, way: str, reached: list[int]) -> None:
    done, capture = run([sys.executable, PROGRAM, way], kernel="four_words")
    assert done.returncode == 0
    memory = [int(word) for word in done.stdout.split()]
    read = {blob.base for blob in capture.only.blobs if blob.moment == Moment.BEFORE}
    assert read == {memory[place] for place in reached}
    if 0 in reached:
        before = next(blob for blob in capture.only.blobs if blob.base == memory[0])
        assert before.bytes == b"\x07" * 4096
        launched = next(call.number for call in capture.only.calls if call.symbol == "cuLaunchKernel")
        assert before.call == launched


def test_arrays_of_every_kind_are_read_through_the_shim(run_emulated: Runner) -> None:
    """The program of the end-to-end tests, here for builds of the shim that watch over themselves."""
    program = fakes.REPOSITORY / "tests" / "end_to_end" / "programs" / "arrays.py"
    done, capture = run_emulated([sys.executable, program, 1], profiler=1)
    assert done.returncode == 0
    read = {blob.base for blob in capture.only.blobs if blob.base >> 48 == 0xA77A}
    assert len(read) == 15
