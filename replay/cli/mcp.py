"""`replay mcp`: tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from replay.cli.common import flag, option

EXAMPLES = ("replay mcp --root snapshots", "replay mcp --root snapshots --allow-run")


def mcp(
    root: Annotated[
        Path, option("DIR", "The folder that tools may name files in.", show_default="this one")
    ] = Path(),
    allow_run: Annotated[
        bool, flag("--allow-run", "Offer tools that replay: run, compare, bisect, evaluate.")
    ] = False,
) -> int:
    """Serve tools for agents on stdin and stdout: look into snapshots and results of one folder, and replay them.

    A client starts this command; docs/mcp.md has what to write into its settings. It needs the package mcp: `pip
    install 'gpu-replay[mcp]'`. It ends when the client does.
    """
    from replay.errors import EngineError
    from replay.mcp.jobs import Jobs

    try:
        from replay.mcp.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise EngineError(
            "needs the package mcp, version 2 or later",
            where="replay mcp",
            next="pip install 'gpu-replay[mcp]'",
        ) from None
    with Jobs(root.resolve()) as jobs:
        make_server(root, jobs, allow_run).run("stdio")
    return 0
