"""Words inside captured bytes that mean something else in another process: addresses, handles of texture and surface
objects, tensor maps. Pure functions over bytes."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from replay.engine.census import ChosenWord, Word
from replay.engine.placing.addresses import AddressMap


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


def _places(word: Word | ChosenWord, start: int, size_bytes: int) -> tuple[slice, ...]:
    """Where a word is in a piece of its site that begins at `start`: one stretch, or two halves; none when not all of
    it is there."""
    offset, high = word.offset - start, word.high_offset
    if high is None:
        return (slice(offset, offset + 8),) if 0 <= offset <= size_bytes - 8 else ()
    high -= start
    inside = min(offset, high) >= 0 and max(offset, high) + 4 <= size_bytes
    return (slice(offset, offset + 4), slice(high, high + 4)) if inside else ()


def _put(data: bytearray, places: Iterable[slice], value: int) -> None:
    new, at = value.to_bytes(8, "little"), 0
    for place in places:
        end = at + place.stop - place.start
        data[place], at = new[at:end], end


def patch_words(data: bytearray, start: int, words: Iterable[Word], addresses: AddressMap) -> None:
    """Replace captured addresses in `data`, which begins at offset `start` of its site, by live ones.

    A word is replaced only where it still holds the captured address, and only if it lies wholly in `data`.
    """
    last = len(data) - 8
    for word in words:
        at = word.offset - start
        if word.high_offset is not None:
            places = _places(word, start, len(data))
            held = b"".join([data[place] for place in places])
            live = addresses.find(word.target) if int.from_bytes(held, "little") == word.target else None
            if live is not None:
                _put(data, places, live)
        elif 0 <= at <= last and int.from_bytes(data[at : at + 8], "little") == word.target:
            live = addresses.find(word.target)
            if live is not None:
                data[at : at + 8] = live.to_bytes(8, "little")


def patch_columns(data: Any, places: Any, targets: Any, addresses: AddressMap) -> None:
    """As `patch_words`, of numpy columns: the places of words in the bytes `data`, and what each points to. No two
    words share a byte."""
    import numpy

    at = places[:, None] + numpy.arange(8)
    held = data[at].view("<u8").reshape(-1) if len(places) else targets
    live, known = addresses.find_all(targets)
    change = known & (held == targets) & (live != targets)
    data[at[change]] = live[change].astype("<u8").view("u1").reshape(-1, 8)


def patch_lookalikes(data: bytes, addresses: AddressMap) -> tuple[bytes, int]:
    """`data` with every aligned word that looks like a pointer into moved memory made to follow it, and how many.

    For bytes of which no census exists. A number may look like a pointer, so this is a guess that must be told.
    """
    moved = addresses.moved()
    if not moved or len(data) < 8:
        return data, 0
    import numpy

    captured = numpy.frombuffer(data, "<u8", len(data) // 8)
    words = captured.copy()
    changed = numpy.zeros(len(words), dtype=bool)
    for start, end, live in moved:
        inside = (captured >= start) & (captured < end) & ~changed
        if inside.any():
            words[inside] += numpy.uint64((live - start) % 2**64)
            changed |= inside
    count = int(changed.sum())
    return (words.tobytes() + data[len(words) * 8 :], count) if count else (data, 0)


def patch_chosen(
    data: bytearray, captured: bytes, words: Iterable[ChosenWord], addresses: AddressMap
) -> None:
    """Put the chosen words of `captured` into `data`, which may have been patched by its looks. Words that do not
    lie in it do nothing."""
    for word in words:
        places = _places(word, 0, min(len(data), len(captured)))
        live = None if word.target is None else addresses.find(word.target)
        if live is None:
            for place in places:
                data[place] = captured[place]
        else:
            _put(data, places, live)


def points_to_unplaced(data: bytes, addresses: AddressMap) -> int:
    """How many aligned words of `data` look like pointers to memory whose place is not known yet."""
    unknown = addresses.unplaced()
    if not unknown or len(data) < 8:
        return 0
    import numpy

    words = numpy.frombuffer(data, "<u8", len(data) // 8)
    return sum(int(((words >= start) & (words < start + size)).sum()) for start, size in unknown)


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
