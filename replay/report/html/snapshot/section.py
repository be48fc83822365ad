"""The section of a snapshot, for notebooks: what `replay info` says of it."""

from __future__ import annotations

from replay.report.html.model import MAXIMUM_ROWS, Section, Table, more
from replay.report.snapshot import INFO_NAME, info_facts
from replay.snapshot.contents import SnapshotInfo
from replay.text import dimensions, shown, size


def snapshot_section(info: SnapshotInfo) -> Section:
    """Where it was captured, what it holds, its kernels, and what is missing."""
    title = f"{shown(info.path)}: snapshot, {size(info.file_bytes)}"
    section = Section(title, "" if info.whole else "FAILED")
    section.tables.append(("", Table(["", ""], [[name, text] for name, text in info_facts(info)])))
    table = Table(["kernel", "launches", "grid", "block", "shared", "registers"])
    table.rows = [
        [shown(kernel.demangled or kernel.name, INFO_NAME), f"{kernel.launches:,}", dimensions(kernel.grid),
         dimensions(kernel.block), size(kernel.shared_bytes), kernel.attributes.get("registers", "")]
        for kernel in info.kernels[:MAXIMUM_ROWS]
    ]  # fmt: skip
    section.tables.append(("Kernels", table.without_empty()))
    section.lines += more(info.kernels, MAXIMUM_ROWS, "kernels")
    section.notes += [f"{shown(note.code)}: {shown(note.text, 400)}" for note in info.problems[:20]]
    return section
