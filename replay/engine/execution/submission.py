"""The calls of a window in the form in which they are submitted: stretches of plain calls as tables for a loop in C.

A loop in Python takes longer for a launch than a small kernel runs, and would starve the device. A call is *plain* when
nothing has to be done around it and its arguments are integers and addresses. What the window itself makes is looked
up once for a stretch: no call of one makes or ends an object. Everything else, and everything where the loop is not
installed, is called from Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from replay.drivers import submission_library
from replay.engine.arguments.prepared import Prepared
from replay.engine.translation.translation import Late, put_word

WORDS = 12  # of a row's arguments; submission/submit.c has the same number
ROW_WORDS = WORDS + 2  # and the function in front of them, after them whether it must succeed
SHORTEST = 2  # calls that are worth a table

_INTEGERS = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p)
_FUNCTION = ctypes._CFuncPtr  # type: ignore[attr-defined]


class _LateValue(NamedTuple):
    """What is looked up when a batch is submitted. where: the first call that asks for it. words: which of the table's
    get it; addresses: of words elsewhere that get it, too."""

    value: Late
    where: str
    words: Any
    addresses: list[int]


@dataclass
class Batch:
    """Calls of one context, one right after the other. rows: the table, of words; it stays valid with the calls' own
    buffers."""

    items: list[Prepared]
    context: int
    rows: Any
    late: list[_LateValue]

    def submit(self, live: Callable[[Late, str], int]) -> tuple[Prepared, int] | None:
        """Call all of them; the call that failed and had to succeed, with its CUresult. live: tells what stands for a
        value now (`Translation.live`); its EngineError goes through."""
        words = self.rows.reshape(-1)
        for late in self.late:
            word = live(late.value, late.where)
            words[late.words] = word
            for address in late.addresses:
                put_word(address, word)
        code = ctypes.c_int32(0)
        done = _loop()(self.rows.ctypes.data, len(self.rows), ctypes.byref(code))
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
        words = None if item.call.number in apart else _words(item, must)
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
    import numpy

    rows = numpy.array([[*words, must] for _, must, words in stretch], "<u8")
    late: dict[Late, tuple[str, list[int], list[int]]] = {}
    for number, (item, _, _) in enumerate(stretch):
        for value in item.late_arguments:
            _, words, _ = late.setdefault(value._replace(place=0), (item.where, [], []))
            words.append(number * ROW_WORDS + 1 + value.place)
        for value in item.late_words:
            _, _, addresses = late.setdefault(value._replace(place=0), (item.where, [], []))
            addresses.append(value.place)
    values = [_LateValue(value, where, numpy.array(words, "<i8"), places)
              for value, (where, words, places) in late.items()]  # fmt: skip
    return Batch([item for item, _, _ in stretch], stretch[0][0].context, rows, values)


def _words(item: Prepared, must_succeed: bool) -> list[int] | None:
    """The function and the argument words of a plain call; None when it is not plain."""
    late = [*item.late_arguments, *item.late_words]
    around = item.first or item.outputs or item.then
    # What cannot be looked up need not end a replay where the call may fail; calls change what an executable graph is.
    alone = late and (not must_succeed or any(one.c_type == "CUgraphExec" for one in late))
    if around or alone or not isinstance(item.function, _FUNCTION) or len(item.arguments) > WORDS:
        return None
    words = [ctypes.cast(item.function, ctypes.c_void_p).value or 0]  # type: ignore[arg-type]
    for argument in item.arguments:
        if argument is None:
            words.append(0)
        elif isinstance(argument, _INTEGERS):
            words.append(int(argument.value or 0))
        elif type(argument) is int and late:  # looked up by an earlier run
            words.append(argument)
        else:
            return None
    return words + [0] * (WORDS + 1 - len(words))
