"""Copies take only what changed since the last one, and the contents of each window are whole. On a disk that is full
in the middle of such a copy the application goes on, and a note says why."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from replay.pack import pack
from replay.snapshot.contents import Snapshot

from ..conftest import Runner

BYTES = (8 << 20) + 20  # also a last piece that is shorter and fills no column of the hash
SEVERAL_PIECES_BYTES = (41 << 20) + 20  # of 8 MiB: one is read, one compared and written at the same time
LAUNCHES, STORED_BYTES = 7, 300_000
RECORDS_BYTES = 4096 + 2 * (256 << 10)  # FORMAT.md: the halves, and nothing in the log yet


def states(size_bytes: int, stored_bytes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What the program's buffer holds before and after each launch."""
    data = np.zeros(size_bytes // 4, np.uint32)
    for number in range(LAUNCHES + 1):
        length = (stored_bytes if number else size_bytes) // 4
        begin = number * stored_bytes % (size_bytes - stored_bytes) // 4 if number else 0
        data[begin : begin + length] = (np.arange(length, dtype=np.uint32) + np.uint32(number)) * np.uint32(
            2654435761
        )
        if number:
            before = data.copy()
            data[1024 * number] += 1
            yield before, data.copy()


@dataclass
class Captured:
    """notes: of all windows that are in the snapshot."""

    path: Path
    notes: set[tuple[str, str]]
    problems: list[str]
    size_bytes: int
    stored_bytes: int
    read_bytes: int = 0


@pytest.fixture
def capture(run: Runner, program: Callable[..., Path], tmp_path: Path) -> Callable[..., Captured]:
    """Captures the program, whose own results are compared, and packs."""

    def captured(
        directory: Path | None = None,
        size_bytes: int = BYTES,
        stored_bytes: int = STORED_BYTES,
        words: tuple[str, ...] = (),
        **selection: object,
    ) -> Captured:
        result = tmp_path / "result"
        directory = directory or tmp_path / "x.rcap"
        directory.mkdir()
        command: list[object] = [program("changing"), size_bytes, LAUNCHES, stored_bytes, result, *words]
        done, _ = run(command, directory=directory, read=False, kernel="increment", each=1, **selection)
        assert (done.returncode, done.stdout) == (0, "failures 0\n")
        *_, (_, last) = states(size_bytes, stored_bytes)
        assert result.read_bytes() == last.tobytes()
        path = tmp_path / "x.rsnap"
        problems = pack(directory, path).problems
        with Snapshot(path) as snapshot:
            notes = set()
            for _ in snapshot.each_window():
                notes |= {(note.code, note.text) for note in snapshot.notes()}
            assert not snapshot.reader.verify().damages
            summary = snapshot.info().summary
        read_bytes = summary.perturbation.copied_bytes if summary and summary.perturbation else 0
        return Captured(path, notes, problems, size_bytes, stored_bytes, read_bytes)

    return captured


def windows_that_are_right(captured: Captured) -> int:
    """The windows whose contents are whole, which all are as the buffer was then."""
    right = 0
    expected_states = states(captured.size_bytes, captured.stored_bytes)
    with Snapshot(captured.path) as snapshot:
        for _, (before, after) in zip(snapshot.each_window(), expected_states, strict=False):
            [item] = snapshot.ranges()
            for contents, expected in ((item.before, before), (item.after, after)):
                assert contents is None or snapshot.read(contents, 1 << 30) == expected.tobytes()
            right += item.before is not None and item.after is not None
    return right


@pytest.mark.parametrize(
    ("size_bytes", "stored_bytes"),
    [(BYTES, STORED_BYTES), (SEVERAL_PIECES_BYTES, 300_000), (SEVERAL_PIECES_BYTES, 12_000_000)],
)
def test_changes_are_found_in_all_pieces(
    capture: Callable[..., Captured], size_bytes: int, stored_bytes: int
) -> None:
    captured = capture(size_bytes=size_bytes, stored_bytes=stored_bytes)
    assert windows_that_are_right(captured) == LAUNCHES


def test_memory_that_nothing_came_to_since_it_was_read_is_not_read_again(
    capture: Callable[..., Captured],
) -> None:
    captured = capture(size_bytes=SEVERAL_PIECES_BYTES, stored_bytes=0)
    assert windows_that_are_right(captured) == LAUNCHES
    # All of it at first and after each launch. What a launch has changed is looked through for pointers.
    looked_through = (LAUNCHES - 1) * (8 << 20)
    assert captured.read_bytes == (LAUNCHES + 1) * SEVERAL_PIECES_BYTES + looked_through


@pytest.mark.parametrize("function", ["cuIpcGetMemHandle", "cuMemBatchDecompressAsync"])
def test_memory_that_others_may_write_is_read_before_each_window(
    capture: Callable[..., Captured], function: str
) -> None:
    captured = capture(size_bytes=SEVERAL_PIECES_BYTES, stored_bytes=0, words=(function,))
    assert windows_that_are_right(captured) == LAUNCHES
    assert captured.read_bytes == 2 * LAUNCHES * SEVERAL_PIECES_BYTES


@pytest.mark.parametrize(("pieces", "whole"), [(0, 1), (2, 1), (3, 2), (5, 2)])
def test_a_disk_that_is_full_in_the_middle_of_a_copy_of_changes(
    capture: Callable[..., Captured], tmp_path: Path, pieces: int, whole: int
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    # The records, the whole buffer, and some of the pieces of 256 KiB that change: two before each launch and one
    # in it.
    room = RECORDS_BYTES + (33 << 18) + (pieces << 18) + (64 << 10)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(small)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        captured = capture(small / "x.rcap")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    # A window that has calls has the note; one that the disk was full before is left out, which `pack` says.
    told = [text for code, text in captured.notes if code == "CAPTURE_STOPPED"] + captured.problems
    assert len(told) == 1
    assert "contents could not be written: No space left on device" in told[0]
    assert windows_that_are_right(captured) == whole
