"""`replay explain`: the evidence in short text."""

from __future__ import annotations

from typing import Annotated

import typer

from replay.cli.common import Json, Quiet


def explain(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Results (.rres), folders or URLs of them, and what `run`, `compare`, `bisect`, `check` and `history` "
            "print with --json. Snapshots and images beside them are where the code of sides is looked up.",
        ),
    ],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a result is evidence of, what was not checked, and what to do next.

    For people and for assistants that did not see the command: every sentence follows from a field of the result.
    -q prints the verdict of each.
    """
    from replay.report.explain import explain as explained
    from replay.report.explain import paragraph, render_explanation
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.results.documents import EXPLANATION
    from replay.results.explanation import ExplanationPrinted
    from replay.text import Screen, shown

    items = explained(inputs)
    if json:
        print_document(EXPLANATION, ExplanationPrinted([paragraph(item) for item in items], items))
    elif quiet:
        put("\n".join(f"{shown(item.source)}: {item.verdict}" for item in items))
    else:
        put("\n\n".join(render_explanation(item, Screen.of_stdout()) for item in items))
