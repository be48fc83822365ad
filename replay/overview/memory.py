"""All memory of one window: what each allocation is, who writes it, and who points to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from replay.outputs.elements import Region
from replay.overview.contents import Looker
from replay.overview.model import Allocation, MemoryMap, Use
from replay.snapshot.container import SnapshotReader
from replay.snapshot.contents import changed_bytes
from replay.snapshot.schema import Census, Range, from_wire

MAXIMUM_ALLOCATIONS = 4_000  # of a page, the largest
MAXIMUM_READ = 200_000  # ranges
SHOWN_NEIGHBOURS = 24
SHOWN_USES = 24
_WORD = np.dtype([("offset", "<u8"), ("inside", "<u8"), ("range", "<u4"), ("zero", "<u4")])  # schema.Census
MAXIMUM_CENSUS_BYTES = 512 << 20


def memory_of(
    reader: SnapshotReader,
    ranges: Iterable[Range],
    uses: Mapping[int, list[Use]],
    regions: Mapping[int, list[Region]],
) -> MemoryMap:
    """By address. uses, regions: by id of a range."""
    every = sorted(ranges, key=lambda item: (-item.size_bytes, item.id))
    kept, others = every[:MAXIMUM_ALLOCATIONS], every[MAXIMUM_ALLOCATIONS:]
    edges, words, cut = _pointers(reader, {item.id for item in kept})
    found = MemoryMap(
        left_out=len(others), left_out_bytes=sum(item.size_bytes for item in others), words=words
    )
    if cut:
        found.notes.append("Only the first part of the pointers was read.")
    to: dict[int, list[tuple[int, int]]] = defaultdict(list)
    by: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (site, target), count in edges.most_common():
        to[site].append((target, count))
        by[target].append((site, count))
    for item in kept:
        found.allocations.append(
            Allocation(
                item,
                changed_bytes(item),
                list(regions.get(item.id, ())),
                uses.get(item.id, [])[:SHOWN_USES],
                to[item.id][:SHOWN_NEIGHBOURS],
                by[item.id][:SHOWN_NEIGHBOURS],
            )
        )
    looker = Looker(reader)
    for allocation in sorted(
        found.allocations, key=lambda item: (not item.changed_bytes, -item.range.size_bytes)
    ):
        looker.look(allocation)
    found.allocations.sort(key=lambda item: (item.range.address, item.range.id))
    return found


def _pointers(reader: SnapshotReader, kept: set[int]) -> tuple[Counter[tuple[int, int]], int, bool]:
    """(site, target) -> words, of pointers inside memory; all words; whether reading ended early."""
    edges: Counter[tuple[int, int]] = Counter()
    words, room = 0, MAXIMUM_CENSUS_BYTES
    for value in reader.objects_and_blocks("census"):
        if not isinstance(value, dict) or value.get("kind") != "range":
            continue  # of parameters: what launches are given is told by `calls`
        census: Any = from_wire(Census, value)
        room -= len(census.words)
        if room < 0:
            return edges, words, True
        data = census.words[: len(census.words) // _WORD.itemsize * _WORD.itemsize]
        targets, counts = np.unique(np.frombuffer(data, _WORD)["range"], return_counts=True)
        words += int(counts.sum())
        for target, count in zip(targets.tolist(), counts.tolist(), strict=True):
            if census.site in kept and target in kept:
                edges[census.site, target] += count
    return edges, words, False
