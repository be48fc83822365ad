"""`replay explain`: what a result is evidence of, what it is not, and what to do next, for people and for assistants.

Every sentence follows from a field of the result; none guesses beyond it. Who reads it has seen nothing of the command
that made the result, so each says with which snapshot, device, driver and day it came about.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from replay.difference import CodeFiles
from replay.errors import UsageError
from replay.report.explain.evaluations import explain_evaluation
from replay.report.explain.replays import explain_failure, explain_run
from replay.report.explain.series import explain_check, explain_history
from replay.report.explain.verdicts import explain_bisection, explain_comparison
from replay.report.html.sources import Sources, read_sources
from replay.results.explanation import Explained
from replay.text import NO_BREAK, Screen, heading, shown, with_units

WIDEST = 100  # columns, also into a pipe: it is read, not cut
_LABELS = (
    ("evidence", "Evidence"),
    ("conditions", "Made"),
    ("checked", "Checked"),
    ("unchecked", "Not checked"),
    ("next", "Next"),
)
_INDENT = 15


def explain(paths: Sequence[Path | str]) -> list[Explained]:
    """What each file or folder is evidence of, in their order. Snapshots and images are where code is looked up. Raises
    what `read_sources` raises, UsageError when there is nothing but those."""
    sources = [(str(path), read_sources([path])) for path in paths]
    files = CodeFiles(
        [snapshot for _, found in sources for snapshot in found.snapshots],
        [image for _, found in sources for image in found.images],
        [image for _, found in sources for image in found.kept],
    )
    items = [item for source, found in sources for item in _of(source, found, files)]
    if files.given and not items:
        raise UsageError(
            "a snapshot by itself is no finding",
            where=paths[0],
            next="`replay info` describes it, `replay run` replays it",
        )
    return items


def _of(source: str, found: Sources, files: CodeFiles) -> Iterator[Explained]:
    of_tunings = (item.compared for item in found.tunings if item.compared is not None)
    yield from (explain_comparison(source, item, files) for item in (*found.comparisons, *of_tunings))
    yield from (explain_bisection(source, item, files) for item in found.bisections)
    yield from (explain_check(source, item) for item in found.checks)
    yield from (explain_evaluation(source, item) for item in found.evaluations)
    yield from (explain_run(source, item, files) for item in found.results)
    yield from (explain_failure(source, text) for text in found.failures)
    yield from (explain_history(source, item) for item in found.histories)


def paragraph(item: Explained) -> str:
    """Everything as one text."""
    parts = [f"{shown(item.source)}: {item.title}: {item.verdict}."]
    for name, label in _LABELS:
        if texts := getattr(item, name):
            parts.append(f"{label}: {' '.join(map(_sentence, texts))}")
    return " ".join(parts)


def render_explanation(item: Explained, screen: Screen) -> str:
    """For people: the verdict, then what it rests on, each under its label."""
    width = min(screen.width, WIDEST)
    fill = textwrap.TextWrapper(width, break_on_hyphens=False, break_long_words=screen.is_terminal)
    lines = fill.wrap(f"{shown(item.source)}: {item.title}")
    verdict = _sentence(item.verdict[:1].upper() + item.verdict[1:])
    lines += [
        heading(line, screen, item.verdict.removeprefix("outputs "))
        for line in fill.wrap(with_units(verdict))
    ]
    for name, label in _LABELS:
        for number, text in enumerate(getattr(item, name)):
            fill.initial_indent = f"  {'' if number else label:<{_INDENT - 2}}"
            fill.subsequent_indent = " " * _INDENT
            lines += fill.wrap(with_units(_sentence(text)))
        fill.initial_indent = fill.subsequent_indent = ""
    return "\n".join(lines).replace(NO_BREAK, " ")


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."
