"""What every command does that takes a folder of results, whatever for: the folder may be at a URL."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from replay.errors import UsageError
from replay.fleet.sharing.layout import RESULT_ENDINGS
from replay.fleet.sharing.mirror import look_at, open_place
from replay.history.series import HistoryView, look
from replay.history.store import append, require_room
from replay.results.schema import RunResult


def folder_of(text: str | os.PathLike[str]) -> Path:
    """Where its results are read: itself, or a copy of what is at the URL now. Raises UsageError, FileError."""
    return look_at(text).folder


def view_of(
    text: str | os.PathLike[str], kernel: str = "", device: str = "", last: int | None = None
) -> HistoryView:
    """What is there, over time. kernel, device, last: as of `look`. Raises UsageError, FileError."""
    place = look_at(text)
    view = look(place.folder, kernel, device, last)
    if not place.url:
        return view
    left_out = [(name, why) for name, why in place.left_out.items() if name.endswith(RESULT_ENDINGS)]
    if not (view.results or view.problems or left_out or kernel or device):
        raise UsageError("holds no results", where=place.name, next="check the URL")
    return replace(view, folder=place.name, problems=[*left_out, *view.problems])


def adder(text: str | os.PathLike[str]) -> Callable[[RunResult], object]:
    """Adds results to what is there. Raises UsageError, FileError: nothing can be written."""
    place = open_place(os.fspath(text))
    if place.url:
        place.now_s()  # before anything is replayed
    else:
        require_room(place.folder)
    return partial(append, place.folder, write=place.write)
