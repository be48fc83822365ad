"""Which counters moved between two sides, and how much of the change of the modelled time each explains. Pure
functions over what the CPU driver counted."""

from __future__ import annotations

from collections.abc import Iterator

from replay.records import dataclass
from replay.results.run.timing import KernelCounters
from replay.timing.bounds import WORK, total_of

_SLOW = {"warp_float64", "warp_conversion", "warp_special_function", "warp_atomic"}
_SLOW_WEIGHT = 4  # against other instructions, as the cost model has it (docs/cpu-driver.md)
_LEAST = 0.0005  # a smaller relative change is none


@dataclass(frozen=True)
class CounterChange:
    """One counter. part: of the modelled time that it decides, "" none. explains: the change of the time that follows
    from it alone, over the whole change; 0.0 where its part bounds neither side."""

    name: str
    a: int
    b: int
    part: str
    explains: float


def moved_counters(a: KernelCounters, b: KernelCounters) -> list[CounterChange]:
    """Those that differ, what explains most first, then the largest relative change. The sides' windows are taken as
    wholes, so a and b are sums over all kernels or of one each."""
    names = dict.fromkeys([*a.counters, *b.counters])
    pairs = {name: (a.counters.get(name, 0), b.counters.get(name, 0)) for name in names}
    moved = {name: pair for name, pair in pairs.items() if _change(*pair) > _LEAST}
    shares = dict(_shares(a, b, pairs))
    found = [
        CounterChange(name, *pair, part_of(name), shares.get(name, 0.0))
        for name, pair in moved.items()
        if name not in ("warp_instructions", "thread_instructions") or part_of(name) == ""
    ]
    return sorted(found, key=lambda item: (-abs(item.explains), -_change(item.a, item.b), item.name))


def part_of(name: str) -> str:
    """The part of the modelled time that a counter decides, "" none."""
    if name.startswith("matrix_"):
        return "matrix"
    if name.startswith("warp_"):
        return "compute"
    kind = name.rpartition("_")[2]
    if name.startswith("global_") and "least" not in name:
        return {"sectors": "memory", "requests": "latency"}.get(kind, "")
    return "shared" if name.startswith(("shared_", "descriptor_")) and kind == "wavefronts" else ""


def _change(a: int, b: int) -> float:
    return abs(b - a) / max(a, b, 1)


def _shares(
    a: KernelCounters, b: KernelCounters, pairs: dict[str, tuple[int, int]]
) -> Iterator[tuple[str, float]]:
    """Each part's share of the change is divided among the counters that it is made of, by how far they moved."""
    total = total_of(a.parts_ns) - total_of(b.parts_ns)
    if not total:
        return
    bounds = {max(WORK, key=lambda part: side.parts_ns.get(part, 0.0)) for side in (a, b)}
    before, after = (max((side.parts_ns.get(part, 0.0) for part in WORK), default=0.0) for side in (a, b))
    for part in bounds:
        # Where the bound changes, each of the two parts explains its side of the change.
        change = before - after if len(bounds) == 1 else a.parts_ns.get(part, 0.0) - b.parts_ns.get(part, 0.0)
        weights = {
            name: (_weight(name) * (pair[1] - pair[0]))
            for name, pair in pairs.items()
            if part_of(name) == part and name != "warp_instructions"
        }
        moved = sum(weights.values())
        for name, weight in weights.items():
            if moved:
                yield name, change / total * weight / moved


def _weight(name: str) -> int:
    return _SLOW_WEIGHT if name in _SLOW else 1
