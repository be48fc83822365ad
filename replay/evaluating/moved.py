"""What the CPU driver counted for two kernels, in figures that say something; and which of them moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from replay.results.comparison import ComparedKernel
from replay.results.evaluation import MovedCounter
from replay.results.run.timing import KernelCounters
from replay.timing.bounds import counted

Counters = Mapping[str, int]
MOST = 12
LEAST_CHANGE = 0.02  # smaller ones are left out
_WHOLE = ("registers", "shared_bytes", "local_bytes", "spill_store_bytes", "spill_load_bytes")


def _sum(space: str, what: str) -> Callable[[Counters], float]:
    return lambda counters: float(counted(counters, space, what))


def _ratio(
    part: Callable[[Counters], float], whole: Callable[[Counters], float]
) -> Callable[[Counters], float]:
    return lambda counters: part(counters) / whole(counters) if whole(counters) else 0.0


def _one(name: str) -> Callable[[Counters], float]:
    return lambda counters: float(counters.get(name, 0))


# Name -> figure of all launches of the window together. Names are in documents, so they only grow.
FIGURES: dict[str, Callable[[Counters], float]] = {
    "warp_instructions": _one("warp_instructions"),
    "lanes_per_instruction": _ratio(_one("thread_instructions"), _one("warp_instructions")),
    "divergent_branches": _one("divergent_branches"),
    "global_requests": _sum("global", "requests"),
    "global_bytes": _sum("global", "bytes"),
    "global_sectors": _sum("global", "sectors"),
    "sectors_per_request": _ratio(_sum("global", "sectors"), _sum("global", "requests")),
    "least_sectors_per_request": _ratio(_sum("global", "least_sectors"), _sum("global", "requests")),
    "shared_requests": _sum("shared", "requests"),
    "shared_wavefronts": _sum("shared", "wavefronts"),
    "conflicts_per_shared_access": _ratio(_sum("shared", "bank_conflicts"), _sum("shared", "requests")),
    "warp_integer": _one("warp_integer"),
    "warp_float32": _one("warp_float32"),
    "warp_float64": _one("warp_float64"),
    "warp_half": _one("warp_half"),
    "warp_conversion": _one("warp_conversion"),
    "warp_special_function": _one("warp_special_function"),
    "warp_branch": _one("warp_branch"),
    "warp_barrier": _one("warp_barrier"),
    "warp_atomic": _one("warp_atomic"),
    "warp_matrix": _one("warp_matrix"),
    "warp_load_local": _one("warp_load_local"),
    "warp_store_local": _one("warp_store_local"),
}


def figures(counted: KernelCounters) -> dict[str, float]:
    """All of `FIGURES`."""
    return {name: figure(counted.counters) for name, figure in FIGURES.items()}


def moved(captured: Mapping[str, float], candidate: Mapping[str, float]) -> list[MovedCounter]:
    """The figures that differ by more than `LEAST_CHANGE`, the largest change first, at most `MOST`."""
    found = [
        MovedCounter(name, captured.get(name, 0.0), value)
        for name, value in candidate.items()
        if _change(captured.get(name, 0.0), value) > LEAST_CHANGE
    ]
    found.sort(key=lambda item: -_change(item.captured, item.candidate))
    return found[:MOST]


def made_of(captured: Sequence[ComparedKernel], candidate: Sequence[ComparedKernel]) -> list[MovedCounter]:
    """Registers, memory and spills that differ, of kernels of which both are known."""
    several = len(candidate) > 1
    found = []
    for was, now in zip(captured, candidate, strict=False):
        for name in _WHOLE:
            before, after = getattr(was, name), getattr(now, name)
            if before is not None and after is not None and before != after:
                found.append(MovedCounter(f"{name} of {now.name}" if several else name, before, after))
    return found[:MOST]


def _change(before: float, after: float) -> float:
    """As a logarithm of the ratio; from nothing, or to nothing, infinite."""
    if before == after:
        return 0.0
    return abs(math.log(after / before)) if before > 0 < after else math.inf
