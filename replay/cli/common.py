"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from replay.report.output import ask_for_json

SnapshotPath = Annotated[Path, typer.Argument(metavar="SNAP", help="The .rsnap file.", show_default=False)]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document with a versioned schema.", callback=ask_for_json),
]
Window = Annotated[
    Optional[int],  # noqa: UP045 (typer on Python 3.10)
    typer.Option("--window", metavar="N", min=1, help="Only this window, of a snapshot that has several."),
]
StateFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--state",
        "--resume",
        metavar="FILE",
        help="Keep what is known here, and go on from it.",
        show_default=False,
    ),
]
ResultFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder of results (.rres).", show_default=False)
]
OfKernels = Annotated[
    str, typer.Option("--kernel", metavar="REGEX", help="Only these kernels.", show_default=False)
]
OfDevices = Annotated[
    str, typer.Option("--device", metavar="REGEX", help="Only these devices.", show_default=False)
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer samples in each replay, for a first look.")]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, metavar="S", help="Seconds without progress after which a replay is killed."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Let the snapshot do what you may do: its worker is not confined."),
]
DEFAULT_TIMEOUT_S = 300.0


def driver_option(help: str) -> Any:
    """`--driver`. help: what the driver is for."""
    return typer.Option(
        "--driver", metavar="system|emulator|DIR", help=help, show_default="a GPU's if there is one"
    )


ReplayDriver = Annotated[Optional[str], driver_option("The driver to replay on.")]  # noqa: UP045
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but what was asked for and errors.")
]


# Options that say where a result goes, not how it comes about -> whether a value follows
_ABOUT_THE_OUTPUT = {
    "-o": True, "--output": True, "--history": True, "--state": True, "--resume": True, "--junit": True, "--in": True,
    "--save-outputs": True, "--json": False, "-q": False, "--quiet": False, "--github": False, "--save-all": False,
}  # fmt: skip


def reproduction() -> list[str]:
    """The command that runs, as words after `replay`, without what only says where its result goes."""
    from replay.cli import typed

    kept: list[str] = []
    words = iter(typed())
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in _ABOUT_THE_OUTPUT:
            kept.append(word)
        elif _ABOUT_THE_OUTPUT[name] and not equals:
            next(words, None)
    return kept


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
