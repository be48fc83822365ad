"""However a process ends, every record that was begun before is whole, and the application never notices the shim."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from records import ProcessFile, read_capture

from replay.api.vocabulary import Moment, NoteCode

from ..conftest import Runner

LAUNCHES = 300
STATUSES = {
    "return": 0,
    "exit": 3,
    "_exit": 4,
    "abort": -signal.SIGABRT,
    "segv": -signal.SIGSEGV,
    "kill": -signal.SIGKILL,
    "faults": -signal.SIGSEGV,
    "kills": -signal.SIGKILL,
    "aborts": -signal.SIGABRT,
    "exits": 7,
}
CLEAN = {"return", "exit"}
IN_THE_DRIVER = {"faults", "kills", "aborts", "exits"}


def launches_of(file: ProcessFile) -> int:
    return sum(call.symbol == "cuLaunchKernel" for call in file.calls)


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("ending", STATUSES)
def test_records_are_whole_up_to_the_end(
    run: Runner, program: Callable[..., Path], ending: str, threads: int
) -> None:
    done, capture = run([program("work"), threads, LAUNCHES, ending], all=1)
    assert done.returncode == STATUSES[ending]
    assert done.stdout == "failures 0\n"
    file = capture.only
    # The reader has checked every record; what was done before the end is all there.
    finished = [call for call in file.calls if call.symbol == "cuLaunchKernel" and call.result == 0]
    assert len(finished) >= threads * LAUNCHES
    unfinished = [call for call in file.calls if call.result is None]
    assert len(unfinished) <= (threads if ending not in CLEAN else 0)
    if ending in IN_THE_DRIVER:
        # The call that the process ended in was written before the driver was called.
        assert "cuLaunchKernel" in [call.symbol for call in unfinished]
    assert capture.complete == (ending in CLEAN)
    assert file.end == (0 if ending in CLEAN else None)
    numbers = [call.number for call in file.calls]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("threads", [1, 8])
def test_inputs_are_on_disk_before_a_launch_that_kills_the_process(
    run: Runner, program: Callable[..., Path], threads: int
) -> None:
    _, capture = run([program("work"), threads, 2, "kills"], kernel="kills")
    # Other threads may have launched on smaller buffers of their own since the window opened.
    blobs = [blob for blob in capture.only.blobs if blob.moment == Moment.BEFORE]
    [before] = [blob for blob in blobs if blob.allocation_bytes == 4096]
    last = [call for call in capture.only.calls if call.result is None and call.number == before.call]
    assert [call.symbol for call in last] == ["cuLaunchKernel"]
    assert before.bytes == bytes(4096)


def test_a_forked_child_writes_files_of_its_own(run: Runner, program: Callable[..., Path]) -> None:
    done, capture = run([program("work"), 2, 20, "fork"], all=1)
    assert done.stdout == "failures 0\n" * 4
    assert capture.complete
    assert sorted(launches_of(file) for file in capture.files) == [40, 40, 80]
    children = [file for file in capture.files if file.notes_of(NoteCode.CHILD_PROCESS)]
    # One forked before the parent's first driver call, so for the shim it is a process like any other.
    assert len(children) == 1
    parent = next(file for file in capture.files if launches_of(file) == 80)
    assert children[0].notes_of(NoteCode.CHILD_PROCESS) == [f"forked from process {parent.pid}"]
    assert {file.process["parent"] for file in capture.files if file is not parent} == {str(parent.pid)}
    assert [file.end for file in capture.files] == [0, 0, 0]


def test_a_child_that_never_calls_the_driver_writes_nothing_and_ends_nothing(
    run: Runner, program: Callable[..., Path]
) -> None:
    _, capture = run([program("work"), 1, 20, "fork-silent"], all=1)
    assert launches_of(capture.only) == 40
    assert capture.complete


def test_a_program_that_calls_exec_goes_on_in_a_second_file(
    run: Runner, program: Callable[..., Path]
) -> None:
    done, capture = run([program("work"), 1, 20, "exec"], all=1)
    assert done.stdout == "failures 0\n" * 2
    first, second = sorted(capture.files, key=lambda file: file.path.name.count("."), reverse=False)
    assert first.path.name == f"calls.{first.pid}.bin"
    assert second.path.name == f"calls.{first.pid}.1.bin"
    assert (first.end, second.end) == (None, 0)
    assert (launches_of(first), launches_of(second)) == (20, 20)


def test_descriptors_that_the_application_closes_and_uses_again_are_left_alone(
    run: Runner, program: Callable[..., Path]
) -> None:
    done, capture = run([program("work"), 1, 60_000, "close-all"], all=1)
    # Standard output is dup'ed over every number: nothing of the capture may appear there.
    assert done.stdout == "failures 0\n" * 2
    # The files are opened again under other numbers.
    assert capture.only.notes_of(NoteCode.CAPTURE_STOPPED) == []
    assert (capture.complete, capture.only.end) == (True, 0)
    assert launches_of(capture.only) == 120_000


def test_files_that_are_closed_and_cannot_be_opened_again_stop_the_capture(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    directory = tmp_path / "x.rcap"
    directory.mkdir()
    done, _ = run([program("work"), 1, 60_000, "close-all-move"], directory=directory, all=1)
    assert done.stdout == "failures 0\n" * 2
    [file] = read_capture(directory.with_name("x.rcap.moved")).files
    [reason] = file.notes_of(NoteCode.CAPTURE_STOPPED)
    assert "closed its file" in reason
    assert file.end == 1


def test_the_application_may_change_its_directory(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "relative.rcap").mkdir()
    run([program("work"), 1, 5, "chdir"], directory=Path("relative.rcap"), all=1)
    assert read_capture(tmp_path / "relative.rcap").complete


# ---- when capture cannot go on --------------------------------------------------------------------------------------


def test_an_unwritable_folder_leaves_the_application_as_it_was(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    missing = tmp_path / "no" / "such.rcap"
    done, _ = run([program("work"), 8, 50, "exit"], directory=missing, all=1)
    assert (done.returncode, done.stdout) == (3, "failures 0\n")
    assert f"cannot write to {missing}" in done.stderr
    assert not missing.exists()


def test_a_file_size_limit_stops_the_capture_and_not_the_application(
    run: Runner, program: Callable[..., Path]
) -> None:
    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    # Enough calls for the log to grow beyond it. The default action of SIGXFSZ would be the end of the application.
    done, capture = run([program("work"), 4, 20_000, "exit"], limits=limits, all=1)
    assert (done.returncode, done.stdout) == (3, "failures 0\n")
    assert capture.only.notes_of(NoteCode.CAPTURE_STOPPED) == ["the records could not grow: File too large"]
    assert capture.only.end == 1
    assert launches_of(capture.only) > 5_000


def test_a_full_disk_stops_the_capture_and_not_the_application(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs: run as root, in a container with SYS_ADMIN")
    try:
        directory = small / "x.rcap"
        directory.mkdir()
        done, capture = run([program("work"), 4, 20_000, "exit"], directory=directory, all=1)
        assert (done.returncode, done.stdout) == (3, "failures 0\n")
        assert capture.only.notes_of(NoteCode.CAPTURE_STOPPED) == [
            "the records could not grow: No space left on device"
        ]
        assert launches_of(capture.only) > 5_000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_disk_too_full_for_contents_stops_the_capture(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs: run as root, in a container with SYS_ADMIN")
    try:
        directory = small / "x.rcap"
        directory.mkdir()
        done, capture = run([program("memory"), "large"], directory=directory, kernel="increment")
        assert (done.returncode, done.stdout) == (0, "failures 0\n")
        [reason] = capture.only.notes_of(NoteCode.CAPTURE_STOPPED)
        assert reason == "contents could not be written: No space left on device"
    finally:
        subprocess.run(["umount", str(small)], check=True)
