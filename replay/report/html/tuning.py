"""The sections of a tuning: all configurations, and each beside the kernel as captured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replay.report import tuning as text
from replay.report.commands import tuning_commands
from replay.report.html.compared import comparison_section
from replay.report.html.model import MAXIMUM_ROWS, Section, Table, more
from replay.results.tuning import Tuning
from replay.text import MODELLED, shown

if TYPE_CHECKING:
    from replay.difference import CodeFiles


def tuning_sections(result: Tuning, code: CodeFiles) -> list[Section]:
    """The verdict with a table; then the comparison, where configurations were timed."""
    section = Section(text.tuning_headline(result), result.verdict)
    section.lines += [MODELLED] if result.source == "modelled" else []
    section.tables.append(("", Table(["", ""], [list(pair) for pair in text.facts(result)])))
    rows = text.rows(result)
    table = Table([column.title for column in text.COLUMNS], [list(row) for row in rows[:MAXIMUM_ROWS]])
    section.tables.append(("Configurations, the fastest first", table.without_empty()))
    section.notes += more(rows, MAXIMUM_ROWS, "configurations: `replay tune --json` has all")
    section.notes += [*text.reasons(result), *(shown(note, 400) for note in result.notes)]
    section.commands = tuning_commands(result)
    if result.compared is None:
        return [section]
    compared = replace(result.compared, command=result.command)
    return [section, comparison_section(compared, code)]
