"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

SnapshotPath = Annotated[Path, typer.Argument(metavar="SNAP", help="The .rsnap file.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document with a versioned schema.")]
Window = Annotated[
    Optional[int],  # noqa: UP045 (typer on Python 3.10)
    typer.Option("--window", metavar="N", min=1, help="Only this window, of a snapshot that has several."),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but what was asked for and errors.")
]
