"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SnapshotPath = Annotated[Path, typer.Argument(metavar="SNAP", help="The .rsnap file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document with a versioned schema.")]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but what was asked for and errors.")
]
