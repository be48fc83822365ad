"""Launches that are watched while nobody waits for them: which one is told, and that the program never notices.

The fake driver can stop in the middle of its work, and go on later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import sanitizers
from records import Capture

from replay.api.vocabulary import NoteCode
from replay.pack import pack
from replay.snapshot.container import SnapshotReader

from ..conftest import Runner

EVERY = {"launch": f"1-{(1 << 63) - 1}", "each": 1, "ring": 1, "ring_in_stream": 1}
PATIENCE = "-DIDLE_PATIENCE_MS=300"
HANGS = {"when": "hang=500000000"}
ERRORS = {"when": "error"}


@pytest.fixture
def watch(
    run: Runner, program: Callable[..., Path], shim: Callable[..., Path], tmp_path: Path
) -> Callable[..., object]:
    """Runs the program without the shim and with it; gives what the program said, the capture, and all triggers."""

    def start(way: str, **settings: object) -> tuple[str, Capture, list[str]]:
        command: list[object] = [program("watched"), way]
        alone, _ = run(command, preload=False)
        settings = EVERY | {"max_snapshots": 1} | settings
        if way in ("context", "shared", "shared, ended"):  # which wait for the device, though not for long
            flags = sanitizers.FLAGS[sanitizers.CHOSEN] if sanitizers.CHOSEN else ()
            name = f"patient{sanitizers.CHOSEN}"
            run.interposer = shim(name, '-DREPLAY_VERSION="test"', PATIENCE, instrumentation=flags)
        done, capture = run(command, **settings)
        assert done.returncode == alone.returncode
        if way != "threads":
            assert done.stdout == alone.stdout
        assert capture is not None
        for snapshot in pack(capture.directory, tmp_path / "x.rsnap").snapshots:
            with SnapshotReader(snapshot.path) as reader:
                assert not reader.verify().damages
        triggers = [text for file in capture.files for text in file.notes_of(NoteCode.TRIGGER)]
        return done.stdout, capture, triggers

    return start


def wrong(said: str, word: str = "wrong") -> str:
    return re.findall(rf"{word} (\d+)", said)[-1]


def without_wait(capture: Capture) -> int:
    return max(int(file.process.get("watched.in_stream", 0)) for file in capture.files)


@pytest.mark.parametrize("way", ["error", "streams", "ended stream", "capture"])
def test_the_launch_in_which_the_device_failed_is_told(watch: Callable[..., object], way: str) -> None:
    said, capture, (told,) = watch(way, **ERRORS)
    assert told.startswith(f"error launch {wrong(said)} of increment: the device reports error 700")
    assert without_wait(capture) >= 4


def test_a_launch_that_was_refused_is_told_once_and_blamed_for_nothing_later(
    watch: Callable[..., object],
) -> None:
    said, _, told = watch("refused", **ERRORS, max_snapshots=9)
    assert len(told) == 3  # the first was waited for, as that of any kernel
    assert told[1].startswith(f"error launch {wrong(said, 'refused')} of too_large: the driver answered 1")
    assert told[2].startswith(f"error launch {wrong(said)} of increment: the device reports error 700")


def test_a_launch_that_was_refused_is_not_waited_for_where_that_is_no_trigger(
    watch: Callable[..., object],
) -> None:
    _, capture, told = watch("refused", when="assert")
    assert told == []
    assert capture.only.process["perturbation.waits"] == "4"  # around the first launch of each kernel


def test_of_many_threads_that_are_told_one_writes_the_window(watch: Callable[..., object]) -> None:
    _, capture, told = watch("threads", **ERRORS)
    assert [text.split()[0] for text in told] == ["error"]
    assert len(capture.only.notes_of(NoteCode.WINDOW_OPEN)) == len(
        capture.only.notes_of(NoteCode.WINDOW_CLOSE)
    )


def test_memory_of_copies_stays_until_the_device_has_made_them(watch: Callable[..., object]) -> None:
    _, capture, told = watch("context", **ERRORS)
    assert told == []


@pytest.mark.parametrize(("way", "trigger"), [("fork", "error"), ("fork hang", "hang")])
def test_a_child_of_fork_watches_for_itself(watch: Callable[..., object], way: str, trigger: str) -> None:
    _, capture, told = watch(way, **(ERRORS if trigger == "error" else HANGS))
    assert [text.split(":")[0] for text in told] == 2 * [f"{trigger} launch 4 of increment"]
    assert len(capture.files) == 2


@pytest.mark.parametrize("way", ["hang", "full queue"])
def test_a_launch_that_does_not_end_is_told_also_when_a_thread_is_inside_the_driver(
    watch: Callable[..., object], way: str
) -> None:
    said, _, (told,) = watch(way, **HANGS)
    assert told == f"hang launch {wrong(said)} of increment: it has not ended after 0.5 s"


@pytest.mark.parametrize("way", ["shared", "shared, ended"])
def test_with_nan_a_launch_beside_another_on_the_same_memory_is_waited_for(
    watch: Callable[..., object], way: str
) -> None:
    said, capture, told = watch(way, when="nan")
    assert told == []
    assert without_wait(capture) == int(wrong(said, "flown")) - 1  # all others but the first


def test_launches_that_nobody_has_looked_at_are_looked_at_when_the_program_ends(
    watch: Callable[..., object],
) -> None:
    said, capture, _ = watch("exit", when="nan")
    assert without_wait(capture) == int(wrong(said, "flown")) - 1
    assert capture.only.process["watched.not_judged"] == "0"
    assert int(capture.only.process["watched.without_types"]) >= without_wait(capture)  # each was


def test_with_crash_launches_are_waited_for_where_nobody_keeps_the_memory(
    watch: Callable[..., object],
) -> None:
    said, capture, _ = watch("error", when="crash")
    assert without_wait(capture) == 0
    windows = [note.split()[1] for note in capture.only.notes_of(NoteCode.WINDOW_OPEN)]
    assert windows[: int(wrong(said))] == [str(n) for n in range(1, int(wrong(said)) + 1)]


def test_watching_takes_no_more_memory_than_it_may_and_says_what_it_did_without(
    watch: Callable[..., object],
) -> None:
    for limit in (1 << 20, 8 << 20, 24 << 20):  # the last has room to read contents, and for some copies
        _, capture, told = watch("error", **ERRORS, ring_memory=limit)
        found = capture.only.process
        assert 0 < int(found["watched.memory_bytes"]) <= limit
        assert (int(found["watched.beyond_memory"]) > 0) == (limit < 24 << 20)
        assert bool(without_wait(capture)) == (limit == 24 << 20)
    assert len(told) == 1


def test_where_the_driver_takes_no_kernel_of_the_shim_the_host_looks_for_nan(
    watch: Callable[..., object],
) -> None:
    _, capture, _ = watch("exit", when="nan", nan_on_device=1)  # the fake driver has no such kernel
    assert without_wait(capture) > 0
    assert capture.only.process["watched.on_device"] == "0"
    assert capture.only.process["watched.not_judged"] == "0"
