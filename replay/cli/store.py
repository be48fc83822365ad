"""`replay store gc`: list or delete pieces of a store that no snapshot needs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Json, Quiet, flag, option

EXAMPLES = [
    "replay store gc /data/replay-store /data/snapshots ~/bugs",
    "replay store gc s3://bucket/replay /data/snapshots --delete",
]


class Action(str, Enum):
    """What to do with a store."""

    gc = "gc"


def store(
    action: Annotated[Action, typer.Argument(metavar="gc", help="What to do.")],
    name: Annotated[str, typer.Argument(metavar="STORE", help="The store: a folder or a URL.")],
    roots: Annotated[
        list[Path], typer.Argument(metavar="ROOT...", help="Every folder of snapshots that use it.")
    ],
    delete: Annotated[bool, flag("--delete", "Delete them. Without it they are only listed.")] = False,
    grace: Annotated[
        str, option("TIME", "Keep what was written or asked for in this time: 30d, 12h.", "--grace")
    ] = "7d",
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List pieces of a store that no snapshot under the roots needs; with --delete, delete them.

    A snapshot that is in none of the roots loses its contents: name every folder. When one of the snapshots cannot be
    read, nothing is deleted.
    """
    from replay.cli.common import seconds
    from replay.fetching.unused import find_unused
    from replay.report.store import render_unused
    from replay.report.streams.json import nothing, print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import STORE_GC

    grace_s = 0.0 if grace == "0" else seconds(grace, "--grace")
    with StageLine(hidden=quiet or json) as line:
        found = find_unused(name, roots, grace_s=grace_s, delete=delete, progress=line.show)
    text = lambda value, screen: render_unused(value, screen, delete)  # noqa: E731
    print_result(STORE_GC, found, json, text, brief=nothing if quiet else None)
    return 0
