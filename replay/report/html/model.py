"""What the template is given: sections of text, tables and figures. Plain values; what is markup says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from markupsafe import Markup

from replay.text import cuda_version, shown

if TYPE_CHECKING:
    from replay.report.html.plots import Plot

MAXIMUM_ROWS = 2000
MAXIMUM_DETAILS = 200  # rows with plots of their own; with more, a browser takes minutes to open the page
_NUMBER = re.compile(
    r"[-+−]?[\d.,]+(?: ?(?:ns|us|ms|s|%|x|B|KiB|MiB|GiB|MHz|W)| [kMGT]?B?/s| \([\d.]+ %\)"
    r"| \.\. [-+]?[\d.,]+(?: [num]?s| %)?)?|-|none"
)
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


@dataclass
class Table:
    """Cells are text, or markup that is safe already."""

    titles: list[str]
    rows: list[list[object]] = field(default_factory=list)

    def without_empty(self) -> Table:
        """Columns in which nothing is known say nothing."""
        kept = [at for at in range(len(self.titles)) if any(row[at] not in ("", None) for row in self.rows)]
        return Table([self.titles[at] for at in kept], [[row[at] for at in kept] for row in self.rows])

    @property
    def numeric(self) -> list[bool]:
        """Of each column, whether it holds only numbers, with units: those are set under one another."""
        return [
            any(row[at] not in ("", None) for row in self.rows)
            and all(row[at] in ("", None) or _NUMBER.fullmatch(str(row[at])) for row in self.rows)
            for at in range(len(self.titles))
        ]


@dataclass(frozen=True)
class Key:
    """A figure that stands out. note: what it rests on."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class CodeCell:
    """One line of one side."""

    text: str
    heat: str = ""


@dataclass(frozen=True)
class Listing:
    """Lines of a difference. Each begins with "+", "-", "@" or a blank. heat: a share of each, "" where it is none."""

    title: str
    lines: list[str]
    heat: Sequence[str] = ()

    @property
    def sides(self) -> list[tuple[str, CodeCell, CodeCell]]:
        """Rows of two sides: kind (same, changed, place), left, right. Empty where nothing differs."""
        if not any(line[:1] in ("+", "-") for line in self.lines):
            return []
        rows: list[tuple[str, CodeCell, CodeCell]] = []
        removed: list[CodeCell] = []
        added: list[CodeCell] = []

        def flush() -> None:
            rows.extend(("changed", *pair) for pair in zip_longest(removed, added, fillvalue=CodeCell("")))
            removed.clear()
            added.clear()

        for line, heat in zip_longest(self.lines, self.heat, fillvalue=""):
            cell = CodeCell(line[2:], heat)
            if line.startswith("-"):
                if added:
                    flush()
                removed.append(cell)
            elif line.startswith("+"):
                added.append(cell)
            else:
                flush()
                rows.append(("place", cell, CodeCell("")) if line.startswith("@") else ("same", cell, cell))
        flush()
        return rows


@dataclass
class Section:
    """One part of the page. verdict: a word that gets a colour. lines, notes: before the tables and after them.
    charts: each with its heading. key: figures that stand out, before everything else. drawings: each with its
    caption. parts: under headings of their own, always in sight; details: folded. commands: how to reproduce it."""

    title: str
    verdict: str = ""
    lines: list[str] = field(default_factory=list)
    tables: list[tuple[str, Table]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    charts: list[tuple[str, Plot]] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    details: list[Section] = field(default_factory=list)
    key: list[Key] = field(default_factory=list)
    drawings: list[tuple[str, Markup]] = field(default_factory=list)
    parts: list[Section] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    is_folded: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its details are shown unfolded. What changed nothing can wait."""
        return not self.is_folded and self.verdict not in ("SAME", "PASS")

    def figures(self) -> int:
        """Charts in it and its details."""
        return len(self.charts) + sum(part.figures() for part in (*self.parts, *self.details))


def facts(device: str, driver: str, driver_version: int, when: str) -> Table:
    """Where and when something was found, as far as the document knows."""
    version = f"CUDA {cuda_version(driver_version)}" if driver_version else ""
    rows: list[list[object]] = [
        ["device", shown(device)],
        ["driver", ", ".join(shown(text) for text in (driver, version) if text)],
        ["when", shown(when)],
    ]
    return Table(["", ""], [row for row in rows if row[1]])


def scaled(values: list[float]) -> tuple[list[float], str]:
    """In the unit that suits the largest."""
    divisor, unit = scale(values)
    return [value / divisor for value in values], unit


def more(items: Sequence[object], most: int, what: str) -> list[str]:
    """A line about those that are not shown, where there are any."""
    return [f"... and {len(items) - most:,} more {what}"] if len(items) > most else []


def scale(values: list[float]) -> tuple[float, str]:
    """The divisor that leaves the largest with at least one, and its unit."""
    top = max(values, default=1.0)
    return next(((d, u) for d, u in _SCALES if top >= d), (1.0, "ns"))


def worst(verdicts: Iterator[str], order: tuple[str, ...]) -> str:
    """The first in `order` of those found."""
    found = set(verdicts)
    return next((verdict for verdict in order if verdict in found), "")
