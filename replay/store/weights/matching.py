"""Finds stretches of captured memory that are byte-equal to stretches of files of weights.

A tensor lies somewhere in an allocation, whole, in slices, or joined with others. So the file is marked: every
`step` bytes of each tensor, eight bytes are remembered with their place. Where memory has eight such bytes, both are
compared from there on, back and forth. Most chunks go on where the last one ended, and are only compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from replay.store.model import Part
from replay.store.weights.files import WeightsFile

SHORTEST_BYTES = 4096  # of a stretch: a shorter one saves little
_ALIGNMENT_BYTES = 16  # of tensors in memory, at least
_MOST_MARKS = 2 << 20
_TABLE_BITS = 22
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_TRIED = 64  # places of a chunk, at most: marks of regular contents are met everywhere


class Weights:
    """All files of --weights. Not thread safe. Raises FormatError, FileError."""

    def __init__(self, files: Sequence[WeightsFile]) -> None:
        self.files = files
        self._maps = [np.frombuffer(file.mapped, np.uint8) for file in files]
        tensors = [
            (number, at, length)
            for number, file in enumerate(files)
            for at, length in file.tensors()
            if length >= SHORTEST_BYTES
        ]
        step = SHORTEST_BYTES
        while sum(length // step for _, _, length in tensors) > _MOST_MARKS:
            step *= 2
        none = np.empty(0, np.uint64)
        places = [np.arange(at, at + length - 7, step, dtype=np.uint64) for _, at, length in tensors]
        numbers = [number for number, _, _ in tensors]
        words = [self._words(number, offsets) for number, offsets in zip(numbers, places, strict=True)]
        # Of equal words the first place: a wrong one costs no more than a comparison
        self._words_of_marks, kept = np.unique(np.concatenate([none, *words]), return_index=True)
        self._offsets = np.concatenate([none, *places])[kept]
        self._files_of = np.repeat(np.array(numbers, np.int64), list(map(len, places)))[kept]
        plain = (self._words_of_marks == 0) | (self._words_of_marks == ~np.uint64(0))
        self._words_of_marks = self._words_of_marks[~plain]
        self._offsets, self._files_of = self._offsets[~plain], self._files_of[~plain]
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._table[_slots(self._words_of_marks)] = True
        self._next = (0, 0)  # file and offset where the last stretch ended

    def parts(self, data: bytes | memoryview) -> list[Part]:
        """A chunk as stretches of the files, and what is between them. Without any: one literal part."""
        memory = np.frombuffer(data, np.uint8)
        parts: list[Part] = []
        at = 0
        if self.files:
            at = self._stretch(memory, 0, *self._next, parts)
        tried = 0
        for place in self._marked(memory[: len(memory) // 8 * 8], at) if at < len(memory) else ():
            if place >= at and tried < _TRIED:
                tried += 1
                number, offset = self._mark(memory, place)
                back = _equal_before(memory[at:place], self._maps[number][:offset])
                at = self._stretch(memory, at, number, offset - back, parts, place - back)
        if at < len(memory):
            parts.append(Part(len(memory) - at, memory[at:].tobytes()))
        return parts

    def _stretch(
        self, memory: NDArray[np.uint8], at: int, number: int, offset: int, parts: list[Part], place: int = -1
    ) -> int:
        """Add a stretch that begins at `place`, if it is long enough, and the literal before it. Where it ends."""
        place = at if place < 0 else place
        length = _equal(memory[place:], self._maps[number][offset:])
        whole = length == len(memory)
        if length < SHORTEST_BYTES and not whole:
            return at
        if place > at:
            parts.append(Part(place - at, memory[at:place].tobytes()))
        parts.append(Part(length, weights=self.files[number].name.digest, offset=offset))
        self._next = (number, offset + length)
        return place + length

    def _marked(self, memory: NDArray[np.uint8], begin: int) -> Iterable[int]:
        """Offsets in a chunk, from `begin` on, where eight bytes are marked ones."""
        words = memory.view(np.uint64)[:: _ALIGNMENT_BYTES // 8]
        hits = np.flatnonzero(self._table[_slots(words)])
        known = hits[np.isin(words[hits], self._words_of_marks)] * _ALIGNMENT_BYTES
        return map(int, known[known >= begin])

    def _mark(self, memory: NDArray[np.uint8], place: int) -> tuple[int, int]:
        word = memory[place : place + 8].view(np.uint64)[0]
        mark = int(np.searchsorted(self._words_of_marks, word))
        return int(self._files_of[mark]), int(self._offsets[mark])

    def _words(self, number: int, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        places = offsets[:, None] + np.arange(8, dtype=np.uint64)
        data: bytes = self._maps[number][places].tobytes()
        return np.frombuffer(data, np.uint64)


def _slots(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    slots: NDArray[np.uint64] = words * _MULTIPLIER >> np.uint64(64 - _TABLE_BITS)
    return slots


def _equal(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    """How many bytes are equal from the beginning on."""
    length = min(len(one), len(other))
    different = one[:length] != other[:length]
    first = int(different.argmax()) if length else 0
    return first if length and different[first] else length


def _equal_before(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    """How many bytes are equal, backwards from the ends."""
    return _equal(one[::-1], other[::-1])
