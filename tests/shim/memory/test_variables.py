"""Module variables that the application never asked for: the shim asks the launcher, and survives any
answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replay.api.vocabulary import BY_CAPTURE_BIT, VARIABLES_SOCKET, Moment
from replay.capture.variables import VariableService
from replay.raw.records import RawFile

from ..conftest import Runner

QUESTION_BYTES = 48


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / ("a long name " * 12)  # longer than a socket's address can be
    folder.mkdir()
    return folder


@contextlib.contextmanager
def answering(directory: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """A launcher that gives one answer to every question; None: it closes at once. Yields the questions."""
    questions: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with (
        contextlib.chdir(directory) if hasattr(contextlib, "chdir") else pytest.MonkeyPatch.context() as patch
    ):
        if patch is not None:
            patch.chdir(directory)
        listener.bind(VARIABLES_SOCKET)
    listener.listen()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    questions.append(connection.recv(QUESTION_BYTES))
                    if answer is not None:
                        connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield questions
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    listener.close()


def test_what_the_image_names_is_asked_for_once_and_copied(
    run: Runner, program: Callable[..., Path], directory: Path
) -> None:
    with VariableService(directory):
        done, capture = run([program("memory"), "unnamed"], directory=directory, kernel="count", launch="1-2")
    assert done.returncode == 0
    (asked,) = [call for call in capture.only.calls if call.symbol == "cuModuleGetGlobal_v2"]
    assert asked.entered[3, 0] == b"counters"  # the driver knows no "absent"
    address, size = struct.unpack("<QQ", asked.left[3, 1])
    before, after = [blob for blob in capture.only.blobs if blob.base == address]
    assert (before.moment, after.moment) == (Moment.BEFORE, Moment.AFTER)
    assert before.allocation_bytes == size
    assert before.bytes != after.bytes
    with RawFile(capture.only.path) as raw:
        marks = [record.function & BY_CAPTURE_BIT for record in raw.records() if record.call == asked.number]
    assert marks == [BY_CAPTURE_BIT] * 2
    assert not (directory / VARIABLES_SOCKET).exists()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"\0" * 3,
        struct.pack("<II", 0, 1 << 31),
        struct.pack("<II", 0, 100) + b"cut short",
        struct.pack("<II", 0, 3) + b"abc",
        struct.pack("<II", 1, 0),
        struct.pack("<II", 77, 5) + b"five\0",
        struct.pack("<II", 0, 4) + bytes(4),
    ],
    ids=["none", "short", "huge", "cut", "no-end", "gone", "state", "empty-names"],
)
def test_no_answer_of_the_launcher_harms_the_application(
    run: Runner, program: Callable[..., Path], directory: Path, answer: bytes | None
) -> None:
    with answering(directory, answer) as questions:
        done, capture = run([program("memory"), "unnamed"], directory=directory, kernel="count")
    assert done.returncode == 0
    assert [question[:8] for question in questions] == [b"RCAPVARS"]  # once, whatever came back
    symbols = capture.only.symbols()
    assert symbols.count("cuLaunchKernel") == 2
    assert "cuModuleGetGlobal_v2" not in symbols
    assert capture.complete


def test_without_a_launcher_the_launch_is_recorded_all_the_same(
    run: Runner, program: Callable[..., Path]
) -> None:
    done, capture = run([program("memory"), "unnamed"], kernel="count")
    assert done.returncode == 0
    assert capture.only.symbols().count("cuLaunchKernel") == 2
