"""Whether the outputs are those of the application, and where and how far they are not."""

from __future__ import annotations

from replay.outputs.wording import compared, difference_lines, verdict
from replay.report.html.model import Section, Table
from replay.results.run.verification import OutputDifference
from replay.results.schema import RunResult
from replay.text import number, shown

SHOWN_BUFFERS = 10
SHOWN_LINES = 8


def outputs_part(result: RunResult) -> Section:
    """The verdict in words, and each buffer that differs."""
    verification = result.verification
    part = Section("Outputs")
    part.lines.append(f"Outputs {verdict(verification)}.")
    if verification.compared_bytes and verification.verdict != "match":
        part.lines.append(f"{compared(verification)}.")
    for difference in verification.differences[:SHOWN_BUFFERS]:
        part.details.append(_buffer(difference))
    if len(verification.differences) > SHOWN_BUFFERS:
        part.notes.append(f"... and {number(len(verification.differences) - SHOWN_BUFFERS, 'more buffer')}")
    part.notes += [shown(text, 300) for text in verification.unverified[:SHOWN_LINES]]
    return part


def _buffer(item: OutputDifference) -> Section:
    """One buffer that differs: how far in words, and the first places."""
    section = Section(
        f"{shown(item.label, 200)}: {item.differing_bytes:,} of {item.compared_bytes:,} bytes differ"
    )
    section.lines += [shown(line.strip(), 600) for line in difference_lines(item)]
    table = Table(["offset", "element", "type", "captured", "here", "captured bytes", "bytes here"])
    table.rows = [
        [f"{place.offset_bytes:,}", place.place or ("" if place.element < 0 else f"{place.element:,}"), place.dtype,
         shown(place.expected_value, 60), shown(place.actual_value, 60), place.expected, place.actual]
        for place in item.mismatches
    ]  # fmt: skip
    if table.rows:
        section.tables.append(("The first places that differ", table.without_empty()))
    return section
