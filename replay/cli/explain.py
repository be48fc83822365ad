"""`replay explain`: the evidence in short text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Json, Quiet


def explain(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Results (.rres), folders of them, and what `compare` and `bisect` print with --json.",
            show_default=False,
        ),
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say in a few sentences what a result is evidence of, and what it is not.

    For people and for assistants: every sentence follows from a field of the result.
    """
    import sys
    import textwrap

    from replay.report.explain import explain as sentences
    from replay.report.html.sources import read_sources
    from replay.report.json import print_document
    from replay.report.text import Screen
    from replay.results.documents import EXPLANATION

    paragraphs = sentences(read_sources(inputs))
    if json:
        print_document(EXPLANATION, {"paragraphs": paragraphs})
        return
    width = Screen.of_stdout().width if sys.stdout.isatty() else 100_000
    for number, paragraph in enumerate(paragraphs):
        if number:
            print()
        print(paragraph.split(". ")[0] if quiet else textwrap.fill(paragraph, width, break_on_hyphens=False))


def register(app: typer.Typer) -> None:
    """Add `replay explain`."""
    app.command("explain")(explain)
