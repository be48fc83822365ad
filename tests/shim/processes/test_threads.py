"""Many threads, a window for each of their launches: no launch is left out of its window in silence, none is recorded
without the memory it starts from, and none runs while memory is read.

Each thread adds one to 256 numbers of its own at every launch, so the numbers say how many launches had run when
they were read, and the records say how many should have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sanitizers
from records import ProcessFile

from replay.api.vocabulary import Moment, NoteCode
from replay.raw.attachments import BlobsFile
from replay.raw.copies import RawCopy
from replay.raw.decode import Decoder
from replay.raw.events import Entered, RawCall, RawNote
from replay.raw.records import RawFile

from ..conftest import Runner

ATTEMPTS = 5
NUMBERS_BYTES = 1024


def number_in(blobs: BlobsFile, copy: RawCopy) -> int:
    """What all of the numbers were when they were read."""
    assert copy.places is not None
    place = int(copy.places["blob"][0])
    data = bytes(NUMBERS_BYTES) if place == (1 << 64) - 1 else blobs.read(place, NUMBERS_BYTES)
    numbers = set(np.frombuffer(data, dtype="<u4").tolist())
    assert len(numbers) == 1, "they were read in the middle of a launch"
    return numbers.pop()


def were_impatient(file: ProcessFile) -> bool:
    """On a machine with more to do than it can, a thread may get no time inside the driver for longer than others wait
    for it, and that is said."""
    return any("inside the driver while" in text for text in file.notes_of(NoteCode.THREADS_BUSY))


class Windows:
    """Follows the records of a capture in their order.

    launches: those in windows, by the address of their numbers.
    """

    def __init__(self, file: ProcessFile) -> None:
        self.path = file.path
        self.open = False
        self.launches: Counter[int] = Counter()
        self.was_read: set[int] = set()  # in this window
        self.was_read_again: set[int] = set()  # at its end

    def check(self) -> None:
        copies: list[tuple[RawCopy, int]] = []
        with RawFile(self.path) as raw:
            for event in Decoder(raw).events():
                if isinstance(event, RawNote) and event.code in ("WINDOW_OPEN", "WINDOW_CLOSE"):
                    self._note(event.code == "WINDOW_OPEN")
                elif isinstance(event, RawCopy):
                    assert self.open, "memory was read in no window"
                    copies.append((event, self.launches[event.base]))
                    (self.was_read if event.moment == Moment.BEFORE else self.was_read_again).add(event.base)
                elif isinstance(event, Entered) and event.call.function.symbol == "cuLaunchKernel":
                    self._launch(event.call)
        assert not self.open
        with BlobsFile(self.path.with_name(self.path.name.replace("calls.", "blobs."))) as blobs:
            for copy, launched in copies:
                assert number_in(blobs, copy) == launched, f"launches of the numbers at {copy.base:#x}"

    def _note(self, opens: bool) -> None:
        assert opens != self.open, "windows do not overlap"
        self.open = opens
        self.was_read.clear()
        self.was_read_again.clear()

    def _launch(self, call: RawCall) -> None:
        assert self.open, "a launch was recorded in no window"
        address = int.from_bytes((call.inputs["kernelParams.0"].data or b"")[:8], "little")
        assert address in self.was_read, "a launch was recorded without the memory that it starts from"
        assert address not in self.was_read_again, "a launch ran when the window's memory had been read"
        self.launches[address] += 1


@pytest.fixture(scope="module")
def slow_threads(interposer: Path, shim: Callable[..., Path]) -> Path:
    """A shim whose threads lose time wherever another one may overtake them."""
    if sanitizers.CHOSEN:
        return interposer
    return shim("slow", '-DREPLAY_VERSION="test"', "-DLOSE_TIME")


@pytest.mark.parametrize("shared", [False, True], ids=["own numbers", "the same numbers"])
@pytest.mark.parametrize(("threads", "launches"), [(2, 120), (8, 30)])
def test_every_launch_of_every_thread_is_in_a_window_with_its_memory(
    run: Runner, slow_threads: Path, program: Callable[..., Path], threads: int, launches: int, shared: bool
) -> None:
    run.interposer = slow_threads
    for _ in range(ATTEMPTS):
        command: list[object] = [program("work"), threads, launches, "return", "increment"]
        command += ["shared"] if shared else []
        done, capture = run(command, kernel="increment", each=1)
        assert (done.returncode, done.stdout) == (0, "failures 0\n")
        file = capture.only
        if not were_impatient(file):
            break
    else:
        pytest.skip(
            "the machine is too busy: threads inside the driver were not waited for; run it on an idle one"
        )
    assert not file.notes_of(NoteCode.THREADS_BUSY)
    windows = Windows(file)
    windows.check()
    assert sum(windows.launches.values()) == threads * launches
    assert set(windows.launches.values()) == {threads * launches if shared else launches}
    counts = {name: int(file.process[f"perturbation.{name}"]) for name in ("launches_matched", "after_end")}
    assert counts == {"launches_matched": threads * launches, "after_end": 0}


def test_the_last_selected_launch_finds_its_window_whoever_closes_the_one_before(
    run: Runner, slow_threads: Path, program: Callable[..., Path]
) -> None:
    """The selection ends in the middle of what the threads launch; all that it names are recorded."""
    run.interposer = slow_threads
    for last in (20, 33, 47, 60):
        done, capture = run(
            [program("work"), 8, 30, "return"], kernel="increment", launch=f"1-{last}", each=1
        )
        assert (done.returncode, done.stdout) == (0, "failures 0\n")
        file = capture.only
        if were_impatient(file):
            continue
        assert not file.notes_of(NoteCode.THREADS_BUSY)
        recorded = [call for call in file.calls if call.symbol == "cuLaunchKernel" and call.in_window]
        skipped = [
            int(file.process[f"perturbation.{name}"])
            for name in ("outside_selection", "busy_threads", "after_end")
        ]
        assert len(recorded) >= last
        # Launches of kernels that were looked up after the end are not counted.
        assert len(recorded) + sum(skipped) == int(file.process["perturbation.launches_matched"]) <= 240
