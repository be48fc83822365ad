"""`replay trigger`: ask a capture that waits for it for a snapshot."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from replay.cli.common import Quiet

EXAMPLES = ("replay capture --when signal -o now.rsnap -- python serve.py", "replay trigger 4711")


def trigger(
    pid: Annotated[
        int,
        typer.Argument(metavar="PID", help="The application, or the `replay capture` that runs it.", min=1),
    ],
    quiet: Quiet = False,
) -> int:
    """Ask a capture that waits for it (`capture --when signal`) for a snapshot of the next launch.

    The launch is one of those that the capture was asked for; the snapshot is written when the application has ended.
    """
    from replay.capture.asked import ask
    from replay.text import number

    asked = ask(pid)
    if not quiet:
        print(
            f"replay: asked {number(len(asked), 'process', 'processes')}: {', '.join(map(str, asked))}",
            file=sys.stderr,
        )
    return 0
