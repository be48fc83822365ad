"""Standard output of a command: what is written there, and what happens when nobody takes it.

A reader that has gone (`| head`) changes nothing about the exit code of a command that has found out something.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

from replay.harmless import visible

NAME = "standard output"


class _State:
    """Of the command that runs. json: its output is JSON. begun: something of a document is on stdout. verbose: lists
    are printed whole."""

    json = False
    begun = False
    verbose = False


class ClosedOutput(io.TextIOBase):
    """Stands for a stdout that was closed before the process began. Writing to it is an error."""

    def write(self, text: str) -> NoReturn:
        raise OSError(errno.EBADF, "is closed", NAME)


class Told(io.TextIOBase):
    """stderr, for what a command tells people: where it cannot be written, that is lost, and the command goes on with
    the exit code that it has. stream: None when it was closed before the process began; what is printed to None would
    go to stdout."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.has_failed = False

    def write(self, text: str) -> int:
        with self._quietly():
            if self._stream is not None:
                self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        with self._quietly():
            if self._stream is not None:
                self._stream.flush()

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            self.has_failed = True

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("stderr is closed")
        return self._stream.fileno()


@contextmanager
def standard_streams() -> Iterator[None]:
    """A command begins, with a stdout that it has written nothing to, and a stderr that never fails."""
    before = sys.stdout, sys.stderr
    _State.json = _State.begun = _State.verbose = False
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal cannot show is no failure.
        sys.stdout.reconfigure(errors="backslashreplace")
    told = sys.stderr = Told(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        if told.has_failed:
            # Python flushes what it finds here once more while it shuts down; a failure would change the exit code.
            sys.stderr = told


def ask_for_json(value: bool) -> bool:
    """`--json` was parsed: so errors are documents, too."""
    _State.json = _State.json or value
    return value


def ask_for_all(value: bool) -> bool:
    """`--verbose` was parsed: what is printed is not shortened."""
    _State.verbose = value
    return value


def is_verbose() -> bool:
    """Whether --verbose was given."""
    return _State.verbose


def is_json() -> bool:
    """Whether --json was given."""
    return _State.json


def has_begun() -> bool:
    """Whether something of a document is on stdout; an error after it has no place there."""
    return _State.begun


def begin_document() -> None:
    """A document begins."""
    _State.begun = True


def put(text: str) -> None:
    """Write a line or several at once, whether or not there is still a reader. Raises OSError, as for a full disk."""
    try:
        put_one_of_many(text)
        flush()
    except BrokenPipeError:
        drop()


def put_one_of_many(line: str) -> None:
    """Write a line of a list that is made as it is written. Raises BrokenPipeError when nobody reads, and OSError."""
    with _named():
        print(visible(line))


def flush() -> None:
    """Raises what `put_one_of_many` raises."""
    with _named():
        sys.stdout.flush()


@contextmanager
def _named() -> Iterator[None]:
    """An error says that it is about stdout."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop()
        raise OSError(error.errno, (error.strerror or str(error)).lower(), NAME) from None


def drop() -> None:
    """Nothing more goes to stdout, nor will Python try it once more while it shuts down."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # it is no file
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
