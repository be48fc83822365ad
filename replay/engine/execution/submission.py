"""The calls of a window in the form in which they are submitted: stretches of plain calls as tables for a loop in C.

A loop in Python takes longer for a launch than a small kernel runs, and would starve the device. A call is *plain* when
nothing has to be done around it and its arguments are integers and addresses. What the window itself makes is looked
up once for a stretch: no call of one makes or ends an object. Everything else, and everything where the loop is not
installed, is called from Python.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from replay.drivers import submission_library
from replay.engine.arguments.prepared import Prepared
from replay.engine.translation.translation import Late, put_word
from replay.records import dataclass

S = TypeVar("S")

WORDS = 12  # of a row's arguments; submission/submit.c has the same number
ROW_WORDS = WORDS + 2  # and the function in front of them, after them whether it must succeed
REPEATED_WORDS = ROW_WORDS + 5  # of a template of calls that repeat; the last is the lane of its marks
SHORTEST = 2  # calls that are worth a table

_INTEGERS = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p)
_FUNCTION = ctypes._CFuncPtr  # type: ignore[attr-defined]


class _LateValue(NamedTuple):
    """What is looked up when a batch is submitted. where: the first call that asks for it. words: which of the table's
    get it; addresses: of words elsewhere that get it, too."""

    value: Late
    where: str
    words: list[int]
    addresses: list[int]


@dataclass
class Batch:
    """Calls of one context, one right after the other. rows: the table, of words; it stays valid with the calls' own
    buffers."""

    items: list[Prepared]
    context: int
    rows: array[int]
    late: list[_LateValue]

    def submit(self, live: Callable[[Late, str], int]) -> tuple[Prepared, int] | None:
        """Call all of them; the call that failed and had to succeed, with its CUresult. live: gives the live value
        for a captured one (`Translation.live`); its EngineError goes through."""
        for late in self.late:
            word = live(late.value, late.where)
            for place in late.words:
                self.rows[place] = word
            for address in late.addresses:
                put_word(address, word)
        code = ctypes.c_int32(0)
        done = _library().replay_submit(self.rows.buffer_info()[0], len(self.items), ctypes.byref(code))
        return None if done == len(self.items) else (self.items[done], code.value)


@cache
def _library() -> Any:
    """The loops in C; None where they are not installed."""
    path = submission_library()
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.replay_submit.argtypes = (pointer, size, pointer)
    library.replay_submit_repeated.argtypes = (pointer, pointer, size, pointer, pointer, pointer, pointer)
    library.replay_submit.restype = library.replay_submit_repeated.restype = size
    return library


def missing() -> bool:
    """Whether the loops are not installed."""
    return _library() is None


def is_function(function: Any) -> bool:
    """Whether it is one of a driver, and nothing of Python's."""
    return isinstance(function, _FUNCTION)


def call_each(function: Any, rows: Sequence[Sequence[int]]) -> int:
    """Call a driver function with each row of words; the first CUresult that is none of success, else 0."""
    if missing() or not is_function(function):
        return next(filter(None, (function(*row) for row in rows)), 0)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    table = array("Q")
    for row in rows:
        table.extend((address, *row, *[0] * (WORDS - len(row)), 1))
    code = ctypes.c_int32(0)
    _library().replay_submit(table.buffer_info()[0], len(rows), ctypes.byref(code))
    return code.value


class Marks:
    """Calls that the engine adds around some of the calls that repeat. item: the one function that all
    of them call, of two words.

    places: of the calls, which ascend; words: the first word of the call before each and of the one after it. The
    second word is the live stream of the call; streams: the captured one of each template.
    """

    def __init__(
        self, item: Prepared, places: array[int], words: array[int], streams: dict[int, int]
    ) -> None:
        self.item, self.streams = item, streams
        self._places, self._words = places, words
        function = ctypes.cast(item.function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
        self._struct = array("Q", [function, places.buffer_info()[0], words.buffer_info()[0], len(places), 0])

    @property
    def address(self) -> int:
        """Of the struct, as submission/submit.c lays it out."""
        return self._struct.buffer_info()[0]

    @property
    def failed(self) -> bool:
        """Whether it was one of these that ended the last submission."""
        return self._struct[4] != 0


def submit_repeated(
    table: Any, which: Any, parameters: int, addresses: Any, marks: Marks | None = None
) -> tuple[int, int]:
    """Call each of `which`, rows of the table of templates: how many were done, and the CUresult of the next one.
    parameters: address of the first call's; addresses: room for those of the parameters of one call."""
    code = ctypes.c_int32(0)
    done = _library().replay_submit_repeated(
        table.ctypes.data,
        which.ctypes.data,
        len(which),
        parameters,
        addresses.ctypes.data,
        None if marks is None else marks.address,
        ctypes.byref(code),
    )
    return done, code.value


def in_batches(
    window: Sequence[S | Prepared], must_succeed: Sequence[bool], apart: Collection[int]
) -> list[S | Prepared | Batch]:
    """The window with its stretches of plain calls as batches. What is no `Prepared` is in that form already.

    must_succeed: for each call, whether its result has to be 0. apart: numbers of calls around which something else
    happens.
    """
    if missing():
        return list(window)
    found: list[S | Prepared | Batch] = []
    stretch: list[tuple[Prepared, bool, list[int]]] = []

    def close() -> None:
        if len(stretch) < SHORTEST:
            found.extend(item for item, _, _ in stretch)
        else:
            found.append(_batch(stretch))
        stretch.clear()

    for item, must in zip(window, must_succeed, strict=True):
        words = None
        if isinstance(item, Prepared) and item.call.number not in apart:
            words = _words(item, must)
        if words is None or not isinstance(item, Prepared):
            close()
            found.append(item)
            continue
        if stretch and stretch[-1][0].context != item.context:
            close()
        stretch.append((item, must, words))
    close()
    return found


def _batch(stretch: Sequence[tuple[Prepared, bool, list[int]]]) -> Batch:
    rows = array("Q")
    for _, must, words in stretch:
        rows.extend((*words, must))
    late: dict[Late, tuple[str, list[int], list[int]]] = {}
    for number, (item, _, _) in enumerate(stretch):
        for value in item.late_arguments:
            _, words, _ = late.setdefault(value._replace(place=0), (item.where, [], []))
            words.append(number * ROW_WORDS + 1 + value.place)
        for value in item.late_words:
            _, _, addresses = late.setdefault(value._replace(place=0), (item.where, [], []))
            addresses.append(value.place)
    values = [_LateValue(value, where, words, places) for value, (where, words, places) in late.items()]
    return Batch([item for item, _, _ in stretch], stretch[0][0].context, rows, values)


def _words(item: Prepared, must_succeed: bool) -> list[int] | None:
    """The function and the argument words of a plain call; None when it is not plain."""
    late = [*item.late_arguments, *item.late_words]
    around = item.first or item.outputs or item.then
    # What cannot be looked up need not end a replay where the call may fail; calls change what an executable graph is.
    alone = late and (not must_succeed or any(one.c_type == "CUgraphExec" for one in late))
    if around or alone or not is_function(item.function):
        return None
    return words_of(item)


def words_of(item: Prepared) -> list[int] | None:
    """The words of a row but the last, 0 for those that are looked up late; None where an argument is none."""
    late = item.late_arguments
    if len(item.arguments) > WORDS:
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
