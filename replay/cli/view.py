"""`replay view`: the pages of a folder in the browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Quiet, flag, option

EXAMPLES = ("replay view", "replay view results/ slow.rsnap --port 8123 --no-open")


def view(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...",
            help="Snapshots, results, documents that commands wrote with -o, and folders of them.",
            show_default="this folder",
        ),
    ] = None,
    port: Annotated[
        int, option("PORT", "The port to listen at.", min=0, max=65535, show_default="a free one")
    ] = 0,
    show: Annotated[bool, flag("--open/--no-open", "Show the list in the browser.")] = True,
    quiet: Quiet = False,
) -> int:
    """Show the pages of snapshots, results and histories in the browser.

    They are made when they are asked for, and served on the loopback interface alone, to be read and nothing else, to
    who has the address that is printed. Nothing is replayed. Ctrl-C ends it.
    """
    from contextlib import nullcontext

    from replay.library.viewing.opening import opened
    from replay.library.viewing.server import Viewer

    with (
        Viewer(paths or [Path()], port) as viewer,
        opened(viewer.address) if show else nullcontext(True) as there,
    ):
        if not quiet or not show or not there:
            print(f"replay: {viewer.address} has the pages; Ctrl-C ends it", file=sys.stderr, flush=True)
        viewer.serve_forever()
    return 0
