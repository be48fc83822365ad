"""Writes the calls of a window: thousands in one object (`container/blocks.py`), or one by one where they are few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.api.parts import parameter_buffer
from replay.api.vocabulary import Effect
from replay.pack.contents.census import Spool, Targets
from replay.raw.columns import CLASSES, U64, Attached, Block, Rows, attached
from replay.raw.events import RawCall
from replay.records import dataclass
from replay.snapshot.container.blocks import ARGUMENTS, MAX_CALLS, OTHER
from replay.snapshot.container.blocks import Block as CallBlock
from replay.snapshot.container.columns import pack_column
from replay.snapshot.container.writer import SnapshotWriter

FEWEST_CALLS = 4096  # of a window whose calls are kept in blocks: readers of earlier versions know none
BLOCK_BYTES = 4 << 20  # of raw records
OTHERS_IN_BLOCK = 1024
_RAW_CALL_BYTES = 512  # what one that is kept whole counts as

Templates = dict[int, RawCall]  # by the class of calls in a raw block


@dataclass
class _Group:
    """Rows of one raw block whose classes have the same templates, and where among the calls each run of them is."""

    block: Block
    templates: Templates
    places: list[NDArray[np.int64]] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)  # the first one's place, how many

    def rows(self) -> Rows:
        return Rows(self.block, np.concatenate(self.places))

    def positions(self) -> NDArray[np.int64]:
        begins, counts = np.array(self.runs, np.int64).T
        ends = np.cumsum(counts)
        found: NDArray[np.int64] = np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts)
        return found


@dataclass
class _Part:
    """The calls of a template that come from one raw block."""

    positions: NDArray[np.int64]
    rows: Rows


class CallBlocks:
    """The calls of one window, in their order. converted: the map of a call in the file.

    count: of the calls. words: of the census of calls in blocks, so far.
    """

    def __init__(
        self,
        writer: SnapshotWriter,
        converted: Callable[[RawCall], dict[str, Any]],
        targets: Targets,
        spool: Spool,
        gpu_times_ns: dict[int, int],
        count: int,
    ) -> None:
        self._writer = writer
        self._converted = converted
        self._targets = targets
        self._spool = spool
        self._gpu_times_ns = gpu_times_ns
        self._in_blocks = count >= FEWEST_CALLS
        self.words = 0
        self._begin()

    def _begin(self) -> None:
        self._groups: list[_Group] = []
        self._others: list[dict[str, Any]] = []
        self._order_of_others: list[int] = []
        self._count = self._bytes = 0

    def put(self, call: RawCall) -> None:
        """Append a call that is not like others."""
        value = self._converted(call)
        if call.function.effect == Effect.LAUNCH:
            buffer = parameter_buffer(call.inputs)
            if buffer is not None and buffer.data is not None:
                self._spool.add("call", call.number, self._targets.find_few(buffer.data, call.number))
        if not self._in_blocks and not self._count:
            self._writer.write("call", value, flat=True)
            return
        self._order_of_others.append(self._count)
        self._others.append(value)
        self._count += 1
        self._bytes += _RAW_CALL_BYTES
        if len(self._others) >= OTHERS_IN_BLOCK:
            self.flush()

    def put_rows(self, rows: Rows, templates: Templates) -> None:
        """Append calls of classes. templates: a call of each."""
        while len(rows):
            room = MAX_CALLS - self._count
            self._append(rows[:room], templates)
            rows = rows[room:]
            if self._count == MAX_CALLS or self._bytes >= BLOCK_BYTES:
                self.flush()

    def _append(self, rows: Rows, templates: Templates) -> None:
        last = self._groups[-1] if self._groups else None
        if last is None or last.block is not rows.block or last.templates is not templates:
            last = _Group(rows.block, templates)
            self._groups.append(last)
        last.places.append(rows.places)
        last.runs.append((self._count, len(rows)))
        self._count += len(rows)
        self._bytes += rows.bytes()

    def flush(self) -> None:
        """Write what was appended."""
        if not self._count:
            return
        value = self._value()
        if self._in_blocks:
            self._writer.write("calls", value, flat=True)
        else:
            block = CallBlock(value)
            for call in block.calls():
                self._writer.write("call", call, flat=True)
        self._begin()

    def _value(self) -> dict[str, Any]:
        order = np.full(self._count, OTHER, "<u2")
        numbers, enter_ns, leave_ns = (np.empty(self._count, np.uint64) for _ in range(3))
        made: dict[int, tuple[int, RawCall, list[_Part]]] = {}  # by id() of the call: number, call, parts
        for group in self._groups:
            rows, positions = group.rows(), group.positions()
            numbers[positions], enter_ns[positions], leave_ns[positions] = (
                rows.numbers, rows.enter_ns, rows.leave_ns,
            )  # fmt: skip
            classes = rows.classes
            number_of = np.zeros(CLASSES, "<u2")
            by_class = np.argsort(classes, kind="stable")
            present, starts = np.unique(classes[by_class], return_index=True)
            for of_class, chosen in zip(present.tolist(), np.split(by_class, starts[1:]), strict=True):
                call = group.templates[of_class]
                number, _, parts = made.setdefault(id(call), (len(made), call, []))
                number_of[of_class] = number
                parts.append(_Part(positions[chosen], rows[chosen]))
            order[positions] = number_of[classes]
        with_template = np.flatnonzero(order != OTHER)
        timed = (
            np.flatnonzero(np.isin(numbers[with_template], [*self._gpu_times_ns]))
            if self._gpu_times_ns
            else ()
        )
        columns = {"numbers": numbers, "enter_ns": enter_ns, "leave_ns": leave_ns}
        drafts = [self._template(call, parts) for _, call, parts in made.values()]
        targets = sorted({target for draft in drafts for target in draft.targets})
        return {
            "order": order.tobytes(),
            **{
                name: pack_column(words[with_template]) if len(with_template) else b""
                for name, words in columns.items()
            },
            "templates": [draft.value for draft in drafts],
            "varying": [draft.varying for draft in drafts],
            "pointers": [draft.pointers for draft in drafts],
            "bases": [(target, self._targets.base_of(target)) for target in targets],
            "gpu_ns": [
                (row, self._gpu_times_ns[int(numbers[with_template[row]])]) for row in map(int, timed)
            ],
            "others": self._others,
        }  # fmt: skip

    def _template(self, call: RawCall, parts: list[_Part]) -> _Template:
        draft = _Template(self._converted(call))
        for name in ("number", "enter_ns", "leave_ns"):
            del draft.value[name]
        draft.value.pop("gpu_ns", None)
        entered = np.concatenate([part.rows.words() for part in parts])
        draft.take((ARGUMENTS, ""), entered[:, : len(call.arguments)], 0)
        given = {item.key: item for item in attached(entered[0], len(call.arguments), call.function)}
        draft.take_attached("inputs", entered, given)
        answered = np.concatenate([part.rows.words(answers=True) for part in parts])
        draft.take_attached(
            "outputs", answered, {item.key: item for item in attached(answered[0], 1, call.function)}
        )
        if call.function.effect == Effect.LAUNCH and (buffer := parameter_buffer(given)) is not None:
            numbers = np.concatenate([part.rows.numbers for part in parts])
            self._census(draft, buffer, entered, numbers)
        return draft

    def _census(self, draft: _Template, buffer: Attached, entered: U64, numbers: U64) -> None:
        values = entered[:, buffer.place : buffer.place + buffer.length // 8]
        if not (self._in_blocks and self._targets.only_pointers):
            for line, number in zip(values, numbers.tolist(), strict=True):
                self._spool.add("call", number, self._targets.find_few(line.tobytes(), number))
            return
        ranges = self._targets.ranges_of(values, numbers)
        for word in np.flatnonzero(ranges.any(axis=0)).tolist():
            draft.pointers.append((buffer.key, word, pack_column(ranges[:, word].astype(np.uint64))))
        draft.targets = set(np.unique(ranges).tolist()) - {0}
        self.words += int(np.count_nonzero(ranges))


@dataclass
class _Template:
    """A template under way. targets: the ranges that its pointers point into."""

    value: dict[str, Any]
    varying: list[tuple[str, str, int, bytes]] = field(default_factory=list)
    pointers: list[tuple[str, int, bytes]] = field(default_factory=list)
    targets: set[int] = field(default_factory=set)

    def take(self, place: tuple[str, str], words: U64, length: int) -> None:
        """Its words at a place, a line for each call. length: in bytes, of an attachment."""
        side, key = place
        if side == ARGUMENTS:
            self.value[ARGUMENTS] = words[0].tolist()
        else:
            self.value[side][key] = words[0].tobytes()[:length]
        for word in np.flatnonzero((words != words[0]).any(axis=0)).tolist():
            self.varying.append((side, key, word, pack_column(words[:, word])))

    def take_attached(self, side: str, words: U64, found: dict[str, Attached]) -> None:
        """The same for all that is attached to its records."""
        for item in found.values():
            self.take((side, item.key), words[:, item.place : item.place - (-item.length // 8)], item.length)
