"""What bounds a kernel, out of what the CPU driver counted and modelled. Pure functions; every page, text and
explanation that says it asks here."""

from __future__ import annotations

from collections.abc import Mapping

from replay.records import dataclass
from replay.results.run.timing import AccessCounters, KernelCounters

_START = ("launch", "blocks")
WORK = ("compute", "matrix", "shared", "memory", "latency")
# Parts of which the largest is the time of the work, in words that follow "bound by".
_WORDS = {
    "compute": "the instructions that its warps start",
    "matrix": "products of matrices",
    "shared": "passes over the banks of shared memory",
    "memory": "the bandwidth of global memory",
    "latency": "waiting for global memory, with too few warps to hide it",
    "start": "its start: the launch itself, and that of its blocks",
}
NAMES = {
    "launch": "start of the launch",
    "blocks": "start of the blocks",
    "compute": "starting instructions",
    "matrix": "products of matrices",
    "shared": "shared memory",
    "memory": "global memory, bandwidth",
    "latency": "global memory, latency",
}
_WORTH = 0.1  # of the time, from which on a saving is worth a sentence


@dataclass(frozen=True)
class Bound:
    """What bounds one kernel. part: the largest of those of its work, or "start". share: of the modelled time.
    next_part, next_share: what would bound it then. saving: of the time, if its accesses were as cheap as they could
    be, 0.0 where that changes nothing; costly: which kind of access that is about."""

    part: str
    share: float
    next_part: str
    next_share: float
    saving: float = 0.0
    costly: str = ""

    @property
    def sentence(self) -> str:
        """In one sentence, without its full stop; follows the kernel's name."""
        text = f"is bound by {_WORDS[self.part]} ({100 * self.share:.0f} % of the modelled time)"
        if self.next_part and self.part != "start":
            text += f"; next: {_WORDS[self.next_part].partition(',')[0]} ({100 * self.next_share:.0f} %)"
        if self.saving >= _WORTH:
            how = {"sectors": "neighbouring lanes read and wrote neighbouring words",
                   "conflicts": "no bank of shared memory were asked twice at once"}  # fmt: skip
            text += f". If {how[self.costly]}, it would take {100 * self.saving:.0f} % less"
        return text


def bound_of(kernel: KernelCounters) -> Bound | None:
    """None where its parts are not known, as in results of before."""
    parts = kernel.parts_ns
    work = {name: ns for name, ns in parts.items() if name in WORK}
    total = total_of(parts)
    if not work or total <= 0:
        return None
    ordered = sorted(work, key=lambda name: -work[name])
    start = total - work[ordered[0]]
    cheaper, costly = _cheapest(kernel, work)
    saving = 1 - (start + max(cheaper.values())) / total
    if start > work[ordered[0]]:
        return Bound("start", start / total, ordered[0], work[ordered[0]] / total, saving, costly)
    return Bound(
        ordered[0], work[ordered[0]] / total, ordered[1] if len(ordered) > 1 else "",
        work[ordered[1]] / total if len(ordered) > 1 else 0.0, saving, costly,
    )  # fmt: skip


def total_of(parts: Mapping[str, float]) -> float:
    """The modelled time of these parts, in nanoseconds: the start, and the longest of the work."""
    start = sum(parts.get(name, 0.0) for name in _START)
    return start + max((parts.get(name, 0.0) for name in WORK), default=0.0)


def _cheapest(kernel: KernelCounters, work: dict[str, float]) -> tuple[dict[str, float], str]:
    """The parts if accesses were adjacent, or without conflicts: that of the two which is dearer now."""
    counters = kernel.counters
    sectors, least = (counted(counters, "global", what) for what in ("sectors", "least_sectors"))
    passes, conflicts = (counted(counters, "shared", what) for what in ("wavefronts", "bank_conflicts"))
    cheaper = dict(work)
    if work.get("memory", 0.0) >= work.get("shared", 0.0):
        if sectors and "memory" in work:
            cheaper["memory"] *= least / sectors
        return cheaper, "sectors"
    if passes:
        cheaper["shared"] *= (passes - conflicts) / passes
    return cheaper, "conflicts"


def counted(counters: Mapping[str, int], space: str, what: str) -> int:
    """Loads, stores and atomic operations together."""
    return sum(counters.get(f"{space}_{kind}_{what}", 0) for kind in ("load", "store", "atomic"))


def cost_of(access: AccessCounters) -> int:
    """Sectors of global memory and passes over shared memory."""
    return access.global_sectors + access.shared_wavefronts


def waste_of(access: AccessCounters) -> int:
    """Of that, what adjacent words and free banks would save."""
    return access.global_sectors - access.global_least_sectors + access.shared_bank_conflicts
