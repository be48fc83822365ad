"""Ctrl-C: whenever it comes, the command ends with 130, and nothing half-written stays.

Python raises KeyboardInterrupt between any two instructions: also where an extension turns it into an error of its own
(an import that fails, a decoder, a SystemError), and between making a file and noting down that it was made. So the
command line asks `came`, whatever ended a command, and what must not be cut in two is done under `held`.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from replay.errors import CancelledError


class _State:
    came = False
    pending = False
    depth = 0


def _take(number: int, frame: FrameType | None) -> None:
    _State.came = True
    if _State.depth:
        _State.pending = True
        return
    raise KeyboardInterrupt


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """A command runs. Takes SIGINT over from Python; where it is ignored, somebody else's, or this is not the main
    thread, it stays as it is."""
    _State.came = _State.pending = False
    _State.depth = 0
    mine = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if mine:
        try:
            signal.signal(signal.SIGINT, _take)
        except ValueError:  # only the main thread gets signals
            mine = False
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def came() -> bool:
    """Whether the command that runs was interrupted, even if nothing shows it any more."""
    return _State.came


def told() -> None:
    """The command has ended for it: what comes now changes nothing any more."""
    _State.came = True
    _State.depth += 1


def hold() -> None:
    """From here to `release` an interrupt waits, for `check` or the end: what threads share would be left locked."""
    _State.depth += 1


def release() -> None:
    """The end of `hold`. Raises KeyboardInterrupt if one waits."""
    _State.depth -= 1
    if not _State.depth:
        check()


def check() -> None:
    """A place where a command that holds interrupts may end. Raises KeyboardInterrupt if one waits."""
    if _State.pending:
        _State.pending = False
        raise KeyboardInterrupt


_thread = threading.local()


@contextlib.contextmanager
def cancellable(asked: Callable[[], bool]) -> Iterator[None]:
    """What this thread does in here may be cancelled by another one. asked: whether that was asked for; looked at often
    where something is waited for."""
    _thread.asked = asked
    try:
        yield
    finally:
        del _thread.asked


def check_cancelled() -> None:
    """A place where the work of a thread may end. Raises CancelledError if that was asked for."""
    asked = getattr(_thread, "asked", None)
    if asked is not None and asked():
        raise CancelledError("nobody waits for the answer any more", where="the request")


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Nothing in here is cut in two: an interrupt comes at the end. For steps that take a moment."""
    hold()
    try:
        yield
    finally:
        release()
