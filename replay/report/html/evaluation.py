"""The section of an evaluation."""

from __future__ import annotations

from replay.outputs.wording import difference_lines
from replay.report import evaluation as text
from replay.report.commands import evaluation_commands
from replay.report.html.model import Listing, Section, Table
from replay.results.evaluation import Evaluated
from replay.text import MODELLED, shown


def evaluation_section(found: Evaluated) -> Section:
    """Verdict, facts, places that are wrong, what moved, and the hint."""
    section = Section(text.title(found), found.verdict)
    if found.hint:
        section.lines.append(shown(found.hint))
    if found.source == "modelled" and found.ratio is not None:
        section.lines.append(MODELLED)
    section.tables.append(("", Table(["", ""], [list(pair) for pair in text.facts(found)])))
    if found.differences:
        lines = [line for item in found.differences for line in difference_lines(item)]
        section.listings.append(Listing("Outputs that differ", lines))
    if found.error is not None and found.error.details:
        section.listings.append(
            Listing("What was said", [shown(line, 300) for line in found.error.details.splitlines()])
        )
    if found.counters:
        table = Table(["what moved", "captured", "candidate", "ratio"])
        table.rows = [list(text.counter_cells(item)) for item in found.counters]
        section.tables.append(("", table.without_empty()))
    section.notes += [shown(note, 400) for note in found.notes[:8]]
    section.commands = evaluation_commands(found)
    return section
