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


def seconds(text: str) -> float:
    """A time such as `90s`, `5m`, `1.5h`, or `90` in seconds. Raises UsageError."""
    from replay.errors import UsageError

    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise UsageError(f"{text!r} is no time", next="write 90s, 5m or 1h")
    return value
