"""The calls of a snapshot, as a sequence that does not hold an object for each.

A window may hold a million launches of a few kernels, which differ in their number, times and parameters. Neighbours
that repeat one of a few calls are kept as columns (`Repeats`), and become a `Call` when somebody asks for one.
`read_calls` is the one place that reads calls in this form.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, overload

from replay.api.functions import by_symbol
from replay.api.parts import CONFIG_ATTRIBUTES, PARAMETER_LAYOUT, PARAMETERS, part_key
from replay.api.vocabulary import Effect, Keep, Role, Work
from replay.snapshot.kept import Kept
from replay.snapshot.schema import Call, from_wire

SHORTEST = 4  # calls that are worth columns
# Of calls that are kept together, as in a block of a snapshot
_LONGEST, _LARGEST_PARAMETERS = 1 << 16, 16 << 20
_MAXIMUM_TEMPLATES = 65_536  # known at once
_LARGEST = (1 << 63) - 1
_Key = tuple[Any, ...]


class Columns(NamedTuple):
    """Of calls that repeat. which: number of the template; starts: where its parameters begin, as long as the
    template's, and where the last ones end. numbers ascend."""

    which: array[int]
    numbers: array[int]
    enter_ns: array[int]
    leave_ns: array[int]
    starts: array[int]
    parameters: bytearray


class Repeats:
    """Calls one after another, all successful, each like one of `templates` but for its number, times and parameters.

    gpu_ns: of those that were timed, by place. first, last: the lowest and the highest number.
    """

    def __init__(self, templates: list[Call], columns: Columns, gpu_ns: dict[int, int]) -> None:
        self.templates, self.gpu_ns = templates, gpu_ns
        self.first, self.last = columns.numbers[0], columns.numbers[-1]
        self._count, self._kept = len(columns.which), Kept(*columns)

    @property
    def columns(self) -> Columns:
        """All of them, for a while: who goes through a window holds those of one part at a time."""
        return Columns(*self._kept.get())

    def __len__(self) -> int:
        return self._count

    def call(self, at: int) -> Call:
        """The call at a place."""
        return self._call(self.columns, at)

    def calls(self) -> Iterator[Call]:
        """All of them."""
        columns = self.columns
        return (self._call(columns, at) for at in range(len(self)))

    def _call(self, columns: Columns, at: int) -> Call:
        template = self.templates[columns.which[at]]
        inputs, begin, end = template.inputs, columns.starts[at], columns.starts[at + 1]
        if PARAMETERS in inputs:
            inputs = {**inputs, PARAMETERS: bytes(columns.parameters[begin:end])}
        return replace(template, number=columns.numbers[at], enter_ns=columns.enter_ns[at],
                       leave_ns=columns.leave_ns[at], gpu_ns=self.gpu_ns.get(at), inputs=inputs)  # fmt: skip

    def found(self, ordered: Sequence[int]) -> list[int]:
        """The places of the calls that have one of these numbers, which ascend."""
        begin, end = bisect_left(ordered, self.first), bisect_right(ordered, self.last)
        if begin == end:
            return []
        numbers = self.columns.numbers
        places = ((number, bisect_left(numbers, number)) for number in ordered[begin:end])
        return [at for number, at in places if numbers[at] == number]

    def places(self) -> list[tuple[int, int, int, int]]:
        """Of each template that occurs, in the order of the first places: its number, the places of its first and its
        last call, and how many there are."""
        return self._places

    def firsts(self) -> list[Call]:
        """The first call of each of `places`."""
        return self._firsts

    @cached_property
    def _firsts(self) -> list[Call]:
        return [self.call(first) for _, first, _, _ in self._places]

    @cached_property
    def _places(self) -> list[tuple[int, int, int, int]]:
        which, places = self.columns.which, range(len(self))
        count, last = Counter(which), dict(zip(which, places, strict=True))
        first = dict(zip(reversed(which), reversed(places), strict=True))
        found = [(template, first[template], last[template], count[template]) for template in count]
        return sorted(found, key=itemgetter(1))

    def part(self, begin: int, end: int) -> Repeats:
        """The calls from one place to before another."""
        of = self.columns
        first, last = of.starts[begin], of.starts[end]
        starts = of.starts[begin : end + 1]
        columns = Columns(
            of.which[begin:end],
            of.numbers[begin:end],
            of.enter_ns[begin:end],
            of.leave_ns[begin:end],
            array("q", [start - first for start in starts]) if first else starts,
            of.parameters[first:last],
        )
        return Repeats(self.templates, columns, timed(self.gpu_ns, begin, end))

    def without(self, places: Sequence[int]) -> Iterator[Call | Repeats]:
        """All calls, those at these places, which ascend, by themselves."""
        begin = 0
        for at in [*places, len(self)]:
            if at - begin >= SHORTEST:
                yield self if at - begin == len(self) else self.part(begin, at)
            else:
                yield from map(self.call, range(begin, at))
            if at < len(self):
                yield self.call(at)
            begin = at + 1


def timed(gpu_ns: dict[int, int], begin: int, end: int) -> dict[int, int]:
    """Those from one place to before another, counted from there, in as many steps: a window may be cut often."""
    return {at - begin: gpu_ns[at] for at in range(begin, end) if at in gpu_ns} if gpu_ns else {}


class BlockSource(Protocol):
    """What gives objects and blocks: a `SnapshotReader`."""

    def objects_and_blocks(self, kind: str) -> Iterator[Any]:
        """In their order."""
        ...


class Calls(Sequence[Call]):
    """Calls in their order. parts: those that are by themselves, and those that repeat."""

    def __init__(self, parts: Iterable[Call | Repeats]) -> None:
        self.parts = list(parts)
        sizes = (len(part) if isinstance(part, Repeats) else 1 for part in self.parts)
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Call: ...
    @overload
    def __getitem__(self, place: slice) -> list[Call]: ...
    def __getitem__(self, place: int | slice) -> Call | list[Call]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        number = bisect_right(self._ends, at)
        part = self.parts[number]
        return part if isinstance(part, Call) else part.call(at - (self._ends[number] - len(part)))

    def __iter__(self) -> Iterator[Call]:
        for part in self.parts:
            if isinstance(part, Call):
                yield part
            else:
                yield from part.calls()

    def kinds(self) -> Iterator[Call]:
        """Every call by itself, and of those that repeat the first of each template: all there is to know but for
        numbers, times and parameters."""
        for part in self.parts:
            if isinstance(part, Call):
                yield part
            else:
                yield from part.firsts()

    def chosen(self, numbers: Collection[int]) -> Iterator[Call]:
        """Every call by itself, and of those that repeat the ones of these numbers."""
        ordered = sorted(numbers)
        for part in self.parts:
            if isinstance(part, Call):
                yield part
                continue
            yield from map(part.call, part.found(ordered))

    def apart(self, numbers: Collection[int]) -> Calls:
        """The same calls, those of these numbers by themselves."""
        ordered = sorted(numbers)
        parts: list[Call | Repeats] = []
        for part in self.parts:
            if isinstance(part, Call):
                parts.append(part)
                continue
            parts += part.without(part.found(ordered))
        return Calls(parts)


def read_calls(source: BlockSource) -> Iterator[Call | Repeats]:
    """The calls of a snapshot, in their order. Raises FormatError for one that does not fit."""
    known: dict[_Key, Call] = {}
    building = _Building()
    for value in _objects(source):
        if isinstance(value, Repeats):
            yield from building.done()
            building = _Building()
            yield value
            continue
        key = _key(value)
        template = known.get(key) if key is not None else None
        if key is None or template is None:
            call = from_wire(Call, value)
            if key is None or not _repeats(call):
                yield from building.done()
                building = _Building()
                yield call
                continue
            if len(known) >= _MAXIMUM_TEMPLATES:
                known.clear()
            template = known[key] = call
        if not building.takes(template, value):
            yield from building.done()
            building = _Building()
            if not building.takes(template, value):
                yield from_wire(Call, value)
    yield from building.done()


def _objects(source: BlockSource) -> Iterator[Any]:
    """The objects of calls, and of blocks the calls that repeat."""
    for value in source.objects_and_blocks("call"):
        if isinstance(value, dict):
            yield value
        else:
            from replay.snapshot.repeated_blocks import repeats_of

            yield from repeats_of(value, lambda one: _key(one) is not None and _repeats(from_wire(Call, one)))


class _Building:
    """Calls that repeat, as far as they were read."""

    def __init__(self) -> None:
        self._templates: list[Call] = []
        self._columns = Columns(array("I"), array("q"), array("q"), array("q"), array("q", [0]), bytearray())
        self._gpu_ns: dict[int, int] = {}
        self._number_of: dict[int, int] = {}  # of a template, by its id
        self._last = -1

    def takes(self, template: Call, value: dict[str, Any]) -> bool:
        """Add a call like a template; False where it does not come after the others, is not sound, or they are many."""
        columns, number = self._columns, value.get("number")
        enter_ns, leave_ns, gpu_ns = value.get("enter_ns", 0), value.get("leave_ns", 0), value.get("gpu_ns")
        for word in (number, enter_ns, leave_ns):
            if type(word) is not int or not 0 <= word <= _LARGEST:
                return False
        full = len(columns.which) >= _LONGEST or len(columns.parameters) > _LARGEST_PARAMETERS
        if full or number <= self._last or not (gpu_ns is None or type(gpu_ns) is int):  # type: ignore[operator]
            return False
        which = self._number_of.get(id(template))
        if which is None:
            which = self._number_of[id(template)] = len(self._templates)
            self._templates.append(template)
        if gpu_ns is not None:
            self._gpu_ns[len(columns.which)] = gpu_ns
        columns.which.append(which)
        columns.numbers.append(number)  # type: ignore[arg-type]
        columns.enter_ns.append(enter_ns)
        columns.leave_ns.append(leave_ns)
        columns.parameters.extend(value.get("inputs", {}).get(PARAMETERS, b""))
        columns.starts.append(len(columns.parameters))
        self._last = number  # type: ignore[assignment]
        return True

    def done(self) -> Iterator[Call | Repeats]:
        if not self._columns.which:
            return
        repeats = Repeats(self._templates, self._columns, self._gpu_ns)
        if len(repeats) >= SHORTEST:
            yield repeats
        else:
            yield from repeats.calls()


CONSTANT_INPUTS = (PARAMETER_LAYOUT, part_key("config", 0), CONFIG_ATTRIBUTES)


def _key(value: Any) -> _Key | None:
    """What calls that are alike have in common; None for one that cannot repeat."""
    if not isinstance(value, dict) or not _may_repeat(str(value.get("function"))) or value.get("result") != 0:
        return None
    inputs = value.get("inputs", {})
    if any(map(value.get, ("outputs", "kernels", "in_capture", "by_capture"))) or not isinstance(
        inputs, dict
    ):
        return None
    constants = tuple(map(inputs.get, CONSTANT_INPUTS))
    parameters = inputs.get(PARAMETERS)
    if len(inputs) != (parameters is not None) + len(constants) - constants.count(None):
        return None
    size = len(parameters) if isinstance(parameters, bytes) else -1
    key = (value["function"], value.get("section"), value.get("thread"), value.get("per_thread"),
           value.get("arguments"), constants, size)  # fmt: skip
    try:
        hash(key)
    except TypeError:
        return None
    return key if parameters is None or size >= 0 else None


def _repeats(call: Call) -> bool:
    """Whether a call that `_key` let pass may be a template: the one place for its parameters is known."""
    inputs = [call.inputs.get(name) for name in (PARAMETERS, *CONSTANT_INPUTS)]
    described = (PARAMETERS in call.inputs) == (PARAMETER_LAYOUT in call.inputs)
    return described and all(value is None or isinstance(value, bytes) for value in inputs)


@lru_cache(maxsize=1024)  # a file may name any number of functions
def _may_repeat(function: str) -> bool:
    """Whether calls of a function may repeat: launches of kernels, and what orders work by nothing but handles."""
    row = by_symbol().get(function)
    if row is None:
        return False
    if row.unsupported or row.keep != Keep.WINDOW or not row.is_replayed or row.may_fail or row.polls:
        return False
    if row.effect == Effect.LAUNCH:
        return True
    orders = (
        row.effect == Effect.NONE and (row.queues or row.waits) and not (row.custom or row.hint or row.sets)
    )
    plain = all(parameter.role in (Role.VALUE, Role.HANDLE) for parameter in row.parameters)
    return orders and plain and row.work == Work.NONE
