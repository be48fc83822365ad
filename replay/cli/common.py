"""Options that several commands share, declared once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from replay.report.streams.output import ask_for_all, ask_for_json


def flag(name: str, help: str) -> Any:
    """An option without a value, which has a form `--no-` only where its name says so."""
    return typer.Option(name, help=help)


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value. names: where the parameter has another one. more: as `typer.Option` takes it."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


class Url(str):
    """Where a snapshot is to be downloaded from, before the command begins."""


def path_or_url(text: str) -> Path:
    """An argument of a command: a path, or for a moment a `Url`."""
    return Url(text) if "://" in text[:10] else Path(text)  # type: ignore[return-value]


SNAPSHOT_HELP = "The .rsnap file, or https://...#sha256=HEX of one."
SnapshotPath = Annotated[Path, typer.Argument(metavar="SNAP", help=SNAPSHOT_HELP, parser=path_or_url)]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document with a versioned schema.", callback=ask_for_json),
]
DocumentFile = Annotated[
    Path | None, option("FILE.json", "Write the JSON document to a file.", "-o", "--output")
]
Window = Annotated[
    int | None, option("N", "Only this window, of a snapshot that has several.", "--window", min=1)
]
Open = Annotated[bool, flag("--open", "Show the page in the browser.")]
StateFile = Annotated[Path | None, option("FILE", "Keep what is known here, and go on from it.", "--state")]
ResultFolder = Annotated[
    str, typer.Argument(metavar="DIR|URL", help="A folder of results (.rres), or the URL of one.")
]
OfKernels = Annotated[str, option("REGEX", "Only these kernels.", "--kernel")]
OfDevices = Annotated[str, option("REGEX", "Only these devices.", "--device")]
Tolerance = Annotated[
    str, option("auto|bitwise|T", "How far outputs may be off: `4ulp`, `1e-5` (relative), `abs=1e-6`.")
]
MinimumEffect = Annotated[
    float, option("FRACTION", "Smaller changes are SAME.", "--min-effect", min=0.0001, max=1.0)
]
Rounds = Annotated[
    int | None,
    option("N", "Exactly so many rounds.", min=1, show_default="until the verdict is clear, at most 28"),
]
RoundBudget = Annotated[str, option("TIME", "No round begins after this: 90s, 5m, 1h.")]
Device = Annotated[int, option("N", "Ordinal of the device.", min=0)]
Samples = Annotated[
    int | None, option("N", "Exactly so many samples in each replay.", min=1, show_default="until stable")
]
Quick = Annotated[bool, flag("--quick", "Fewer samples in each replay, for a first look.")]
Timeout = Annotated[str, option("TIME", "Time without progress after which a replay is killed: 90s, 5m, 1h.")]
Trust = Annotated[bool, flag("--trust", "Let the snapshot do what you may do: its worker is not confined.")]
Untrusted = Annotated[
    bool, flag("--untrusted", "The swapped kernel may be made to deceive: check what only a cheat would do.")
]
VaryInputs = Annotated[
    int | None,
    option(
        "N",
        "Compare with the captured kernel on so many other inputs, too.",
        "--vary-inputs",
        min=0,
        show_default="1 with --untrusted",
    ),
]
DEFAULT_TIMEOUT = "5m"


def _named(field: str) -> Callable[[Any], Any]:
    """A callback that tells `replay.store` what the user named."""

    def tell(given: Any) -> Any:
        from replay.store.named import by_options

        setattr(by_options, field, given if isinstance(given, bool) else tuple(given or ()))
        return given

    return tell


Stores = Annotated[
    list[str] | None,
    option(
        "STORE", "Look for contents that are elsewhere in this folder or URL. May be repeated.", "--store",
        show_default="REPLAY_STORE, and replay-store beside the snapshot",
        callback=_named("stores"),
    ),
]  # fmt: skip
Weights = Annotated[
    list[str] | None,
    option(
        "FILE|ID", "Take contents out of this safetensors file, folder or Hugging Face model. May be repeated.",
        "--weights", callback=_named("weights"),
    ),
]  # fmt: skip
Offline = Annotated[
    bool, typer.Option("--offline", help="Ask no store that is a URL.", callback=_named("offline"))
]


def driver_option(help: str) -> Any:
    """`--driver`. help: what the driver is for."""
    return typer.Option(
        "--driver", metavar="system|emulator|DIR", help=help, show_default="a GPU's if there is one"
    )


ReplayDriver = Annotated[str | None, driver_option("The driver to replay on.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "-v", "--verbose", help="Print all rows of what is otherwise cut short.", callback=ask_for_all
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but what was asked for and errors.")
]


# Options that say where a result goes, not how it is found -> whether a value follows
_ABOUT_THE_OUTPUT = {
    "-o": True, "--output": True, "--history": True, "--state": True, "--junit": True, "--sarif": True, "--logs": True,
    "--save-outputs": True, "--open": False, "--json": False, "-q": False, "--quiet": False, "-v": False,
    "--verbose": False, "--github": False, "--save-all": False,
}  # fmt: skip


def show_page(path: Path) -> None:
    """Show a page that was written, and say where it is when there is no browser."""
    from replay.library.viewing.opening import open_page
    from replay.text import shown

    if not open_page(path):
        print(f"replay: no browser was found; open {shown(path)} in one", file=sys.stderr)


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


def trusted(trust: bool, untrusted: bool) -> bool | None:
    """What `--trust` and `--untrusted` say: True, False, or None for neither. Raises UsageError for both."""
    from replay.errors import UsageError

    if trust and untrusted:
        raise UsageError("--trust and --untrusted exclude each other")
    return True if trust else False if untrusted else None


def seconds(text: str, option: str) -> float:
    """A time such as `90s`, `5m`, `1.5h`, `7d`, or `90` in seconds. Raises UsageError, which names the option."""
    from replay.text import parse_time

    return parse_time(text, option)
