"""What the CPU driver counted on both sides: which counters moved, and the parts of the modelled time."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.moved import moved_counters
from replay.images.demangle import demangle
from replay.report.html.model import Section, Table, more
from replay.results.comparison import ComparedRow
from replay.results.run.timing import KernelCounters
from replay.text import duration, percent, shown
from replay.timing.bounds import NAMES, bound_of

SHOWN_COUNTERS = 24


def counted_parts(row: ComparedRow) -> Iterator[Section]:
    """Nothing where a side was not counted."""
    a, b = row.a.counters, row.b.counters
    if a is None or b is None:
        return
    part = Section("Counters that moved")
    for name, side in (("A", a), ("B", b)):
        for kernel in side.kernels[:3]:
            if (found := bound_of(kernel)) is not None:
                part.lines.append(f"{name}: {shown(demangle(kernel.kernel), 80)} {found.sentence}.")
    moved = moved_counters(a.total, b.total)
    if not moved:
        part.lines.append(
            "Every counter is the same: as many instructions of each kind, and as many accesses of memory."
        )
        yield part
        return
    table = Table(["counter", "A", "B", "change", "explains", "decides"])
    table.rows = [
        [item.name.replace("_", " "), f"{item.a:,}", f"{item.b:,}", percent(item.b / item.a, 1) if item.a else "new",
         f"{100 * item.explains:.0f} %" if abs(item.explains) >= 0.005 else "", NAMES.get(item.part, "")]
        for item in moved[:SHOWN_COUNTERS]
    ]  # fmt: skip
    caption = "Counted by the CPU driver, what explains most of the modelled change first"
    part.tables.append((caption, table.without_empty()))
    part.tables.append(("Parts of the modelled time, whole window", _parts(a.total, b.total)))
    part.notes += more(moved, SHOWN_COUNTERS, "counters")
    yield part


def _parts(a: KernelCounters, b: KernelCounters) -> Table:
    table = Table(["", "A", "B", "change"])
    for name, words in NAMES.items():
        before, after = a.parts_ns.get(name, 0.0), b.parts_ns.get(name, 0.0)
        if before or after:
            change = percent(after / before, 1) if before else "new"
            table.rows.append([words, duration(before), duration(after), change if before != after else ""])
    return table.without_empty()
