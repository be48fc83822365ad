"""The calls of a window in the form in which they are submitted: stretches of plain calls as tables for a loop in C.

A loop in Python takes longer for a launch than a small kernel runs, and would starve the device. A call is *plain* when
nothing has to be looked up or done around it: its arguments are known integers and addresses. Everything else, and
everything where the loop is not installed, is called from Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from replay.drivers import submission_library
from replay.engine.arguments.prepared import Prepared

WORDS = 12  # of a row; submission/submit.c has the same number
SHORTEST = 2  # calls that are worth a table

_INTEGERS = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p)
_FUNCTION = ctypes._CFuncPtr  # type: ignore[attr-defined]


class _Row(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("words", ctypes.c_uint64 * WORDS),
        ("must_succeed", ctypes.c_uint64),
    )


@dataclass
class Batch:
    """Calls of one context, one right after the other. rows stays valid with the calls' own buffers."""

    items: list[Prepared]
    context: int
    rows: ctypes.Array[_Row]

    def submit(self) -> tuple[Prepared, int] | None:
        """Call all of them; the call that failed and had to succeed, with its CUresult."""
        code = ctypes.c_int32(0)
        done = _loop()(self.rows, len(self.rows), ctypes.byref(code))
        return None if done == len(self.rows) else (self.items[done], code.value)


@cache
def _loop() -> Any:
    """The loop in C; None where it is not installed."""
    path = submission_library()
    if path is None:
        return None
    function = ctypes.CDLL(str(path)).replay_submit
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    function.restype = ctypes.c_size_t
    return function


def in_batches(
    window: Sequence[Prepared], must_succeed: Sequence[bool], apart: Collection[int]
) -> list[Prepared | Batch]:
    """The window with its stretches of plain calls as batches.

    must_succeed: for each call, whether its result has to be 0. apart: numbers of calls around which something else
    happens.
    """
    if _loop() is None:
        return list(window)
    found: list[Prepared | Batch] = []
    stretch: list[tuple[Prepared, bool, list[int]]] = []

    def close() -> None:
        if len(stretch) < SHORTEST:
            found.extend(item for item, _, _ in stretch)
        else:
            found.append(_batch(stretch))
        stretch.clear()

    for item, must in zip(window, must_succeed, strict=True):
        words = None if item.call.number in apart else _words(item)
        if words is None:
            close()
            found.append(item)
            continue
        if stretch and stretch[-1][0].context != item.context:
            close()
        stretch.append((item, must, words))
    close()
    return found


def _batch(stretch: Sequence[tuple[Prepared, bool, list[int]]]) -> Batch:
    rows = (_Row * len(stretch))()
    for row, (item, must, words) in zip(rows, stretch, strict=True):
        row.function = ctypes.cast(item.function, ctypes.c_void_p)  # type: ignore[arg-type]
        row.words[: len(words)] = words
        row.must_succeed = must
    return Batch([item for item, _, _ in stretch], stretch[0][0].context, rows)


def _words(item: Prepared) -> list[int] | None:
    """The argument words of a plain call; None when it is not plain."""
    around = item.late_arguments or item.late_words or item.first or item.outputs or item.then
    if around or not isinstance(item.function, _FUNCTION) or len(item.arguments) > WORDS:
        return None
    words = []
    for argument in item.arguments:
        if argument is None:
            words.append(0)
        elif isinstance(argument, _INTEGERS):
            words.append(int(argument.value or 0))
        else:
            return None
    return words
