"""Calls of a window that repeat a few templates, prepared as columns: one prepared call for each template, and all
parameters in one buffer, whose words were translated at once.

The templates are prepared as any other call is, and checked so. Only what an ordinary launch is goes this way: a call
around which something has to be done, or whose parameters hold more than addresses of memory that stays where it is,
is prepared by itself.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from replay.api.functions import by_symbol
from replay.api.parts import PARAMETER_LAYOUT, PARAMETERS, split_key
from replay.engine.arguments.prepared import Prepared
from replay.engine.execution import submission
from replay.engine.translation.translation import Late, Translation, put_word
from replay.snapshot.calls import Repeats
from replay.snapshot.kept import Kept
from replay.snapshot.schema import Call

_ARGUMENT = split_key(PARAMETERS)[0]
_ALIGNMENT = 16  # of the parameters of each call
Prepare = Callable[[Call], Prepared | None]


def divided(repeats: Repeats, translation: Translation) -> Iterator[Call | Repeats]:
    """The same calls, by themselves those whose parameters cannot be translated as columns."""
    import numpy

    sites, numbers = translation.census.calls, numpy.asarray(repeats.columns.numbers)
    first, last = repeats.first, repeats.last
    more = [number for number in sites.more() if first <= number <= last]
    calls, offsets, targets = map(numpy.asarray, sites.between(first, last))
    _, settled = translation.addresses.find_all(targets)
    order = numpy.lexsort((offsets, calls))
    near = (numpy.diff(calls[order]) == 0) & (numpy.diff(offsets[order]) < 8)
    alone = numpy.concatenate([numpy.array(more, "<i8"), calls[~settled], calls[order][1:][near]])
    yield from repeats.without(numpy.flatnonzero(numpy.isin(numbers, alone)).tolist())


class PreparedRepeats:
    """Ready to be submitted. context: the captured context of all of them. templates: by their number, those that
    occur."""

    def __init__(self, repeats: Repeats, templates: dict[int, Prepared], translation: Translation) -> None:
        import numpy

        self.repeats, self.templates = repeats, templates
        self.context = next(iter(templates.values())).context
        columns = repeats.columns
        which, given = numpy.asarray(columns.which, "<u4"), numpy.asarray(columns.starts)
        sizes = numpy.diff(given)
        strides = -(-sizes // _ALIGNMENT) * _ALIGNMENT
        starts = numpy.concatenate([[0], numpy.cumsum(strides)])
        buffer = numpy.zeros(int(starts[-1]) + _ALIGNMENT, "u1")
        captured = numpy.frombuffer(columns.parameters, "u1")
        for size in numpy.unique(sizes).tolist():
            calls, inside = numpy.flatnonzero(sizes == size), numpy.arange(size)
            buffer[starts[calls][:, None] + inside] = captured[given[calls][:, None] + inside]
        numbers = numpy.asarray(columns.numbers)
        found = translation.census.calls.between(repeats.first, repeats.last)
        words, offsets, targets = map(numpy.asarray, found)
        places = numpy.minimum(numpy.searchsorted(numbers, words), len(numbers) - 1)
        inside = (numbers[places] == words) & (offsets < sizes[places]) & (offsets + 8 <= sizes[places])
        at = starts[places[inside]] + offsets[inside].astype("<i8")
        translation.patch_columns(buffer, at, targets[inside])
        self._kept = Kept(which, starts, buffer)
        self._table: Any = None
        self._held: list[Any] = []
        self._marks: submission.Marks | None = None

    def __len__(self) -> int:
        return len(self.repeats)

    def item(self, at: int) -> Prepared:
        """One of the calls by itself. Its parameters are in the buffer of all."""
        which, starts, buffer = self._kept.get()
        call, template = self.repeats.call(at), self.templates[int(which[at])]
        arguments, keep = list(template.arguments), list[Any]([buffer])
        place = _place_of_parameters(template)
        if place is not None:
            begin = buffer.ctypes.data + int(starts[at])
            offsets = _offsets(call)
            pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(begin + offset for offset in offsets))
            keep.append(pointers)
            arguments[place] = ctypes.c_void_p(ctypes.addressof(pointers))
        return replace(template, call=call, arguments=arguments, keep=keep,
                       late_arguments=list(template.late_arguments))  # fmt: skip

    def part(self, begin: int, end: int) -> PreparedRepeats:
        """The calls from one place to before another, with a copy of their parameters."""
        part = object.__new__(PreparedRepeats)
        part.repeats = self.repeats.part(begin, end)
        part.templates = {number: self.templates[number] for number, _, _, _ in part.repeats.places()}
        which, starts, buffer = self._kept.get()
        first, last = int(starts[begin]), int(starts[end]) + _ALIGNMENT
        part.context = self.context
        part._kept = Kept(which[begin:end].copy(), starts[begin : end + 1] - first, buffer[first:last].copy())
        part._table, part._held, part._marks = None, [], None
        return part

    def marked(self, marks: submission.Marks) -> PreparedRepeats:
        """The same calls, with others around some of them."""
        part = copy(self)
        part._table, part._held, part._marks = None, [], marks
        return part

    def places_of(self, templates: Collection[int]) -> Sequence[int]:
        """The places of the calls of these templates."""
        if self.templates.keys() <= set(templates):
            return range(len(self))
        import numpy

        which, _, _ = self._kept.get()
        found = numpy.flatnonzero(numpy.isin(which, list(templates)))
        return array("I", found.astype("<u4").tobytes())

    def submit(self, live: Callable[[Late, str], int]) -> tuple[Prepared, int] | None:
        """As `Batch.submit`."""
        if self._table is None:
            self._make_table()
        table, addresses = self._table
        which, _, buffer = self._kept.get()
        for number, template in self.templates.items():
            for late in template.late_arguments:
                table[number, 1 + late.place] = live(late, template.where)
            for late in template.late_words:
                put_word(late.place, live(late, template.where))
            if self._marks is not None:
                stream = Late(0, "CUstream", self._marks.streams.get(number, 0))
                table[number, -1] = live(stream, template.where)
        done, code = submission.submit_repeated(table, which, buffer.ctypes.data, addresses, self._marks)
        if done == len(self):
            return None
        failed = self._marks.item if self._marks is not None and self._marks.failed else self.item(done)
        return failed, code

    def _make_table(self) -> None:
        """A row for each template, as submission/submit.c lays it out."""
        import numpy

        table = numpy.zeros((max(self.templates) + 1, submission.REPEATED_WORDS), "<u8")
        most = 1
        for number, template in self.templates.items():
            words, place = submission.words_of(template) or [], _place_of_parameters(template)
            offsets = numpy.array(_offsets(template.call), "<u8")
            parameters = template.call.inputs.get(PARAMETERS, b"")
            size = len(parameters) if isinstance(parameters, bytes) else 0
            self._held.append(offsets)
            table[number] = [*words, 1, submission.WORDS if place is None else place, len(offsets),
                             offsets.ctypes.data, -(-size // _ALIGNMENT) * _ALIGNMENT, 0]  # fmt: skip
            most = max(most, len(offsets))
        self._table = table, numpy.zeros(most, "<u8")


def prepared_repeats(repeats: Repeats, prepare: Prepare, translation: Translation) -> PreparedRepeats | None:
    """Calls that `divided` has put together; None where a template is no ordinary call, or they
    are of several contexts."""
    if submission.missing():
        return None
    templates: dict[int, Prepared] = {}
    for call, (number, *_) in zip(repeats.firsts(), repeats.places(), strict=True):
        template = prepare(call)
        if template is None or not _is_ordinary(template):
            return None
        templates[number] = template
    if len({template.context for template in templates.values()}) > 1:
        return None
    return PreparedRepeats(repeats, templates, translation)


def _is_ordinary(item: Prepared) -> bool:
    """Whether a call needs nothing but its function and words, of which some are handles to be looked up."""
    late = [*item.late_arguments, *item.late_words]
    given = item.first or item.then or item.outputs or item.host_outputs or item.creates
    asks = any(value.c_type in ("CUdeviceptr", "CUgraphExec") for value in late)
    return not (given or asks) and submission.is_function(item.function) and item.call.result == 0


def _place_of_parameters(template: Prepared) -> int | None:
    """Which argument points to the addresses of the parameters; None where there are none."""
    if not template.call.inputs.get(PARAMETERS):
        return None
    parameters = by_symbol()[template.symbol or template.call.function].parameters
    return next(at for at, parameter in enumerate(parameters) if parameter.name == _ARGUMENT)


def _offsets(call: Call) -> list[int]:
    layout = call.inputs.get(PARAMETER_LAYOUT, b"")
    assert isinstance(layout, bytes)  # a call that repeats has it so
    return [offset for offset, _ in struct.iter_unpack("<II", layout[: len(layout) // 8 * 8])]
