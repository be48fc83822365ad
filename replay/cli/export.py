"""`replay export`: write a window as a program of its own, in C++ or Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from replay.cli.common import Json, Quiet, SnapshotPath, Window, flag, option


def export(
    snapshot: SnapshotPath,
    cuda: Annotated[Path | None, option("DIR", "Write a C++ program on the driver API.", "--cuda")] = None,
    python: Annotated[
        Path | None, option("DIR", "Write a script that needs cuda-python and numpy.", "--python")
    ] = None,
    window: Window = None,
    force: Annotated[bool, flag("--force", "Write into a folder that is not empty.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a window as a program of its own, with its data, that needs nothing of replay.

    The program re-creates the window at its captured addresses, compares its outputs, and times it.

    Exit code 3: the snapshot holds something that cannot be exported; the message says what.
    """
    from replay.errors import UsageError
    from replay.export.folder import export as write
    from replay.report.streams.json import print_document
    from replay.report.streams.progress import StageLine
    from replay.results.documents import EXPORT
    from replay.text import number, shown, size

    chosen = [(name, folder) for name, folder in (("cuda", cuda), ("python", python)) if folder is not None]
    if not chosen:
        raise UsageError(
            "neither --cuda nor --python is given", next="say in which language, and the folder to write"
        )
    if cuda is not None and cuda == python:
        raise UsageError("--cuda and --python name the same folder")
    with StageLine(hidden=quiet or json) as line:
        done = [
            write(snapshot, name, folder, force=force, window=window, progress=line.show)
            for name, folder in chosen
        ]
    if json:
        print_document(EXPORT, done)
    elif not quiet:
        for item in done:
            text = f"{number(len(item.files), 'file')}, {size(item.size_bytes)}, {number(item.steps, 'step')}"
            print(f"replay: wrote {shown(item.folder)} ({text})", file=sys.stderr)
        for text in dict.fromkeys(note for item in done for note in item.notes):
            print(f"  note: {shown(text)}", file=sys.stderr)
    return 0
