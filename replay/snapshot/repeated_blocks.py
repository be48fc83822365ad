"""Blocks of calls of a snapshot as calls that repeat, without an object for each call."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from replay.api.parts import PARAMETERS
from replay.errors import DamagedError
from replay.snapshot.calls import SHORTEST, Columns, Repeats, timed
from replay.snapshot.container.blocks import ARGUMENTS, OTHER, Block, filled
from replay.snapshot.schema import INLINE_BYTES, Call, from_wire

_MOST_ARGUMENTS = 256  # combinations of arguments of one template; more are worth no columns
_LARGEST = (1 << 63) - 1


def repeats_of(block: Block, may_repeat: Callable[[Any], bool]) -> Iterator[dict[str, Any] | Repeats]:
    """The calls of a block in their order: those that repeat, and all others as objects of the file. may_repeat: of
    such an object. Raises FormatError, DamagedError."""
    try:
        made = _Columns(block, may_repeat)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError) as error:
        raise DamagedError(f"a block of calls makes no sense ({type(error).__name__})") from None
    if not made.sound:
        yield from block.calls()
        return
    others, row = iter(block.others), 0
    ends = np.flatnonzero(block.order == OTHER).tolist()
    begin = 0
    for end in [*ends, len(block.order)]:
        yield from made.rows(row, row + end - begin)
        row += end - begin
        if end < len(block.order):
            yield next(others)
        begin = end + 1


class _Columns:
    """The rows of a block. alone: whether each of them is by itself. sound: whether columns can hold them."""

    def __init__(self, block: Block, may_repeat: Callable[[Any], bool]) -> None:
        count = len(block.template_of)
        self._block, self._templates = block, list[Call]()
        self._which, sizes = np.zeros(count, "<u4"), np.zeros(count, "<i8")
        self.alone = np.zeros(count, bool)
        lines: list[tuple[Any, bytes, dict[int, Any]]] = []
        self._varying: list[dict[Any, Any]] = []
        for number, template in enumerate(block.templates):
            rows, varying = block.rows_of(number), block.varying_words(number)
            self._varying.append(dict(varying))
            if not len(rows):
                continue
            first = int(rows[0])
            parameters = dict(template.get("inputs", ())).get(PARAMETERS)
            arguments = varying.pop((ARGUMENTS, ""), {})
            words = varying.pop(("inputs", PARAMETERS), {})
            kinds, kind_of = _kinds(arguments, len(rows))
            value = {**template, "number": 0, "enter_ns": 0, "leave_ns": 0}
            large = isinstance(parameters, bytes) and len(parameters) > INLINE_BYTES
            if varying or large or len(kinds) > _MOST_ARGUMENTS or not may_repeat(value):
                self.alone[rows] = True
                continue
            for kind in kinds:
                given = list(template[ARGUMENTS])
                for place, word in zip(arguments, kind, strict=True):
                    given[place] = word
                self._templates.append(from_wire(Call, {**value, ARGUMENTS: tuple(given), "number": first}))
            self._which[rows] = len(self._templates) - len(kinds) + kind_of
            if isinstance(parameters, bytes):
                sizes[rows] = len(parameters)
                lines.append((rows, parameters, words))
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._parameters = np.zeros(int(self._starts[-1]), "u1")
        for rows, parameters, words in lines:
            places = self._starts[rows][:, None] + np.arange(len(parameters))
            self._parameters[places] = filled(parameters, words, slice(None), len(rows))
        columns = (block.numbers, block.enter_ns, block.leave_ns)
        ascending = bool((block.numbers[1:] > block.numbers[:-1]).all())
        sections = {template.section for template in self._templates}
        self.sound = ascending and len(sections) <= 1 and all((one <= _LARGEST).all() for one in columns)

    def rows(self, begin: int, end: int) -> Iterator[dict[str, Any] | Repeats]:
        """The calls of these rows."""
        start = begin
        for at in [*(np.flatnonzero(self.alone[begin:end]) + begin).tolist(), end]:
            if at - start >= SHORTEST:
                yield self._repeats(start, at)
            else:
                yield from map(self._single, range(start, at))
            if at < end:
                yield self._single(at)
            start = at + 1

    def _repeats(self, begin: int, end: int) -> Repeats:
        first, last = int(self._starts[begin]), int(self._starts[end])
        block = self._block
        numbers, enter_ns, leave_ns = (
            _array("q", column[begin:end], "<i8")
            for column in (block.numbers, block.enter_ns, block.leave_ns)
        )
        columns = Columns(
            _array("I", self._which[begin:end], "<u4"),
            numbers,
            enter_ns,
            leave_ns,
            _array("q", self._starts[begin : end + 1] - first, "<i8"),
            bytearray(self._parameters[first:last].tobytes()),
        )
        return Repeats(self._templates, columns, timed(block.gpu_ns, begin, end))

    def _single(self, row: int) -> dict[str, Any]:
        return self._block.call_of(row, self._varying[int(self._block.template_of[row])])


def _kinds(arguments: dict[int, Any], count: int) -> tuple[list[list[int]], Any]:
    """The combinations of the words that vary, and which of them each call has."""
    if not arguments:
        return [[]], np.zeros(count, "<u4")
    kinds, which = np.unique(np.stack(list(arguments.values()), 1), axis=0, return_inverse=True)
    return kinds.tolist(), which.reshape(-1)


def _array(code: str, column: Any, kind: str) -> array[int]:
    found = array(code)
    found.frombytes(np.ascontiguousarray(column).astype(kind).tobytes())
    return found
