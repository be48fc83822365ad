"""Calls that do what an earlier one of the window did, for the first pass: counted and looked through as columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replay.api.parts import part_key
from replay.api.vocabulary import Function
from replay.pack.contents.allocations import Allocations
from replay.pack.survey.findings import KernelDraft, Survey
from replay.pack.survey.handles import Key, handles_in
from replay.pack.survey.state import Made, Objects
from replay.raw.columns import CLASSES, U64, Places, Rows, attached, touched_arguments
from replay.raw.events import RawCall
from replay.records import dataclass

FEW_WORDS = 64  # that are looked up one by one sooner than as an array


@dataclass(frozen=True)
class Learned:
    """What calls of a class do. context: that was current in their thread. refers_to: the handles they are given, and
    the objects of these. kernel: of a launch; unnamed: its name is not known."""

    function: Function
    thread: int
    context: int
    refers_to: tuple[tuple[Key, Made | None], ...]
    kernel: KernelDraft | None
    unnamed: bool

    def holds(self, objects: Objects) -> bool:
        """Whether its handles and its thread's context still stand for the same."""
        return objects.current_context(self.thread) == self.context and all(
            objects.find(*key) is made for key, made in self.refers_to
        )


class Repeated:
    """The classes of the present window."""

    def __init__(self, objects: Objects, allocations: Allocations) -> None:
        self._objects = objects
        self._allocations = allocations
        self._under_way: dict[int, tuple[int, Learned]] = {}
        self.forget()

    def forget(self) -> None:
        """A new window: what a call does is said again."""
        self._learned: dict[int, Learned] = {}
        self._under_way.clear()
        # Of each class the version of the objects for which it is known to hold; -1: never
        self._holds_at = np.full(CLASSES, -1, np.int64)
        self._launches = np.zeros(CLASSES, bool)
        self._words: dict[int, list[int]] = {}
        self._generation = -1

    def begins(self, call: RawCall, kernel: KernelDraft | None, unnamed: bool) -> None:
        """A call of a class begins that was looked at."""
        context = self._objects.current_context(call.thread)
        keys = [*handles_in(call), ("CUcontext", context)]
        refers_to = tuple((key, self._objects.find(*key)) for key in keys)
        learned = Learned(call.function, call.thread, context, refers_to, kernel, unnamed)
        self._under_way[call.number] = call.of_class, learned

    def ends(self, call: RawCall) -> None:
        """It was answered."""
        of_class, learned = self._under_way.pop(call.number, (-1, None))
        if learned is not None and call.result == 0 and learned.holds(self._objects):
            self._learned[of_class] = learned
            self._launches[of_class] = learned.kernel is not None
            self._holds_at[of_class] = self._objects.version

    def known(self, rows: Rows) -> int:
        """How many of them, from the first one on, do what is known."""
        if rows.block.generation != self._generation:
            self.forget()
            self._generation = rows.block.generation
        classes, version = rows.classes, self._objects.version
        doubted = self._holds_at[classes] != version
        if not doubted.any():
            return len(rows)
        for of_class in np.unique(classes[doubted]).tolist():
            learned = self._learned.get(of_class)
            if learned is not None and learned.holds(self._objects):
                self._holds_at[of_class] = version
        doubted = self._holds_at[classes] != version
        return int(doubted.argmax()) if doubted.any() else len(rows)

    def first_launch(self, rows: Rows) -> int:
        """The place of the first launch; their number where there is none."""
        launches = self._launches[rows.classes]
        return int(launches.argmax()) if launches.any() else len(rows)

    def count(self, rows: Rows, survey: Survey, *, launches_words: set[int] | None) -> None:
        """Calls that are `known`. launches_words: receives all words that launches may have as addresses."""
        survey.window_calls += len(rows)
        counts = np.bincount(rows.classes)
        for of_class in np.flatnonzero(counts).tolist():
            learned, count = self._learned[of_class], int(counts[of_class])
            survey.functions[learned.function.symbol] += count
            if learned.kernel is not None:
                survey.launches += count
                survey.unnamed_launches += count if learned.unnamed else 0
                learned.kernel.launches += count
                learned.kernel.taken += count
        self._touch(rows, launches_words)

    def _touch(self, rows: Rows, launches_words: set[int] | None) -> None:
        """The memory that they name is touched, in their order."""
        spans = self._allocations.untouched_spans() if len(rows) * 4 > FEW_WORDS else None
        if spans is not None and not len(spans[0]) and launches_words is None:
            return
        found: list[tuple[Places, U64]] = []
        classes = rows.classes
        for of_class in np.unique(classes).tolist():
            places = np.flatnonzero(classes == of_class)
            positions = self._words_of(of_class, rows[places])
            if not positions:
                continue
            words = rows[places].words(positions)
            if launches_words is not None and self._launches[of_class]:
                launches_words.update(np.unique(words).tolist())
            near = np.ones(words.shape, bool) if spans is None else _inside(words, *spans)
            found.append((np.broadcast_to(places[:, None], words.shape)[near], words[near]))
        self._touch_in_order(found)

    def _words_of(self, of_class: int, rows: Rows) -> list[int]:
        if of_class not in self._words:
            self._words[of_class] = _words_that_may_be_addresses(rows, self._learned[of_class])
        return self._words[of_class]

    def _touch_in_order(self, found: list[tuple[Places, U64]]) -> None:
        """found: of each class the rows and their words, in the order of the words of a row."""
        if not found:
            return
        places = np.concatenate([places for places, _ in found])
        words = np.concatenate([words for _, words in found])[np.argsort(places, kind="stable")]
        _, first = np.unique(words, return_index=True)
        for word in words[np.sort(first)].tolist():
            self._allocations.touch(self._allocations.find(word))


def _inside(words: U64, starts: U64, ends: U64) -> NDArray[np.bool_]:
    if not len(starts):
        return np.zeros(words.shape, bool)
    at = np.searchsorted(starts, words, side="right") - 1
    found: NDArray[np.bool_] = (at >= 0) & (words < ends[at])
    return found


def _words_that_may_be_addresses(rows: Rows, learned: Learned) -> list[int]:
    """Positions among the words after the header of each ENTER."""
    function = learned.function
    if learned.kernel is None:
        return touched_arguments(function)
    buffers = {
        item.key: range(item.place, item.place + item.length // 8)
        for item in attached(rows[:1].words()[0], len(function.parameters), function)
    }
    buffer = buffers.get(part_key("kernelParams", 0)) or buffers.get(part_key("extra", 0))
    return [*buffer] if buffer is not None else []
