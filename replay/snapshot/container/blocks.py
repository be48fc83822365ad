"""Blocks of calls: objects of kind "calls", each of which has thousands of objects of kind "call", and for those
of kind "census" of their parameter buffers. FORMAT.md has the layout.

A template is a call without number and times; the calls of one template differ in words, and each such word is a
column. `Block` checks what it reads: it comes from a stranger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.api.parts import PARAMETERS
from replay.errors import DamagedError, LimitError
from replay.records import dataclass
from replay.snapshot.container.columns import U64, unpack_column

MAX_CALLS = 1 << 16  # in a block
MAX_TEMPLATES = 0xFFFF
OTHER = 0xFFFF  # in `order`: the next of `others`
FIELDS = (
    "order",
    "numbers",
    "enter_ns",
    "leave_ns",
    "templates",
    "varying",
    "pointers",
    "bases",
    "gpu_ns",
    "others",
)
MAX_ARGUMENTS = 64
MAX_COLUMNS = 2048  # of a template
MAX_VARYING_BYTES = 4096  # of an attachment whose words vary
MAX_SPREAD_BYTES = 16 << 20  # of all such attachments of all calls of a block
ARGUMENTS = "arguments"
CENSUS_WORD = np.dtype([("offset", "<u8"), ("inside", "<u8"), ("range", "<u4"), ("zero", "<u4")])
_AT_ONCE = 2048  # calls whose maps are made together
_SIDES = (ARGUMENTS, "inputs", "outputs")
_MISFITS = (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError)

Place = tuple[str, str]  # a side, and the key of an attachment there


@dataclass(frozen=True)
class Varying:
    """A word that differs among the calls of a template: of `arguments`, or of an attachment, as many words on."""

    place: Place
    word: int
    column: bytes


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """What does not fit together is damage."""
    try:
        yield
    except _MISFITS as error:
        raise DamagedError(f"a block of calls makes no sense ({type(error).__name__})") from None


class Block:
    """One block. value: as it is in the file. `rows` are the calls that have a template, in their order; `order` says
    of every call which template it has. Raises DamagedError, also from its methods."""

    def __init__(self, value: object) -> None:
        with _refused():
            self._read(value)

    def _read(self, value: Any) -> None:
        self.order: NDArray[np.uint16] = np.frombuffer(value["order"], "<u2")
        self.templates: list[dict[str, Any]] = list(value["templates"])
        self.others: list[dict[str, Any]] = list(value["others"])
        of_others = self.order == OTHER
        rows = len(self.order) - int(of_others.sum())
        highest = int(self.order[~of_others].max()) if rows else -1
        if (
            not 0 < len(self.order) <= MAX_CALLS
            or len(self.order) - rows != len(self.others)
            or not highest < len(self.templates) <= len(self.order)
            or len(value["gpu_ns"]) > rows
            or not all(isinstance(item, dict) for item in (*self.templates, *self.others))
        ):
            raise ValueError("order")
        self.template_of: NDArray[np.uint16] = self.order[~of_others]
        self.numbers, self.enter_ns, self.leave_ns = (
            unpack_column(value[name], rows) if rows else np.empty(0, np.uint64)
            for name in ("numbers", "enter_ns", "leave_ns")
        )
        self._varying = [
            self._varying_of(*pair) for pair in zip(self.templates, value["varying"], strict=True)
        ]
        self._pointers = [list(map(tuple, found)) for found in value["pointers"]]
        if (
            len(self._pointers) != len(self.templates)
            or max(map(len, self._pointers), default=0) > MAX_COLUMNS
        ):
            raise ValueError("pointers")
        if len(value["bases"]) > rows * sum(map(len, self._pointers)):
            raise ValueError("bases")
        self._bases = {index(number): index(base) for number, base in value["bases"]}
        self.gpu_ns = {index(row): index(ns) for row, ns in value["gpu_ns"]}
        self._check_spread()

    def _check_spread(self) -> None:
        """Many calls share a template: what they have that differs is bounded, and no word is given twice."""
        spread = 0
        counts = np.bincount(self.template_of, minlength=len(self.templates)).tolist()
        for template, varying, pointers, count in zip(
            self.templates, self._varying, self._pointers, counts, strict=True
        ):
            words = [(item.place, item.word) for item in varying]
            pointed = [(("inputs", key), word) for key, word, _ in pointers]
            if len({*words}) != len(words) or len({*pointed}) != len(pointed):
                raise ValueError("a word twice")
            places = {place for place, _ in (*words, *pointed)} - {(ARGUMENTS, "")}
            spread += count * sum(len(_bytes_of(template, place)) for place in places)
            # A reader makes a column of the parameters, whether they vary or not.
            parameters = dict(template.get("inputs", ())).get(PARAMETERS)
            if ("inputs", PARAMETERS) not in places and isinstance(parameters, bytes):
                spread += count * len(parameters) if len(parameters) <= MAX_VARYING_BYTES else 0
        if spread > MAX_SPREAD_BYTES:
            raise LimitError("the parameters of a block of calls are larger than any that a snapshot has")

    @staticmethod
    def _varying_of(template: dict[str, Any], found: Any) -> list[Varying]:
        varying = [Varying((side, key), word, column) for side, key, word, column in found]
        arguments = len(template[ARGUMENTS])
        for item in varying:
            side, key = item.place
            words = arguments if side == ARGUMENTS else -(-len(_bytes_of(template, item.place)) // 8)
            if side not in _SIDES or not 0 <= item.word < words or (side == ARGUMENTS and key):
                raise ValueError("varying")
        if varying and (arguments > MAX_ARGUMENTS or len(varying) > MAX_COLUMNS):
            raise ValueError("varying")
        return varying

    def __len__(self) -> int:
        return len(self.order)

    @property
    def last_number(self) -> int:
        """The highest number of a call."""
        others = (number for other in self.others if isinstance(number := other.get("number"), int))
        return max(*others, int(self.numbers.max()) if len(self.numbers) else 0, 0)

    def check(self) -> None:
        """Look at every column."""
        with _refused():
            for number in range(len(self.templates)):
                self.varying_words(number)
                for pointers in self._pointers_of(number):
                    if not set(np.unique(pointers.ranges).tolist()) <= {0, *self._bases}:
                        raise DamagedError(
                            "a block of calls has pointers into a range that it does not place"
                        )

    @cached_property
    def _rows_by_template(self) -> list[NDArray[np.int64]]:
        by_template = np.argsort(self.template_of, kind="stable")
        bounds = np.searchsorted(self.template_of[by_template], np.arange(len(self.templates) + 1))
        return [by_template[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]

    def rows_of(self, template: int) -> NDArray[np.int64]:
        """The rows of a template, ascending."""
        return self._rows_by_template[template]

    def varying_words(self, template: int) -> dict[Place, dict[int, U64]]:
        """The words that vary, by their place and how many words on they are: one for each of `rows_of`."""
        count = len(self.rows_of(template))
        found: dict[Place, dict[int, U64]] = {}
        for item in self._varying[template] if count else ():
            found.setdefault(item.place, {})[item.word] = unpack_column(item.column, count)
        return found

    def calls(self) -> Iterator[dict[str, Any]]:
        """Every call as an object of kind "call"."""
        with _refused():
            yield from self._calls()

    def _calls(self) -> Iterator[dict[str, Any]]:
        others, row = iter(self.others), 0
        made = self._calls_with_template()
        for template in self.order.tolist():
            if template == OTHER:
                yield next(others)
                continue
            call = next(made)
            if row in self.gpu_ns:
                call["gpu_ns"] = self.gpu_ns[row]
            row += 1
            yield call

    def call_of(self, row: int, varying: dict[Place, dict[int, U64]]) -> dict[str, Any]:
        """The call of one row. varying: of its template (`varying_words`)."""
        number = int(self.template_of[row])
        at = int(np.searchsorted(self.rows_of(number), row))
        made: list[Any] = [None]
        with _refused():
            self._fill(made, row, number, varying, slice(at, at + 1))
        call: dict[str, Any] = made[0]
        if row in self.gpu_ns:
            call["gpu_ns"] = self.gpu_ns[row]
        return call

    def _calls_with_template(self) -> Iterator[dict[str, Any]]:
        varying = [self.varying_words(template) for template in range(len(self.templates))]
        for begin in range(0, len(self.template_of), _AT_ONCE):
            end = min(begin + _AT_ONCE, len(self.template_of))
            made: list[dict[str, Any] | None] = [None] * (end - begin)
            for template in np.unique(self.template_of[begin:end]).tolist():
                self._fill(made, begin, template, varying[template], self._part(template, begin, end)[1])
            for call in made:
                assert call is not None
                yield call

    def _fill(
        self, made: list[Any], begin: int, number: int, varying: dict[Place, dict[int, U64]], chosen: slice
    ) -> None:
        template, rows = self.templates[number], self.rows_of(number)[chosen]
        parts: dict[Place, list[Any]] = {
            place: _lines(template, place, columns, chosen, len(rows)) for place, columns in varying.items()
        }
        numbers, enter_ns, leave_ns = (
            words[rows].tolist() for words in (self.numbers, self.enter_ns, self.leave_ns)
        )
        for at, row in enumerate(rows.tolist()):
            call = {**template, "number": numbers[at], "enter_ns": enter_ns[at], "leave_ns": leave_ns[at]}
            for (side, key), lines in parts.items():
                if side == ARGUMENTS:
                    call[side] = lines[at]
                else:
                    call[side] = {**call[side], key: lines[at]}
            made[row - begin] = call

    def census(self) -> Iterator[dict[str, Any]]:
        """The census of the parameter buffers of the calls, as objects of kind "census", in the order of the calls."""
        with _refused():
            pointers = [list(self._pointers_of(number)) for number in range(len(self.templates))]
            for begin in range(0, len(self.template_of), _AT_ONCE):
                end = min(begin + _AT_ONCE, len(self.template_of))
                yield from self._joined(
                    [
                        item.words_of(*self._part(number, begin, end))
                        for number in np.unique(self.template_of[begin:end]).tolist()
                        for item in pointers[number]
                    ]
                )

    def census_words(self) -> Iterator[tuple[U64, NDArray[np.void]]]:
        """The same as columns: of each word of the census the number of its call, and the word."""
        with _refused():
            for number in range(len(self.templates)):
                rows = self.rows_of(number)
                for item in self._pointers_of(number):
                    found, words = item.words_of(rows, slice(0, len(rows)))
                    yield self.numbers[found], words

    def _part(self, template: int, begin: int, end: int) -> tuple[NDArray[np.int64], slice]:
        """The rows of a template from `begin` to `end`, and which of its rows they are."""
        rows = self.rows_of(template)
        first, last = np.searchsorted(rows, (begin, end)).tolist()
        return rows[first:last], slice(first, last)

    def _joined(self, found: list[tuple[NDArray[np.int64], NDArray[np.void]]]) -> Iterator[dict[str, Any]]:
        rows = np.concatenate([rows for rows, _ in found]) if found else np.empty(0, np.int64)
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        rows, words = rows[order], np.concatenate([words for _, words in found])[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        numbers = self.numbers[rows[starts]].tolist()
        data, size = words.tobytes(), CENSUS_WORD.itemsize
        for number, begin, end in zip(
            numbers, starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True
        ):
            yield {"kind": "call", "site": number, "words": data[size * begin : size * end]}

    def _pointers_of(self, number: int) -> Iterator[Pointers]:
        """Each word of the parameter buffers of a template's calls that is a pointer in some of them."""
        count, varying = len(self.rows_of(number)), self.varying_words(number)
        for key, word, column in self._pointers[number] if count else ():
            place = ("inputs", key)
            values = varying.get(place, {}).get(word)
            if values is None:
                constant = np.frombuffer(_bytes_of(self.templates[number], place), "<u8", 1, 8 * word)
                values = np.broadcast_to(constant, count)
            yield Pointers(word, values, unpack_column(column, count), self._bases)


@dataclass(frozen=True)
class Pointers:
    """A word of parameter buffers, what it is in each call, the range that it points into (0: none), and where each
    range begins."""

    word: int
    values: U64
    ranges: U64
    bases: dict[int, int]

    def words_of(self, rows: NDArray[np.int64], chosen: slice) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """The rows among `rows`, which are those `chosen` of the template, where it is a pointer, and the words of
        their census."""
        ranges, values = self.ranges[chosen], self.values[chosen]
        hits = np.flatnonzero(ranges)
        known, which = np.unique(ranges[hits], return_inverse=True)
        bases = np.array([self.bases[target] for target in known.tolist()], np.uint64)
        words = np.zeros(len(hits), CENSUS_WORD)
        words["offset"], words["range"] = 8 * self.word, ranges[hits]
        words["inside"] = values[hits] - bases[which]
        return rows[hits], words


def _bytes_of(template: dict[str, Any], place: Place) -> bytes:
    found = template[place[0]][place[1]]
    if not isinstance(found, bytes) or len(found) > MAX_VARYING_BYTES:
        raise ValueError("attachment")
    return found


def filled(data: bytes, columns: dict[int, U64], chosen: slice, count: int) -> NDArray[np.uint8]:
    """`data` with the words that vary, a line of bytes for each of the chosen calls, of which there are `count`."""
    return _filled(np.frombuffer(data + bytes(-len(data) % 8), "<u8"), columns, chosen, count).view("u1")[
        :, : len(data)
    ]


def _filled(base: U64, columns: dict[int, U64], chosen: slice, count: int) -> U64:
    lines = np.empty((count, len(base)), "<u8")
    lines[:] = base
    for word, words in columns.items():
        lines[:, word] = words[chosen]
    return lines


def _lines(
    template: dict[str, Any], place: Place, columns: dict[int, U64], chosen: slice, count: int
) -> list[Any]:
    """What the calls have at a place, one after another."""
    if place[0] == ARGUMENTS:
        return _filled(np.array(template[ARGUMENTS], np.uint64), columns, chosen, count).tolist()  # type: ignore[no-any-return]
    data = _bytes_of(template, place)
    joined, width = filled(data, columns, chosen, count).tobytes(), len(data)
    return [joined[at : at + width] for at in range(0, width * count, width)]
