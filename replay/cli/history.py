"""`replay history`: how long kernels took over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from replay.cli.common import Json, OfDevices, OfKernels, Quiet, ResultFolder, flag, option


def history(
    folder: ResultFolder,
    kernel: OfKernels = "",
    device: OfDevices = "",
    last: Annotated[
        int | None, option("N", "Only the last N results of each.", min=1, show_default="all")
    ] = None,
    as_csv: Annotated[bool, flag("--csv", "Print every result as a line of CSV.")] = False,
    pack: Annotated[bool, flag("--pack", "Put the results into one file, which is quick to index.")] = False,
    unpack: Annotated[
        Path | None, option("NEW", "Write the results of packs into this new folder, a file for each.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List kernels over time, draw their course, and mark where their level changed.

    `replay run SNAP --history DIR` adds a result to the folder.
    """
    from replay.errors import UsageError
    from replay.fleet.sharing.mirror import look_at
    from replay.fleet.sharing.results import view_of
    from replay.history.series import packed, unpacked
    from replay.report.history import history_csv, render_history
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.results.documents import HISTORY
    from replay.text import Screen

    if as_csv and json:
        raise UsageError("--csv and --json exclude each other")
    if pack or unpack is not None:
        if pack and unpack is not None:
            raise UsageError("--pack and --unpack exclude each other")
        if as_csv or json:
            raise UsageError("--pack and --unpack print no results", next="leave --csv and --json out")
        place = look_at(folder)
        if pack and place.url:
            raise UsageError("changes files, and those at a URL stay as they are", where="--pack",
                             next="copy the folder, pack it there, and copy it back")  # fmt: skip
        put(packed(place.folder) if unpack is None else unpacked(place.folder, unpack))
        return
    view = view_of(folder, kernel, device, last)
    if json:
        print_document(HISTORY, view)
    elif as_csv:
        put(history_csv(view))
    elif quiet:
        for item in view.series:
            for change in item.changes:
                put(f"{item.kernel}: {(change.ratio - 1) * 100:+.1f} % on {change.created_utc}")
    else:
        put(render_history(view, Screen.of_stdout()))
