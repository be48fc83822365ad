"""`replay attach`: make the folder for an issue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Json,
    Open,
    Quiet,
    ReplayDriver,
    SnapshotPath,
    Timeout,
    flag,
    option,
    show_page,
)

EXAMPLES = (
    "replay attach x.rsnap --symptom 'the last element is wrong'",
    "replay attach x.rsnap c.json -o issue --level noise --max 25M",
)


def attach(
    snapshot: SnapshotPath,
    found: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOUND...",
            help="What `run`, `compare` and `bisect` wrote with -o, and code of variants (.ptx, .cubin, .fatbin, "
            ".cu). Left out: the snapshot is replayed.",
        ),
    ] = None,
    output: Annotated[
        Path | None, option("FOLDER", "The new folder.", "-o", "--output", show_default="NAME-issue")
    ] = None,
    level: Annotated[
        str | None,
        option(
            "none|paths|noise|shapes",
            "What is taken out first, as `redact` does it.",
            show_default="paths, or none of a redacted one",
        ),
    ] = None,
    symptom: Annotated[str, option("TEXT", "What is wrong, in your words; may be Markdown.")] = "",
    maximum: Annotated[
        str | None, option("SIZE", "Split the snapshot into files of at most this size: 25M.", "--max")
    ] = None,
    driver: ReplayDriver = None,
    no_replay: Annotated[
        bool, flag("--no-replay", "Neither prove the redaction nor look for a symptom.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    show: Open = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make the folder for an issue: the redacted snapshot, a text, a page, and checksums.

    The text has the symptom, the environment, and the command that shows it; the CPU driver replays it without a GPU
    and without CUDA.

    Exit code 0: written; 1: the redacted snapshot does not do the same, and nothing is written; 3: could not.
    """  # fmt: skip
    from replay.attach.folder import PAGE, AttachOptions
    from replay.attach.folder import attach as make
    from replay.cli.common import seconds
    from replay.report.attach import render_attached
    from replay.report.streams.json import nothing, print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import ATTACH
    from replay.text import parse_size

    options = AttachOptions(
        level, tuple(found or ()), symptom, None if maximum is None else parse_size(maximum, "--max"), driver,
        not no_replay, seconds(timeout, "--timeout"),
    )  # fmt: skip
    with StageLine(hidden=quiet or json) as line:
        folder = output or Path(f"{snapshot.stem}-issue")
        made = make(snapshot, folder, options, line.show)
    print_result(ATTACH, made, json, render_attached, brief=nothing if quiet else None)
    if show:
        show_page(folder / PAGE)
    return 0
