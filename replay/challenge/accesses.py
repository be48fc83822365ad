"""What a window reads and writes, in the order in which it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.run.touched import copied, events, runs_of

if TYPE_CHECKING:
    from replay.run.touched import Runs


@dataclass(frozen=True)
class Accesses:
    """read: all that kernels read. read_first: before the window has written it, as far as can be told; what one kernel
    both reads and writes is. written: all that is written."""

    read: Runs
    read_first: Runs
    written: Runs


def accesses(path: Path, ranges: Runs, *, begins_with_copy: bool) -> Accesses:
    """From what the CPU driver wrote down of a replay. ranges: captured memory. begins_with_copy: of the window, so
    that what replay itself copies before it cannot be told from it, and counts as read. Raises EngineError."""
    read, first, written = runs_of(()), runs_of(()), runs_of(())
    launched = False
    for item in events(path):
        if "kernel" in item:
            launched = True
            sources, targets = runs_of(_sites(item, False)), runs_of(_sites(item, True))
        elif "copied" in item:
            targets, sources = copied(item)
            if not launched:  # memory is being loaded, and copied aside
                targets = runs_of(())
                sources = sources if begins_with_copy else targets
        else:
            begin, size = item["awaited"]
            sources, targets = runs_of([[begin, begin + size]]), runs_of(())
        first = runs_of([first, without(sources, written)])
        read = runs_of([read, sources]) if "kernel" in item else read
        written = runs_of([written, without(targets, without(targets, ranges))])
    return Accesses(read, first, written)


def _sites(item: dict[str, Any], written: bool) -> Iterator[Any]:
    for _, _, writes, space, runs in item["sites"]:
        if space == "global" and writes == written:
            yield runs


def without(runs: Runs, other: Runs) -> Runs:
    """What of `runs` is in no run of `other`."""
    import numpy

    if not len(runs) or not len(other):
        return runs
    # Both are in order and apart: between two borders, a stretch is wholly in or out of each.
    borders = numpy.unique(numpy.concatenate([runs.ravel(), other.ravel()]))
    starts, ends = borders[:-1], borders[1:]

    def inside(of: Runs) -> Any:
        place = numpy.searchsorted(of[:, 0], starts, side="right").astype("i8") - 1
        return (place >= 0) & (starts < of[numpy.maximum(place, 0), 1])

    keep = inside(runs) & ~inside(other)
    return runs_of([numpy.stack([starts[keep], ends[keep]], axis=1)])
