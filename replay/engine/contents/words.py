"""Words inside memory that mean something else in another process: addresses, and handles of texture and surface
objects. Pure functions over bytes."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError
from replay.snapshot.schema import Range

_OBJECT_TYPES = {1: "CUtexObject", 2: "CUsurfObject"}  # schema.Census


@dataclass(frozen=True)
class Word:
    """A captured address: where it stands, and what it points to. high_offset: where its high half stands, if `offset`
    is the place of the low half alone."""

    offset: int
    target: int  # captured address
    high_offset: int | None = None


@dataclass(frozen=True)
class HandleWord:
    """The captured handle of a texture or surface object, and where it stands."""

    offset: int
    c_type: str
    captured: int


def unpack_words(words: bytes, ranges: dict[int, Range], site: str) -> list[Word]:
    """The words of one Census. Raises EngineError for targets that do not exist."""
    if len(words) % 24:
        raise EngineError(f"the pointer census of {site} has a broken length")
    found = []
    for offset, inner, target, _ in struct.iter_unpack("<QQII", words):
        range_ = ranges.get(target)
        if range_ is None or inner > range_.size_bytes:
            raise EngineError(f"the pointer census of {site} points outside the captured memory")
        found.append(Word(offset, range_.address + inner))
    return found


def unpack_handles(words: bytes, site: str) -> list[HandleWord]:
    """The handles of one Census. Raises EngineError for words of no known sort."""
    if len(words) % 24:
        raise EngineError(f"the census of {site} has a broken length")
    found = []
    for offset, handle, _, what in struct.iter_unpack("<QQII", words):
        if what not in _OBJECT_TYPES:
            raise EngineError(f"the census of {site} has handles of an unknown sort")
        found.append(HandleWord(offset, _OBJECT_TYPES[what], handle))
    return found


def with_live_handles(
    expected: bytes, actual: bytes, handles: Mapping[int, Collection[int]]
) -> tuple[bytes, int]:
    """`expected` with every aligned word that is the captured handle of an object replaced where `actual` has a live
    handle of the same object, and how many."""
    if not handles or len(expected) != len(actual) or len(expected) < 8:
        return expected, 0
    import numpy

    words = numpy.frombuffer(expected, "<u8", len(expected) // 8).copy()
    here = numpy.frombuffer(actual, "<u8", len(actual) // 8)
    known = numpy.array(sorted(handles), "<u8")
    count = 0
    for place in numpy.flatnonzero((words != here) & numpy.isin(words, known)).tolist():
        if int(here[place]) in handles[int(words[place])]:
            words[place] = here[place]
            count += 1
    return (words.tobytes() + expected[8 * len(words) :], count) if count else (expected, 0)


def patch(data: bytearray, start: int, words: Iterable[Word], addresses: AddressMap) -> None:
    """Replace captured addresses in `data`, which begins at offset `start` of its site, by live ones.

    A word is replaced only where it still holds the captured address, and only if it lies wholly in `data`.
    """
    for word in words:
        at = word.offset - start
        if word.high_offset is not None:
            _patch_halves(data, at, word.high_offset - start, word.target, addresses)
            continue
        if at < 0 or at + 8 > len(data):
            continue
        if int.from_bytes(data[at : at + 8], "little") == word.target:
            live = addresses.find(word.target)
            if live is not None:
                data[at : at + 8] = live.to_bytes(8, "little")


def _patch_halves(data: bytearray, low: int, high: int, target: int, addresses: AddressMap) -> None:
    live = addresses.find(target)
    if live is None or min(low, high) < 0 or max(low, high) + 4 > len(data):
        return
    if int.from_bytes(data[low : low + 4] + data[high : high + 4], "little") == target:
        data[low : low + 4], data[high : high + 4] = (
            live.to_bytes(8, "little")[:4],
            live.to_bytes(8, "little")[4:],
        )


def where_it_stands(expected: bytes, actual: bytes, captured: bytes, live: bytes) -> bytes:
    """`expected` with `live` for `captured` wherever the actual bytes have it, aligned or not."""
    at = expected.find(captured)
    while at >= 0:
        if actual[at : at + 8] == live:
            expected = expected[:at] + live + expected[at + 8 :]
        at = expected.find(captured, at + 1)
    return expected


def where_it_agrees(expected: bytes, guess: bytes, actual: bytes) -> tuple[bytes, int]:
    """`expected` with the aligned words of `guess` that are the actual ones, and how many these are."""
    if guess == expected:
        return expected, 0
    import numpy

    count = len(expected) // 8
    words, guessed, found = (numpy.frombuffer(data, "<u8", count) for data in (expected, guess, actual))
    agree = (guessed == found) & (words != found)
    return numpy.where(agree, found, words).tobytes() + expected[8 * count :], int(agree.sum())


def spans_mask(spans: bytes, size_bytes: int) -> Any:
    """A boolean numpy array: which of so many bytes lie in the stretches (pairs of u64: from, how many)."""
    import numpy

    mask = numpy.zeros(size_bytes, bool)
    for begin, count in struct.iter_unpack("<QQ", spans[: len(spans) // 16 * 16]):
        mask[min(begin, size_bytes) : min(begin + count, size_bytes)] = True
    return mask
