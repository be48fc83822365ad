"""The section of the code of one kernel on two sides."""

from __future__ import annotations

from replay.difference import KernelDifference
from replay.report import code as code_text
from replay.report.html.model import Listing, Section, Table
from replay.text import shown


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
        title = listing.summary + (f". {code_text.LEGEND}" if lines else "")
        section.lines += [code_text.opcodes(listing)] if listing.opcodes else []
        section.listings.append(Listing(title, lines))
    return section


def source_section(source: tuple[str, str]) -> Section:
    """The text of a source that was compiled for a variant."""
    name, text = source
    section = Section(f"Source {shown(name, 200)}")
    section.listings.append(Listing("", [f" {line}" for line in code_text.lines_of(text)]))
    return section
