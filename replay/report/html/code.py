"""The section of the code of one kernel on two sides."""

from __future__ import annotations

from collections.abc import Sequence

from replay.difference import KernelDifference, source_difference
from replay.report import code as code_text
from replay.report.html.model import Listing, Section, Table
from replay.results.comparison import ComparedRow
from replay.results.run.variant import KeptImage
from replay.text import shown

HOT = 0.01  # share of a kernel's accesses from which on a line is marked


def code_section(found: KernelDifference) -> Section:
    """Resources, opcodes whose number differs, and the aligned difference."""
    section = Section(f"Code of {shown(found.kernel)}" if found.kernel else "Code")
    section.lines += [shown(note, 600) for note in found.notes]
    if found.resources:
        section.tables.append(
            ("", Table(["of the machine code", "A", "B"], [list(row) for row in found.resources]))
        )
    for listing in found.listings:
        lines = [shown(line) for line in listing.lines]
        lines += [f"@ ... {listing.more:,} more lines"] if listing.more else []
        heat = [f"{100 * share:.0f} %" if share >= HOT else "" for share in listing.heat]
        title = listing.summary + (f". {code_text.LEGEND}" if lines else "")
        section.lines += [code_text.opcodes(listing)] if listing.opcodes else []
        section.listings.append(Listing(title, lines, heat))
    if any(share >= HOT for listing in found.listings for share in listing.heat):
        section.notes.append(
            "Beside lines that load or store: their share of the kernel's sectors and passes."
        )
    return section


def compared_source_section(row: ComparedRow, kept: Sequence[KeptImage]) -> Section | None:
    """The sources that were compiled for the sides of a row: their difference, or the only one; None without any."""
    listing, text = source_difference(row, kept)
    if listing is not None:
        section = Section("Source of both sides")
        section.listings.append(Listing(listing.summary, [shown(line) for line in listing.lines]))
        return section
    return source_section(("of the side that was compiled", text)) if text else None


def source_section(source: tuple[str, str]) -> Section:
    """The text of a source that was compiled for a variant."""
    name, text = source
    section = Section(f"Source {shown(name, 200)}")
    section.listings.append(Listing("", [f" {line}" for line in code_text.lines_of(text)]))
    return section
