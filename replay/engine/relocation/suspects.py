"""Words of a snapshot that may be why moved memory gives other outputs: pointers that nobody knows of, and numbers that
were taken for pointers. Pure: reads the snapshot, needs no driver."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replay.engine.relocation.known import Known, Site, inside
from replay.inspection.pieces import describe, read_chunk
from replay.results.run.placement import MovedWord, Placement, SuspectWord
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import (
    CHUNK_BYTES,
    ZERO_DIGEST,
)

SEARCH_S = 20.0  # at most, for missed pointers in memory
MAXIMUM_SUSPECTS = 64
SMALL_FACTORS = 64  # times a distance by which an output may have moved
_EDGE_BYTES = 7  # read again before each piece, for words across its border
Form = Literal["word", "unaligned", "halves"]
_MASK = {8: 2**64 - 1, 4: 2**32 - 1}


# Kinds of sites, as `shift.change_census` knows them, by what `SuspectWord.place` calls them
_KINDS = {"parameters": "call", "memory": "range", "host": "host", "graph": "graph"}


def kind_of(word: SuspectWord) -> str:
    """The kind of site that a word is in, for `shift.change_census`."""
    return f"{_KINDS[word.place]} {word.node}" if word.node else _KINDS[word.place]


def find_missed(reader: SnapshotReader, known: Known, touched: int) -> list[SuspectWord]:
    """Words that point to captured memory, or just past it, and that the census lacks; those that point to the
    memory around the captured address `touched` (0: not known) first, and whole aligned words before other forms."""
    starts, ends = known.edges()
    if not len(starts):
        return []
    deadline = time.monotonic() + SEARCH_S
    found: list[SuspectWord] = []
    for site, data in known.buffers(reader):
        found += _missed_in(known, site, data, 0, known.listed(site), starts, ends)
    for site, contents in known.memory():
        listed = known.listed(site)
        before = b""
        for number, digest in enumerate(contents.chunk_digests()):
            if time.monotonic() > deadline or len(found) > 64 * MAXIMUM_SUSPECTS:
                known.complete = False
                break
            if digest == ZERO_DIGEST:
                before = b""
                continue
            first = number * CHUNK_BYTES
            piece = read_chunk(reader, digest, min(CHUNK_BYTES, contents.size_bytes - first))
            found += _missed_in(known, site, before + piece, first - len(before), listed, starts, ends)
            before = piece[-_EDGE_BYTES:]
    aim = known.range_at(touched, 1 << 21) if touched else None
    forms = ("word", "unaligned", "halves")

    def rank(word: SuspectWord) -> tuple[bool, int, bool, int]:
        target = known.range_at(word.value)
        return (
            aim is not None and target is not aim,
            forms.index(word.form),
            word.call == 0,
            word.offset_bytes,
        )

    unique = {
        (word.call, word.range, word.node, word.offset_bytes): word
        for word in sorted(found, key=rank, reverse=True)
    }
    return sorted(unique.values(), key=rank)[:MAXIMUM_SUSPECTS]


def _missed_in(
    known: Known, site: Site, data: bytes, first: int, listed: NDArray[np.int64],
    starts: NDArray[np.uint64], ends: NDArray[np.uint64],
) -> list[SuspectWord]:  # fmt: skip
    here = listed[np.searchsorted(listed, first) : np.searchsorted(listed, first + len(data))]
    found: list[SuspectWord] = []
    for shift in range(min(8, len(data) - 7)):
        words = np.frombuffer(data, "<u8", (len(data) - shift) // 8, shift)
        places = inside(words, starts, ends)
        places = places[~np.isin(first + shift + 8 * places, here)]
        for place in places[: 4 * MAXIMUM_SUSPECTS].tolist():
            offset = first + shift + 8 * place
            found.append(
                _suspect(known, site, offset, int(words[place]), "unaligned" if offset % 8 else "word")
            )
    skipped = -first % 4
    halves = np.frombuffer(data, "<u4", max(len(data) - skipped, 0) // 4, skipped)
    # The halves of words that are known to be pointers belong to these.
    whole = np.concatenate([here, np.array([word.offset_bytes for word in found], "<i8")])
    places = (whole - first - skipped) // 4
    taken = np.zeros(len(halves) + 2, dtype=bool)
    taken[places[places >= 0]] = taken[places[places >= 0] + 1] = True
    return found + _halves(known, site, halves, taken[: len(halves)], first + skipped, starts, ends)


def _halves(
    known: Known, site: Site, halves: NDArray[np.uint32], taken: NDArray[np.bool_], first: int,
    starts: NDArray[np.uint64], ends: NDArray[np.uint64],
) -> list[SuspectWord]:  # fmt: skip
    """Low and high halves of addresses that are apart: the low one in a range of this high one."""
    found: list[SuspectWord] = []
    for high in sorted({*(starts >> np.uint64(32)).tolist(), *(ends >> np.uint64(32)).tolist()} - {0}):
        highs = np.flatnonzero((halves == high) & ~taken)
        if not len(highs):
            continue
        values = halves.astype("<u8") | np.uint64(high << 32)
        lows = inside(values, starts, ends)
        for low in lows[~taken[lows]][: 4 * MAXIMUM_SUSPECTS].tolist():
            nearest = int(highs[np.argmin(np.abs(highs - low))])
            if nearest != low:
                at, other = first + 4 * low, first + 4 * nearest
                found.append(_suspect(known, site, at, int(values[low]), "halves", other))
    return found


def _suspect(known: Known, site: Site, offset: int, value: int, form: Form, high: int = 0) -> SuspectWord:
    return _word("missed", known, site, offset, value, form, high)


def _word(
    kind: Literal["missed", "false"],
    known: Known,
    site: Site,
    offset: int,
    value: int,
    form: Form = "word",
    high: int = 0,
) -> SuspectWord:
    call, range_id = (0, site.number) if site.place == "memory" else (site.number, 0)
    target = _target(known, value)
    return SuspectWord(
        kind, site.place, site.title, call, range_id, offset, value, target, form, high, node=site.node
    )


def _target(known: Known, address: int) -> str:
    one = known.range_at(address)
    if one is None:
        return ""
    inside = address - one.address
    return describe(one) if not inside else f"{describe(one)} at its byte {inside:,}"


@dataclass(frozen=True)
class Followed:
    """A word of the outputs that moved with a range, `factor` times as far: in 8 bytes, or 4 from `offset_bytes`."""

    word: MovedWord
    size_bytes: int
    offset_bytes: int
    range_id: int
    factor: int


def find_followed(
    first: Sequence[MovedWord], second: Sequence[MovedWord], placements: Sequence[Placement]
) -> list[Followed]:
    """Which differing words moved as a range did, in both of two replays that moved it by different distances."""
    numbers, distances = _distances(placements)
    others = {(word.label, word.offset_bytes): word for word in second}
    found: list[Followed] = []
    for word in first:
        other = others.get((word.label, word.offset_bytes))
        if other is None:
            continue
        for size, shift in ((8, 0), (4, 0), (4, 4)):
            moves = [
                ((one.found >> 8 * shift) - (one.captured >> 8 * shift)) & _MASK[size]
                for one in (word, other)
            ]
            followed = _followed(moves, size, distances) if all(moves) else None
            if followed is not None:
                place, factor = followed
                found.append(Followed(word, size, word.offset_bytes + shift, numbers[place], factor))
                break
    return found


def _distances(placements: Sequence[Placement]) -> tuple[list[int], NDArray[np.uint64]]:
    """One range of each stretch that moved as one, and how far in each replay: a row for each."""
    tables = [{item.range: item for item in one.ranges if item.live_address} for one in placements]
    found: dict[tuple[int, ...], int] = {}
    for number in tables[0]:
        items = [table.get(number) for table in tables]
        moves = tuple((item.live_address - item.address) % 2**64 for item in items if item is not None)
        if len(moves) == len(tables) and all(moves):
            found.setdefault(moves, number)
    return list(found.values()), np.array(list(found), "<u8").reshape(len(found), len(tables))


def _followed(moves: list[int], size: int, distances: NDArray[np.uint64]) -> tuple[int, int] | None:
    """The stretch whose distances, times a small factor, are these moves; and the factor."""
    wanted, mask = np.array(moves, "<u8"), np.uint64(_MASK[size])
    for factor in (factor for number in range(1, SMALL_FACTORS + 1) for factor in (number, -number)):
        hits = (((distances * np.uint64(factor % 2**64)) - wanted) & mask == 0).all(axis=1)
        if hits.any():
            return int(np.flatnonzero(hits)[0]), factor
    return None


def find_false(known: Known, followed: Iterable[Followed], placement: Placement) -> list[SuspectWord]:
    """Words of the census that may be numbers, the likeliest first: those that point to memory which outputs moved
    with, nearest in value to what these outputs should be; then the rest of those in memory, then in parameters."""
    items = {item.range: item for item in placement.ranges}

    def moved(number: int) -> int:
        item = items.get(number)
        return 0 if item is None else item.live_address - item.address

    wanted: dict[int, list[int]] = {}
    for one in followed:
        half = one.word.captured >> 8 * (one.offset_bytes - one.word.offset_bytes) & _MASK[one.size_bytes]
        wanted.setdefault(moved(one.range_id), []).append(half)
    deadline = time.monotonic() + SEARCH_S

    def ranked() -> Iterator[tuple[tuple[bool, int, bool, int, int], Site, int, int]]:
        count = 0
        for site, words in known.census.items():
            for offset, value in words:
                count += 1
                if count % 4096 == 0 and time.monotonic() > deadline:
                    known.complete = False
                    return
                target = known.range_at(value) if wanted else None
                outputs = wanted.get(moved(target.id), []) if target is not None else []
                near = min((abs((value & _MASK[4]) - (output & _MASK[4])) for output in outputs), default=0)
                yield (not outputs, near, site.place == "parameters", offset, count), site, offset, value

    return [
        _word("false", known, site, offset, value)
        for _, site, offset, value in heapq.nsmallest(MAXIMUM_SUSPECTS, ranked(), key=lambda item: item[0])
    ]


def touched_address(text: str, known: Known) -> int:
    """The first captured address that an error message names; 0 if it names none."""
    for match in re.finditer(r"0x([0-9a-fA-F]{6,16})\b", text):
        value = int(match.group(1), 16)
        if known.range_at(value, 1 << 21) is not None:
            return value
    return 0
