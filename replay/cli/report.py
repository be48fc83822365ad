"""`replay report`: a page, or text for a bug report, of what other commands found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from replay.cli.common import Quiet


def report(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Results (.rres), folders of them, and what `compare` and `bisect` print with --json.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Optional[Path],  # noqa: UP045 (typer on Python 3.10)
        typer.Option("-o", "--output", metavar="PAGE.html", help="Write an HTML page.", show_default=False),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a bug report.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make one offline HTML page, or Markdown, of comparisons, bisections, histories and results.

    The page has no script and loads nothing; it can be attached to a bug report.
    """
    from replay.errors import UsageError
    from replay.report.html.sources import read_sources
    from replay.results.store import require_place, write_whole

    if output is None and not markdown:
        raise UsageError("nothing to make", next="-o PAGE.html writes a page, --markdown prints text")
    if output is not None:
        require_place(output)
    sources = read_sources(inputs)
    if output is not None:
        from replay.report.html.page import render_page

        write_whole(output, render_page(sources).encode())
        if not quiet:
            print(f"replay: {output}: {output.stat().st_size:,} bytes", file=sys.stderr)
    if markdown:
        from replay.report.markdown import render_markdown

        print(render_markdown(sources))


def register(app: typer.Typer) -> None:
    """Add `replay report`."""
    app.command("report")(report)
